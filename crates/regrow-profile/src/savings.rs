//! What recycled starts would have saved: an estimate, and what it is made of.
//!
//! ```text
//!   saved by a start of program P  =  base  +  (start-up of P  -  start-up of the quickest program)
//!   base                           =  a start of the smallest program by exec  -  one by Regrow      measured elsewhere: Basis says where
//!   start-up                       =  from exec to the call of main                                  measured by the collector, else by the daemon
//! ```
//!
//! A recycled process stands at `main` already: it saves what comes before, and the work of exec itself, which the base has. Everything that slows
//! all start-ups alike, as tracing does, falls out of the difference. A start-up that waits, for a processor or a disk, counts with the processor time
//! of its process at most, and no process is said to save more than it lived.
//!
//! Nothing is executed for this. Whether a program can be recycled is what [`Savings::new`] is given as `judge`: it looks at files alone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use regrow_sites::ImageId;
use serde::Serialize;

use crate::profile::{MOST_NAMES, Profile, SiteKey, Totals};

/// What a recycled start of the smallest program saves, and where that is known from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Basis {
    /// Microseconds by which it is quicker than one by exec.
    pub base_us: f64,
    /// Who has measured it, for a reader.
    pub from: String,
    /// What the smallest program's own start-up takes as the daemon measures it, for [`Verdict::start_us`].
    pub smallest_start_us: Option<f64>,
}

/// What is known of a program without executing it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    /// Why it cannot be recycled, if so.
    pub refused: Option<String>,
    /// What its start-up takes as the daemon has measured it, in microseconds of processor time.
    pub start_us: Option<f64>,
}

/// What the saving of a site is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedFrom {
    /// Base and start-up, as the collector measured it.
    Measured,
    /// Base and start-up, as the daemon has measured it.
    Daemon,
    /// The base alone: the start-up is not known.
    BaseAlone,
    /// Nothing is saved.
    Nothing,
}

/// What recycled starts of one site's processes would have saved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saved {
    /// All of them, in microseconds.
    pub total_us: f64,
    /// One of them.
    pub each_us: f64,
    /// What that is made of.
    pub from: SavedFrom,
    /// Why a program of them is not recycled.
    pub refused: Option<String>,
}

impl Saved {
    fn nothing(refused: &str) -> Saved {
        Saved { total_us: 0.0, each_us: 0.0, from: SavedFrom::Nothing, refused: Some(refused.to_owned()) }
    }
}

/// One program.
#[derive(Debug, Clone, PartialEq)]
struct ProgramSaving {
    each_us: f64,
    from: SavedFrom,
    refused: Option<String>,
}

/// Estimates savings.
pub struct Savings<'a> {
    basis: Basis,
    judge: Box<dyn Fn(&str) -> Verdict + 'a>,
    /// What it has said; each program is looked at once.
    verdicts: RefCell<HashMap<String, Verdict>>,
}

impl fmt::Debug for Savings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Savings").field("basis", &self.basis).finish_non_exhaustive()
    }
}

