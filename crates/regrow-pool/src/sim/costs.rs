//! The costs in the simulator: times and bytes, as a table that is stored as JSON.
//!
//! The times of a creation are linear in the sizes of the program, as in the papers' table 3:
//!
//! ```text
//!  nothing kept       each + whole
//!  image there        each + whole − image_saves
//!  shell, regions     each + whole − shell_saves − the regions'
//!  ready body         each + ready + pages that are not mapped in it
//! ```
//!
//! `programs` has figures of programs that were measured one by one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::Facts;
use crate::trace::Creation;

/// A time that grows with the sizes of a program: a constant, and more for each KiB.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Linear {
    /// The constant, in microseconds.
    pub us: f64,
    /// Microseconds for each KiB of the image.
    pub us_per_image_kib: f64,
    /// Microseconds for each KiB that is copied on the first write.
    pub us_per_copied_kib: f64,
    /// Microseconds for each KiB that is zero at first.
    pub us_per_zeroed_kib: f64,
}

/// The sizes of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// The image, which all bodies share: the papers' text.
    pub image_kib: u64,
    /// Memory with a first content that a run writes to: the papers' data.
    pub copied_kib: u64,
    /// Memory that is zero at first and that a run writes to: the papers' BSS and stack.
    pub zeroed_kib: u64,
}

/// The figures of one program.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramCosts {
    /// Its sizes.
    pub sizes: Sizes,
    /// Its start with nothing kept, in microseconds, where that was measured.
    #[serde(default)]
    pub whole_us: Option<f64>,
    /// Its start when the image is there, in microseconds, where that was measured.
    #[serde(default)]
    pub image_us: Option<f64>,
    /// Its start in a ready body, in microseconds, where that was measured.
    #[serde(default)]
    pub ready_us: Option<f64>,
    /// The making of its image with the first body, in microseconds, where that was measured.
    #[serde(default)]
    pub make_us: Option<f64>,
    /// How long it works by itself before the next creation, in microseconds. That is no start-up time.
    #[serde(default)]
    pub own_us: f64,
}

/// How the second process of a program profits from the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Its body is forked from the image: shells and regions do not help it, and its pages are not mapped yet.
    Fork,
    /// It shares the text with a running process; all else is made, and shells and regions help.
    Text,
}

/// Where the work runs that no process waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Background {
    /// On another processor: it only delays the moment when something is ready.
    Beside,
    /// On the only processor: its time is added to that of the creations.
    Shared,
}

/// The table of costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// What every process costs, in a body or not, in microseconds.
    pub each_us: f64,
    /// A start with nothing kept.
    pub whole: Linear,
    /// A start in a ready body.
    pub ready: Linear,
    /// What a present image saves.
    pub image_saves: Linear,
    /// What a shell saves, in microseconds.
    pub shell_saves_us: f64,
    /// What a region of the pool saves, in microseconds.
    pub region_saves_us: f64,
    /// The same for each KiB of it.
    pub region_saves_us_per_kib: f64,
    /// What a fault costs for a page that a run touches, in microseconds for each KiB.
    pub fault_us_per_kib: f64,
    /// How long a creation waits, at most, for a body that is being put back, in microseconds.
    pub patience_us: f64,
    /// How late, at most, the policy learns of the end of a process while others are created, in microseconds: the engine
    /// lets no creation wait for that. Zero: at once.
    #[serde(default)]
    pub told_late_us: f64,
    /// Putting a body back after a run.
    pub reset: Linear,
    /// Making a further body, in microseconds.
    pub add_body_us: f64,
    /// Making the image before that, where it is not there, in microseconds.
    pub make_image_us: f64,
    /// Making a shell, in microseconds.
    pub add_shell_us: f64,
    /// Breaking a body up, in microseconds.
    pub break_up_us: f64,
    /// Destroying something, in microseconds.
    pub drop_us: f64,
    /// Where the last six run.
    pub background: Background,
    /// How a second process profits from the first.
    pub sharing: Sharing,
    /// Whether regions can be kept outside of bodies.
    pub keeps_regions: bool,
    /// A body beside its image and pages, in KiB.
    pub body_kib: u64,
    /// The stack, a region of the same size for every program, in KiB; its time is part of the constants above.
    pub stack_kib: u64,
    /// A shell, in KiB.
    pub shell_kib: u64,
    /// The least image of a program whose peak of memory alone is known, in KiB.
    pub image_kib: u64,
    /// How much of that peak the image has in addition, in percent.
    pub image_percent: u64,
    /// How much of that peak is copied on the first write, in percent.
    pub copied_percent: u64,
    /// How much of that peak is zero at first, in percent.
    pub zeroed_percent: u64,
    /// The peak of a program that has none in the trace, in KiB.
    pub peak_kib: u64,
    /// Programs with figures of their own.
    #[serde(default)]
    pub programs: BTreeMap<String, ProgramCosts>,
}

