//! What is known of the processes of one site.

use std::fmt;

use regrow_sites::Usage;
use sketches_ddsketch::{Config, DDSketch};

/// How far a quantile may be from the value that it stands for, as a share of it.
const ACCURACY: f64 = 0.01;
/// Most classes of a sketch. They reach over 17 powers of ten.
const MOST_CLASSES: u32 = 2048;
/// The smallest value that is told from nothing, in microseconds.
const SMALLEST_US: f64 = 0.5;

/// So many values are kept as they are; of more there is a sketch, which takes a kilobyte.
const FEW: usize = 32;

/// The values of a quantity.
#[derive(Clone)]
enum Values {
    Few(Vec<u64>),
    Many(Box<DDSketch>),
}

impl Default for Values {
    fn default() -> Values {
        Values::Few(Vec::new())
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share of 1 % is lost anyway")]
impl Values {
    fn add(&mut self, value_us: u64) {
        match self {
            Values::Few(values) if values.len() < FEW => values.push(value_us),
            Values::Few(values) => {
                let mut sketch = DDSketch::new(Config::new(ACCURACY, MOST_CLASSES, SMALLEST_US));
                values.iter().chain([&value_us]).for_each(|&value| sketch.add(value as f64));
                *self = Values::Many(Box::new(sketch));
            }
            Values::Many(sketch) => sketch.add(value_us as f64),
        }
    }

    /// The value that so many are before in their order.
    fn ranked(&self, rank: u64, count: u64) -> Option<f64> {
        match self {
            Values::Few(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                sorted.get(usize::try_from(rank).ok()?).map(|&value| value as f64)
            }
            // The sketch rounds a rank down; the half is for what a division loses.
            Values::Many(sketch) => {
                sketch.quantile(((rank as f64 + 0.5) / (count - 1) as f64).min(1.0)).ok()?
            }
        }
    }
}

/// The distribution of a quantity of processes, in microseconds. The quantiles of more than a few are within 1 %.
#[derive(Clone, Default)]
pub struct Distribution {
    sum: u64,
    count: u64,
    values: Values,
}

impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distribution")
            .field("sum", &self.sum)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Distribution {
    fn add(&mut self, value_us: u64) {
        self.sum = self.sum.saturating_add(value_us);
        self.count += 1;
        self.values.add(value_us);
    }

    /// The sum of all.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; `None` of nothing.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a mean is shown with three digits")]
    pub fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The smallest value that at least such a share of them does not exceed, 0 to 1; `None` of nothing.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a rank may be off by one among 2^52")]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped to the ranks")]
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let last = self.count.checked_sub(1)?;
        let rank = ((share * self.count as f64).ceil() - 1.0).clamp(0.0, last as f64) as u64;
        self.values.ranked(rank, self.count)
    }
}

/// What is known of the processes of one site.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// How many were created.
    pub count: u64,
    /// How many of them live.
    pub alive: u64,
    /// How many programs they executed.
    pub starts: u64,
    /// How many processes they created themselves.
    pub children: u64,
    /// Their processor time.
    pub cpu: Distribution,
    /// From creation to end.
    pub life: Distribution,
    /// From exec to the call of `main`, of those of which it is known.
    pub startup: Distribution,
    /// The life of these.
    pub started_life_us: u64,
    /// The most memory that one of them had, in KiB; 0: not known.
    pub peak_kib: u64,
}

impl Totals {
    pub(super) fn enter(&mut self, starts: u32) {
        self.count += 1;
        self.alive += 1;
        self.starts += u64::from(starts);
    }

    pub(super) fn leave(&mut self, starts: u32) {
        self.count = self.count.saturating_sub(1);
        self.alive = self.alive.saturating_sub(1);
        self.starts = self.starts.saturating_sub(starts.into());
    }

    pub(super) fn abandon(&mut self) {
        self.alive = self.alive.saturating_sub(1);
    }

    pub(super) fn end(&mut self, usage: &Usage) {
        self.abandon();
        self.cpu.add(usage.cpu_us);
        self.life.add(usage.life_us);
        self.peak_kib = self.peak_kib.max(usage.peak_kib);
        if let Some(startup_us) = usage.startup_us {
            self.startup.add(startup_us);
            self.started_life_us = self.started_life_us.saturating_add(usage.life_us);
        }
    }

    /// Which share of their life is start-up, 0 to 1; `None` where the start-up of none is known.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a share is shown with two digits")]
    pub fn startup_share(&self) -> Option<f64> {
        let share = self.startup.sum_us() as f64 / self.started_life_us.max(1) as f64;
        self.startup.mean_us().map(|_| share.min(1.0))
    }
}
