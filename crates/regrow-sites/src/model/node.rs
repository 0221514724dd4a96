//! What is known of one key: histograms of its runs, in 56 bytes.

use super::chain::Identity;
use super::histogram::Histogram;
use super::level::Level;
use super::scale::position;
use crate::event::Usage;

/// What a run used, as positions of the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sample {
    pub(super) cpu: u8,
    pub(super) life: u8,
    /// `None`: not known.
    pub(super) peak: Option<u8>,
    /// The share of its life before `main`, in 255ths; `None`: not known.
    pub(super) startup: Option<u8>,
}

impl Sample {
    pub(super) fn of(usage: &Usage) -> Sample {
        let share = |startup_us: u64| {
            let share = u128::from(startup_us.min(usage.life_us)) * 255 / u128::from(usage.life_us.max(1));
            u8::try_from(share).unwrap_or(u8::MAX)
        };
        Sample {
            cpu: position(usage.cpu_us),
            life: position(usage.life_us),
            peak: (usage.peak_kib > 0).then(|| position(usage.peak_kib)),
            startup: usage.startup_us.map(share),
        }
    }
}

/// The histograms of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Runs {
    pub(super) cpu: Histogram<8>,
    pub(super) life: Histogram<6>,
    pub(super) peak: Histogram<3>,
    pub(super) startup: Histogram<2>,
}

impl Runs {
    /// Adds a run; `number` is another one for each.
    pub(super) fn add(&mut self, sample: &Sample, number: u64) {
        self.cpu.add(sample.cpu, number);
        self.life.add(sample.life, number);
        if let Some(peak) = sample.peak {
            self.peak.add(peak, number);
        }
        if let Some(startup) = sample.startup {
            self.startup.add(startup, number);
        }
    }

    /// How many count.
    pub(super) fn total(&self) -> u32 {
        self.cpu.total()
    }

    pub(super) fn join(&mut self, other: &Runs) {
        self.cpu.join(&other.cpu);
        self.life.join(&other.life);
        self.peak.join(&other.peak);
        self.startup.join(&other.startup);
    }
}

/// A key, with what is known of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// What its key adds to its parent's; 0 for the first site of a parent that is split, while no part of its own is known.
    pub(super) part: u32,
    /// The key that it is more special than.
    pub(super) parent: u16,
    /// How many nodes have it as their parent; of an image's node, all below it.
    pub(super) children: u16,
    /// The first site that it has seen; the only one, unless it is split.
    pub(super) identity: Identity,
    /// Its level; that of its parent where it has no part.
    pub(super) level: Level,
    /// It has seen more than one site: they have keys of their own.
    pub(super) is_split: bool,
    /// When it was last used, in epochs.
    pub(super) epoch: u8,
    pub(super) runs: Runs,
}

/// The root's own parent.
pub(super) const NO_PARENT: u16 = u16::MAX;
/// The part of a node that has none.
pub(super) const NO_PART: u32 = 0;

impl Node {
    /// A key that has seen one site.
    pub(super) fn new(parent: u16, level: Level, part: u32, identity: Identity) -> Node {
        let runs = Runs::default();
        Node { part, parent, children: 0, identity, level, is_split: false, epoch: 0, runs }
    }
}

const _: () = assert!(size_of::<Node>() <= 56);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_says_what_is_known() {
        let usage = Usage { cpu_us: 900, life_us: 1000, peak_kib: 0, startup_us: None };
        let sample = Sample::of(&usage);
        assert_eq!((sample.peak, sample.startup), (None, None));
        let usage = Usage { peak_kib: 15, startup_us: Some(500), ..usage };
        assert_eq!((Sample::of(&usage).peak, Sample::of(&usage).startup), (Some(15), Some(127)));
        let odd = Usage { startup_us: Some(u64::MAX), life_us: 0, cpu_us: u64::MAX, peak_kib: u64::MAX };
        assert_eq!(Sample::of(&odd), Sample { cpu: 255, life: 0, peak: Some(255), startup: Some(0) });
        let mut runs = Runs::default();
        runs.add(&sample, 0);
        assert_eq!((runs.total(), runs.peak.total()), (1, 0));
    }
}