impl Linear {
    /// The time for these sizes, in microseconds.
    #[must_use]
    pub fn of(&self, sizes: &Sizes) -> f64 {
        self.us
            + self.us_per_image_kib * kib(sizes.image_kib)
            + self.us_per_copied_kib * kib(sizes.copied_kib)
            + self.us_per_zeroed_kib * kib(sizes.zeroed_kib)
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn kib(size: u64) -> f64 {
    size as f64
}

impl Costs {
    /// Linux as the prototype of this project was measured on a virtual machine: to compare policies by, where nothing
    /// was measured on the machine at hand.
    #[must_use]
    pub fn linux() -> Costs {
        Costs {
            each_us: 0.0,
            whole: Linear {
                us: 480.0,
                us_per_copied_kib: 0.35,
                us_per_zeroed_kib: 0.275,
                ..Linear::default()
            },
            ready: Linear { us: 21.0, ..Linear::default() },
            image_saves: Linear { us: 280.0, ..Linear::default() },
            shell_saves_us: 60.0,
            region_saves_us: 0.0,
            region_saves_us_per_kib: 0.0,
            fault_us_per_kib: 0.3,
            patience_us: 400.0,
            told_late_us: 0.0,
            reset: Linear {
                us: 40.0,
                us_per_copied_kib: 0.025,
                us_per_zeroed_kib: 0.025,
                ..Linear::default()
            },
            add_body_us: 250.0,
            make_image_us: 5000.0,
            add_shell_us: 150.0,
            break_up_us: 120.0,
            drop_us: 100.0,
            background: Background::Beside,
            sharing: Sharing::Fork,
            keeps_regions: false,
            body_kib: 128,
            stack_kib: 0,
            shell_kib: 64,
            image_kib: 128,
            image_percent: 3,
            copied_percent: 4,
            zeroed_percent: 8,
            peak_kib: 2048,
            programs: BTreeMap::new(),
        }
    }

    /// The Tender system as Taniguchi et al. measured it (2020, table 3): Intel Core i3-2100, 3.10 GHz, one core. The
    /// table lacks a part of each process's time (running it, taking it down, giving a resource back): it is the
    /// difference between the sums of the table and their figure 8.
    #[must_use]
    pub fn tender() -> Costs {
        Costs {
            each_us: 40.8,
            whole: Linear {
                us: 6.71 + 1.31 + 115.92,
                us_per_image_kib: 0.27,
                us_per_copied_kib: 0.25,
                us_per_zeroed_kib: 0.22,
            },
            ready: Linear {
                us: 0.17 + 0.02 + 4.64,
                us_per_image_kib: 0.0,
                us_per_copied_kib: 0.07,
                us_per_zeroed_kib: 0.04,
            },
            image_saves: Linear { us: 5.52, us_per_image_kib: 0.12, ..Linear::default() },
            shell_saves_us: 87.34,
            region_saves_us: 1.24,
            region_saves_us_per_kib: 0.09,
            fault_us_per_kib: 0.09,
            patience_us: 0.0,
            told_late_us: 0.0,
            reset: Linear::default(),
            add_body_us: 0.0,
            make_image_us: 0.0,
            add_shell_us: 0.0,
            break_up_us: 11.0,
            drop_us: 10.0,
            background: Background::Shared,
            sharing: Sharing::Text,
            keeps_regions: true,
            body_kib: 8,
            stack_kib: 64,
            shell_kib: 8,
            image_kib: 0,
            image_percent: 50,
            copied_percent: 20,
            zeroed_percent: 30,
            peak_kib: 256,
            programs: BTreeMap::new(),
        }
    }

    /// The sizes of each program of a trace: its own figures where there are some, else from its largest peak.
    #[must_use]
    pub fn sizes(&self, trace: &[Creation]) -> BTreeMap<String, Sizes> {
        let mut peaks: BTreeMap<&str, Option<u64>> = BTreeMap::new();
        for creation in trace {
            let peak = peaks.entry(&creation.program).or_default();
            *peak = (*peak).max(creation.peak_kib);
        }
        let sizes = peaks.into_iter().map(|(program, peak)| {
            let own = self.programs.get(program).map(|own| own.sizes);
            (program.to_owned(), own.unwrap_or_else(|| self.by_peak(peak.unwrap_or(self.peak_kib))))
        });
        sizes.collect()
    }

    fn by_peak(&self, peak_kib: u64) -> Sizes {
        let share = |percent: u64| (peak_kib * percent / 100).next_multiple_of(4);
        Sizes {
            image_kib: self.image_kib + share(self.image_percent),
            copied_kib: share(self.copied_percent),
            zeroed_kib: share(self.zeroed_percent),
        }
    }

    /// A start with nothing kept, in microseconds.
    #[must_use]
    pub fn whole_us(&self, program: &str, sizes: &Sizes) -> f64 {
        let own = self.programs.get(program).and_then(|own| own.whole_us);
        self.each_us + own.unwrap_or_else(|| self.whole.of(sizes))
    }

    /// A start when the image is there, in microseconds.
    #[must_use]
    pub fn image_us(&self, program: &str, sizes: &Sizes) -> f64 {
        let own = self.programs.get(program).and_then(|own| own.image_us).map(|us| self.each_us + us);
        let us = own.unwrap_or_else(|| self.whole_us(program, sizes) - self.image_saves.of(sizes));
        us.max(self.ready_us(program, sizes))
    }

    /// A start in a ready body, in microseconds.
    #[must_use]
    pub fn ready_us(&self, program: &str, sizes: &Sizes) -> f64 {
        let own = self.programs.get(program).and_then(|own| own.ready_us);
        self.each_us + own.unwrap_or_else(|| self.ready.of(sizes))
    }

    /// The making of its image with the first body, in microseconds.
    #[must_use]
    pub fn make_image_us(&self, program: &str) -> f64 {
        self.programs.get(program).and_then(|own| own.make_us).unwrap_or(self.make_image_us)
    }

    /// How long a program works itself before the next creation, in microseconds.
    #[must_use]
    pub fn own_us(&self, program: &str) -> f64 {
        self.programs.get(program).map_or(0.0, |own| own.own_us)
    }

    /// What keeping a program takes and saves, in the form that a policy gets.
    #[must_use]
    pub fn facts(&self, program: &str, sizes: &Sizes) -> Facts {
        let ready = self.ready_us(program, sizes);
        let saves = |us: f64| micros((us - ready).max(0.0));
        let text = self.sharing == Sharing::Text;
        let text_kib = if text { sizes.image_kib } else { 0 };
        let pages = [text_kib, sizes.copied_kib, sizes.zeroed_kib, self.stack_kib];
        Facts {
            image_bytes: if text { 0 } else { sizes.image_kib * 1024 },
            body_bytes: self.body_kib * 1024,
            regions: pages.into_iter().filter(|&kib| kib > 0).map(|kib| kib * 1024).collect(),
            saves: saves(self.whole_us(program, sizes)),
            saves_over_image: saves(self.image_us(program, sizes)),
        }
    }
}

/// A number of microseconds as a time.
pub(super) fn micros(us: f64) -> Duration {
    Duration::from_secs_f64(us.max(0.0) / 1e6)
}
