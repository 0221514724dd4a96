//! What something is worth: the start-up time that it is expected to save, against the bytes that it takes.

use std::cmp::Ordering;

/// Start-up time that something is expected to save in an hour, and the bytes that it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worth {
    saves_us_per_hour: u64,
    bytes: u64,
}

/// The policy gives something back for something else only when that is worth this much more, in percent: it would swap
/// equals for ever.
const MORE_PERCENT: u128 = 150;

impl Worth {
    pub(super) fn new(saves_us: u64, per_hour: u64, bytes: u64) -> Worth {
        Worth { saves_us_per_hour: saves_us.saturating_mul(per_hour), bytes: bytes.max(1) }
    }

    /// Microseconds for each mebibyte that is held for an hour.
    pub(super) fn per_mib_hour(self) -> u64 {
        let worth = u128::from(self.saves_us_per_hour) * (1 << 20) / u128::from(self.bytes);
        u64::try_from(worth).unwrap_or(u64::MAX)
    }

    /// By what is saved for each byte.
    pub(super) fn order(self, other: Worth) -> Ordering {
        let left = u128::from(self.saves_us_per_hour) * u128::from(other.bytes);
        left.cmp(&(u128::from(other.saves_us_per_hour) * u128::from(self.bytes)))
    }

    /// Whether it may go for something else.
    pub(super) fn gives_way_to(self, other: Worth) -> bool {
        let own = u128::from(self.saves_us_per_hour) * u128::from(other.bytes);
        own * MORE_PERCENT / 100 < u128::from(other.saves_us_per_hour) * u128::from(self.bytes)
    }
}
