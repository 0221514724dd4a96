//! Runs every entry through two spawners and counts what agrees.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::compare::{Difference, Outcome};
use super::descriptors::close_strays_on_exec;
use super::error::CorpusError;
use super::manifest::{ArgumentList, Corpus, Entry, Expected};
use super::run::Spawner;
use super::workshop::Workshop;
use crate::summary::Percent;

/// How many runs of each entry the second spawner makes, the two argument lists taking turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// For most entries.
    pub normal: usize,
    /// For those that are marked slow.
    pub slow: usize,
}

impl Rounds {
    /// The same number for all.
    pub fn same(runs: usize) -> Self {
        Self { normal: runs, slow: runs }
    }

    fn of(self, entry: &Entry) -> usize {
        if entry.slow { self.slow } else { self.normal }
    }
}

/// What is wrong with one run.
#[derive(Debug, Clone)]
pub enum Failure {
    /// It ended otherwise than the manifest says.
    Unexpected {
        /// The entry.
        entry: String,
        /// The argument list.
        which: ArgumentList,
        /// What the manifest says.
        expected: Expected,
        /// What came.
        outcome: Box<Outcome>,
    },
    /// It differs from the first spawner's run.
    Different {
        /// The entry.
        entry: String,
        /// The argument list.
        which: ArgumentList,
        /// Which of the second spawner's runs, from 0.
        run: usize,
        /// How its process was made.
        how: String,
        /// In what it differs.
        differences: Vec<Difference>,
    },
    /// It could not be made.
    Broken {
        /// The entry.
        entry: String,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexpected { entry, which, expected, outcome } => write!(
                f,
                "{entry} ({}): expected {expected:?}, got {}\n  stdout: {}\n  stderr: {}",
                which.field(),
                outcome.result.status,
                String::from_utf8_lossy(&outcome.result.stdout),
                String::from_utf8_lossy(&outcome.result.stderr),
            ),
            Self::Different { entry, which, run, how, differences } => {
                write!(f, "{entry} ({}), run {run}, {how}:", which.field())?;
                differences.iter().try_for_each(|difference| write!(f, "\n  {difference}"))
            }
            Self::Broken { entry, reason } => write!(f, "{entry}: {reason}"),
        }
    }
}

/// The count of a proof.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Entries tried.
    pub entries: usize,
    /// Runs of the first spawner.
    pub plain_runs: usize,
    /// Runs of the second spawner.
    pub runs: usize,
    /// Runs of the second spawner by how their process was made, with the snapshot point if there was one.
    pub how: BTreeMap<String, usize>,
    /// Runs of the second spawner that were not recycled, by entry and reason.
    pub fallbacks: BTreeMap<(String, String), usize>,
    /// All that went wrong.
    pub failures: Vec<Failure>,
}

impl Tally {
    /// The runs of the second spawner that did not fall back to exec.
    pub fn recycled_runs(&self) -> usize {
        self.runs - self.fallbacks.values().sum::<usize>()
    }

    /// How many runs of the second spawner were by exec, for each entry that has such runs.
    pub fn by_exec(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for ((entry, _), count) in &self.fallbacks {
            *counts.entry(entry.clone()).or_default() += count;
        }
        counts
    }

    /// Takes in the count of another part of the corpus.
    pub fn join(&mut self, other: Tally) {
        self.entries += other.entries;
        self.plain_runs += other.plain_runs;
        self.runs += other.runs;
        for (how, count) in other.how {
            *self.how.entry(how).or_default() += count;
        }
        for (why, count) in other.fallbacks {
            *self.fallbacks.entry(why).or_default() += count;
        }
        self.failures.extend(other.failures);
    }

    /// All of it in a line.
    pub fn sum(&self) -> String {
        let kept = Percent { part: self.recycled_runs(), whole: self.runs };
        let forked: usize =
            self.how.iter().filter(|(how, _)| how.starts_with("forked")).map(|(_, count)| count).sum();
        format!(
            "corpus: {} entries, {} runs: {} recycled, {forked} in a forked body, {} by exec ({kept} not by exec); \
             {} failures",
            self.entries,
            self.runs,
            kept.part - forked,
            self.runs - kept.part,
            self.failures.len()
        )
    }