impl<'a> Savings<'a> {
    /// Estimates from a basis, and from what `judge` says of the file of a program, by its path.
    pub fn new(basis: Basis, judge: impl Fn(&str) -> Verdict + 'a) -> Savings<'a> {
        Savings { basis, judge: Box::new(judge), verdicts: RefCell::default() }
    }

    /// What it is made of.
    #[must_use]
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Looks at the programs of a profile.
    #[must_use]
    pub(crate) fn of(&self, profile: &Profile) -> ProgramSavings {
        let startups = measured_startups(profile);
        let quickest_us = startups.values().map(|startup| startup.median_us).reduce(f64::min).unwrap_or(0.0);
        let mut programs = HashMap::new();
        for (_, key, _) in profile.sites() {
            for image in [key.programs.first, key.programs.last].into_iter().flatten() {
                let judged = || {
                    self.program(
                        profile.image_path(image),
                        startups.get(&image).map(|startup| startup.longer_than(quickest_us)),
                    )
                };
                programs.entry(image).or_insert_with(judged);
            }
        }
        ProgramSavings { programs, base_us: self.basis.base_us }
    }

    fn verdict(&self, path: &str) -> Verdict {
        let mut verdicts = self.verdicts.borrow_mut();
        if let Some(known) = verdicts.get(path) {
            return known.clone();
        }
        let verdict = (self.judge)(path);
        if verdicts.len() < MOST_NAMES {
            verdicts.insert(path.to_owned(), verdict.clone());
        }
        verdict
    }

    /// `longer_us`: how much longer its measured start-up is than the quickest.
    fn program(&self, path: Option<&str>, longer_us: Option<f64>) -> ProgramSaving {
        let verdict = path.map(|path| self.verdict(path)).unwrap_or_default();
        if let Some(refused) = verdict.refused {
            return ProgramSaving { each_us: 0.0, from: SavedFrom::Nothing, refused: Some(refused) };
        }
        let by_daemon =
            verdict.start_us.zip(self.basis.smallest_start_us).map(|(start, smallest)| start - smallest);
        let (more_us, from) = match (longer_us, by_daemon) {
            (Some(us), _) => (us, SavedFrom::Measured),
            (None, Some(us)) => (us, SavedFrom::Daemon),
            (None, None) => (0.0, SavedFrom::BaseAlone),
        };
        ProgramSaving { each_us: self.basis.base_us + more_us.max(0.0), from, refused: None }
    }
}

/// The start-up of a program.
#[derive(Debug, Clone, Copy, Default)]
struct Startup {
    /// The mean of its sites' medians, each as often as it was measured there.
    median_us: f64,
    /// Its processes' mean processor time.
    cpu_us: f64,
    count: f64,
}

impl Startup {
    fn longer_than(self, quickest_us: f64) -> f64 {
        (self.median_us - quickest_us).min(self.cpu_us)
    }
}

/// The start-up of each program whose start-up was measured.
#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn measured_startups(profile: &Profile) -> HashMap<ImageId, Startup> {
    let mut startups: HashMap<ImageId, Startup> = HashMap::new();
    for (_, key, totals) in profile.sites() {
        let known = key.programs.final_one().zip(totals.startup.quantile_us(0.5)).zip(totals.cpu.mean_us());
        let Some(((image, median_us), cpu_us)) = known else { continue };
        let startup = startups.entry(image).or_default();
        let count = totals.startup.count() as f64;
        let part = count / (startup.count + count);
        startup.median_us += part * (median_us - startup.median_us);
        startup.cpu_us += part * (cpu_us - startup.cpu_us);
        startup.count += count;
    }
    startups
}

/// What a start of each program saves.
#[derive(Debug)]
pub(crate) struct ProgramSavings {
    programs: HashMap<ImageId, ProgramSaving>,
    base_us: f64,
}

impl ProgramSavings {
    /// What the processes of a site would have saved.
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn of_site(&self, key: &SiteKey, totals: &Totals) -> Saved {
        let known: Vec<&ProgramSaving> = [key.programs.first, key.programs.last]
            .into_iter()
            .flatten()
            .filter_map(|image| self.programs.get(&image))
            .collect();
        let Some(last) = known.last().copied() else { return Saved::nothing("executes no program") };
        let count = totals.count as f64;
        // Between the first and the last program there may have been others, of which the number alone is known.
        let others = (totals.starts as f64 - count * known.len() as f64).max(0.0);
        let per_process = known.iter().map(|program| program.each_us).sum::<f64>();
        let mut total_us =
            count * per_process + if key.programs.has_others { others * self.base_us } else { 0.0 };
        if let Some(life_us) = totals.life.mean_us() {
            total_us = total_us.min(count * life_us);
        }
        let refused = known.iter().find_map(|program| program.refused.clone());
        Saved { total_us, each_us: total_us / count.max(1.0), from: last.from, refused }
    }
}

#[cfg(test)]
mod tests;
