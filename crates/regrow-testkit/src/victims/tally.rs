//! The results of all jobs: a table by flavour, and every failure.

use std::collections::BTreeMap;
use std::fmt;

use super::flavour::Flavour;
use super::report::{Job, Report};
use crate::summary::Percent;

/// The sums of one flavour.
#[derive(Debug, Clone, Default)]
struct Sums {
    cases: usize,
    runs: usize,
    kept: BTreeMap<String, usize>,
    exec: BTreeMap<String, usize>,
    details: BTreeMap<String, usize>,
    compared: u64,
    given_up: BTreeMap<String, u64>,
    milliseconds: u64,
}

/// All reports, summed up.
#[derive(Debug, Clone, Default)]
pub struct VictimTally {
    flavours: BTreeMap<String, Sums>,
    /// `case in flavour: what was wrong`.
    pub failures: Vec<String>,
    left_out: BTreeMap<String, usize>,
    slowest: Vec<(u64, String)>,
}

impl VictimTally {
    /// Takes in the report of a job.
    pub fn add(&mut self, job: &Job, report: &Report) {
        let place = format!("{} in {}", job.case, job.flavour);
        self.failures.extend(report.failures.iter().map(|failure| format!("{place}: {failure}")));
        if let Some(why) = &report.left_out {
            *self.left_out.entry(format!("{}: {why}", job.case)).or_default() += 1;
            return;
        }
        let sums = self.flavours.entry(job.flavour.clone()).or_default();
        sums.cases += 1;
        sums.runs += report.runs;
        sums.compared += report.compared;
        sums.milliseconds += report.milliseconds;
        for (how, count) in &report.kept {
            *sums.kept.entry(how.clone()).or_default() += count;
        }
        for (why, count) in &report.exec {
            *sums.exec.entry(why.clone()).or_default() += count;
        }
        for (why, count) in &report.exec_details {
            *sums.details.entry(format!("{}: {why}", job.case)).or_default() += count;
        }
        for (why, count) in &report.given_up {
            *sums.given_up.entry(why.clone()).or_default() += count;
        }
        self.slowest.push((report.milliseconds, place));
    }

    /// Counts a job that gave no report.
    pub fn fail(&mut self, job: &Job, what: &str) {
        self.failures.push(format!("{} in {}: {what}", job.case, job.flavour));
    }

    /// All of it in a line.
    pub fn sum(&self) -> String {
        let (runs, kept) = self.recycled();
        let cases: usize = self.flavours.values().map(|sums| sums.cases).sum();
        let forked: usize = self.recycling().map(Sums::forked).sum();
        format!(
            "victims: {cases} victims x flavours, {runs} runs: {} recycled, {forked} in a forked body, {} by exec \
             ({} not by exec), beside those with recycling off; {} failures",
            kept - forked,
            runs - kept,
            Percent { part: kept, whole: runs },
            self.failures.len()
        )
    }

    /// Runs of the flavours that recycle, and how many of these were in kept address spaces.
    pub fn recycled(&self) -> (usize, usize) {
        let sums = self.recycling();
        sums.fold((0, 0), |(runs, kept), sums| (runs + sums.runs, kept + sums.kept.values().sum::<usize>()))
    }

    fn recycling(&self) -> impl Iterator<Item = &Sums> {
        let off = Flavour::Off.to_string();
        self.flavours.iter().filter(move |(name, _)| **name != off).map(|(_, sums)| sums)
    }
}

impl Sums {
    /// Runs in a body that no run had used before.
    fn forked(&self) -> usize {
        let forked = self.kept.iter().filter(|(how, _)| how.starts_with("forked"));
        forked.map(|(_, count)| count).sum()
    }
}

fn list<T: fmt::Display>(counts: &BTreeMap<String, T>) -> String {
    counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for VictimTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, sums) in &self.flavours {
            writeln!(
                f,
                "{name}: {} victims, {} runs: {}; exec: {}; compared {}, given up: {}; {:.1} s",
                sums.cases,
                sums.runs,
                if sums.kept.is_empty() { "none kept".to_owned() } else { list(&sums.kept) },
                if sums.exec.is_empty() { "none".to_owned() } else { list(&sums.exec) },
                sums.compared,
                if sums.given_up.is_empty() { "none".to_owned() } else { list(&sums.given_up) },
                Seconds(sums.milliseconds),
            )?;
            for (detail, count) in &sums.details {
                writeln!(f, "    by exec {count}: {detail}")?;
            }
        }
        for (what, flavours) in &self.left_out {
            writeln!(f, "left out in {flavours} flavours: {what}")?;
        }
        let mut slowest = self.slowest.clone();
        slowest.sort_unstable_by(|a, b| b.cmp(a));
        for (milliseconds, place) in slowest.iter().take(8) {
            writeln!(f, "slow: {:.1} s {place}", Seconds(*milliseconds))?;
        }
        writeln!(f, "{}", self.sum())?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "FAILED {failure}"))
    }
}

/// Milliseconds, shown in seconds with one decimal.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 100)
    }
}