    fn count(&mut self, entry: &Entry, outcome: &Outcome) {
        self.runs += 1;
        let result = &outcome.result;
        let how =
            result.point.as_ref().map_or(result.how.clone(), |point| format!("{} at {point}", result.how));
        *self.how.entry(how).or_default() += 1;
        if let Some(reason) = &result.fallback {
            *self.fallbacks.entry((entry.name.clone(), reason.clone())).or_default() += 1;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "corpus: {} entries, {} plain runs, {} runs compared",
            self.entries, self.plain_runs, self.runs
        )?;
        for (how, count) in &self.how {
            write!(f, "; {how}: {count}")?;
        }
        for ((entry, reason), count) in &self.fallbacks {
            write!(f, "\n  {entry}: {count} not recycled: {reason}")?;
        }
        write!(f, "\n{} failures", self.failures.len())?;
        self.failures.iter().try_for_each(|failure| write!(f, "\n{failure}"))
    }
}

/// Compares the runs of two spawners, entry by entry.
pub struct Prover<'a> {
    /// The spawner whose runs are right.
    pub plain: &'a mut dyn Spawner,
    /// The spawner on trial.
    pub trial: &'a mut dyn Spawner,
    /// How many runs of each entry.
    pub rounds: Rounds,
}

impl Prover<'_> {
    /// Runs all entries of `corpus` below `root`: each argument list once plainly, checked against the manifest,
    /// then the rounds on trial, each compared with the plain run of its list.
    ///
    /// It first marks the inherited descriptors above 2 close-on-exec: a plain run would
    /// inherit them, and a run may have only what the test gives it.
    ///
    /// # Errors
    ///
    /// [`CorpusError::MissingPrograms`] before anything is run. What goes wrong with an entry is a [`Failure`] in
    /// the tally, so that one bad entry does not hide the others.
    pub fn prove(&mut self, corpus: &Corpus, root: &Path) -> Result<Tally, CorpusError> {
        corpus.check_installed()?;
        close_strays_on_exec()?;
        let workshop = Workshop::new(corpus, root);
        let mut tally = Tally::default();
        for entry in &corpus.entries {
            tally.entries += 1;
            let proved = self.prove_entry(corpus, entry, &workshop, &mut tally);
            if let Err(error) = proved.and_then(|()| workshop.clear(entry)) {
                let (entry, reason) = (entry.name.clone(), error.to_string());
                tally.failures.push(Failure::Broken { entry, reason });
            }
        }
        Ok(tally)
    }

    fn prove_entry(
        &mut self,
        corpus: &Corpus,
        entry: &Entry,
        workshop: &Workshop<'_>,
        tally: &mut Tally,
    ) -> Result<(), CorpusError> {
        let main = self.run_plainly(entry, ArgumentList::Main, workshop, tally)?;
        let alt = self.run_plainly(entry, ArgumentList::Alt, workshop, tally)?;
        for run in 0..self.rounds.of(entry) {
            let which = ArgumentList::for_run(run);
            let outcome = workshop.run(entry, which, self.trial)?;
            tally.count(entry, &outcome);
            let right = if which == ArgumentList::Main { &main } else { &alt };
            let differences = right.differences(&outcome, entry, corpus);
            if !differences.is_empty() {
                let (entry, how) = (entry.name.clone(), outcome.result.how);
                tally.failures.push(Failure::Different { entry, which, run, how, differences });
            }
        }
        Ok(())
    }

    fn run_plainly(
        &mut self,
        entry: &Entry,
        which: ArgumentList,
        workshop: &Workshop<'_>,
        tally: &mut Tally,
    ) -> Result<Outcome, CorpusError> {
        let outcome = workshop.run(entry, which, self.plain)?;
        tally.plain_runs += 1;
        let expected = entry.expected(which);
        if !expected.matches(outcome.result.status) {
            let (entry, outcome) = (entry.name.clone(), Box::new(outcome.clone()));
            tally.failures.push(Failure::Unexpected { entry, which, expected, outcome });
        }
        Ok(outcome)
    }
}
