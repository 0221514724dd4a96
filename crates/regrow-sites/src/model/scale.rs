//! The scale of the model's histograms: 256 positions, eight to an octave.
//!
//! ```text
//!   value      0 1 2 … 15   16  18  20 … 30   32  36 … 60   64 …            2^34 and more
//!   position   0 1 2 … 15   16  17  18 … 23   24  25 … 31   32 …            255
//! ```
//!
//! In microseconds it reaches to 4.8 hours. A position holds values within 12.5 % of one another.

/// How many positions there are.
pub const POSITIONS: usize = 256;
/// Positions of an octave.
const PER_OCTAVE: u32 = 8;
/// The first octave that has so many values.
const FIRST_OCTAVE: u32 = 3;

/// The position of a value.
#[must_use]
pub fn position(value: u64) -> u8 {
    if value < u64::from(PER_OCTAVE) {
        return u8::try_from(value).unwrap_or(u8::MAX);
    }
    let octave = value.ilog2();
    let eighth = (value >> (octave - FIRST_OCTAVE)) & u64::from(PER_OCTAVE - 1);
    let position = u64::from((octave - FIRST_OCTAVE + 1) * PER_OCTAVE) + eighth;
    u8::try_from(position).unwrap_or(u8::MAX)
}

/// The least value of a position; of that behind the last one the end of the scale.
#[must_use]
pub const fn edge(position: usize) -> u64 {
    let eighths = PER_OCTAVE as usize;
    if position < eighths {
        return position as u64;
    }
    ((eighths + position % eighths) as u64) << (position / eighths - 1)
}

/// The value at a point of the scale, which may lie between two positions: position `p` holds the values from `value(p)` to below `value(p + 1)`.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a place on the scale"
)]
pub fn value(point: f32) -> f64 {
    let point = point.clamp(0.0, 256.0);
    let position = (point as usize).min(POSITIONS - 1);
    let (low, high) = (edge(position) as f64, edge(position + 1) as f64);
    low + (high - low) * f64::from(point - position as f32)
}

/// The point of the scale at which a value stands; that of the end for all that lie beyond.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a place on a coarse scale")]
pub fn point(whole: u64) -> f32 {
    let position = position(whole);
    let (low, high) = (value(f32::from(position)), value(f32::from(position) + 1.0));
    let inside = ((whole as f64 - low) / (high - low)).clamp(0.0, 1.0);
    f32::from(position) + inside as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "the values are small, or powers of two")]
    fn every_value_lies_in_its_position() {
        let values = (0..5000_u64).chain((3..34).flat_map(|octave| {
            let base = 1_u64 << octave;
            [base - 1, base, base + 1, base + base / 8, base + base / 8 - 1]
        }));
        for whole in values {
            let position = f32::from(position(whole));
            let (low, high) = (value(position), value(position + 1.0));
            assert!(low <= whole as f64 && (whole as f64) < high, "{whole} in {position}: {low} to {high}");
            assert!(high <= low * 1.125 + 1.0, "{whole}: {low} to {high}");
        }
        assert_eq!((position(15), position(16), position(17), position(18)), (15, 16, 16, 17));
        assert_eq!((position(1 << 34), position(u64::MAX)), (255, 255));
    }

    #[test]
    fn points_lie_between_positions() {
        assert!((point(1_000) - point(1_001)).abs() < 0.02);
        for whole in [0, 1, 7, 8, 100, 12_345, 1 << 33] {
            let back = value(point(whole));
            #[expect(clippy::cast_precision_loss, reason = "a small difference is allowed")]
            let whole = whole as f64;
            assert!((back - whole).abs() <= whole * 1e-4, "{whole}: {back}");
        }
        assert_eq!(point(u64::MAX), 256.0);
    }
}
