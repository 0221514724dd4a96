//! The examination: all trials, in a child that marks the sheet.
//!
//! ```text
//! caller ── copy ──▶ examiner ── copies and sharers ──▶ children of one trial each
//!    │                  │
//!    └──── sheet ◀──────┘   begun, works, errno …
//! ```
//!
//! A trial may change its process for good (`mseal`, memory-deny-write-execute), and a filter of system calls
//! may end the process that makes a call; the caller must see nothing of either. So the examiner is a copy. When
//! it ends in the middle of a trial, the trial is noted, and another examiner goes on with the next.

#![allow(unsafe_code, reason = "makes the examiner")]

use std::io;
use std::sync::atomic::Ordering::SeqCst;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::child;
use super::feature::Feature;
use super::sheet::{SharedSheet, Sheet, TrialMark};
use super::state::{FeatureState, NotTried};
use super::trials::{TRIALS, Trial};
use crate::disable::FeatureSet;
use crate::raw;

/// How many examiners may end early before the rest is left untried.
const EXAMINERS_MAX: usize = 4;

/// The time an examiner has before the kernel ends it. All trials together take a few milliseconds.
const EXAMINER_LIMIT_S: u32 = 10;

/// What the examination found.
pub(super) struct Findings {
    /// The state of each feature that has a trial.
    states: Vec<(Feature, FeatureState)>,
    /// userfaultfd is given for faults in user mode alone.
    pub(super) uffd_user_mode_only: bool,
}

impl Findings {
    /// The state of a feature; `None` when it has no trial.
    pub(super) fn state(&self, feature: Feature) -> Option<FeatureState> {
        self.states.iter().find(|(tried, _)| *tried == feature).map(|(_, state)| *state)
    }

    /// Nothing could be tried.
    fn none(error: &io::Error) -> Self {
        let why = NotTried::NoChild { errno: error.raw_os_error().unwrap_or(libc::EAGAIN) };
        let states = TRIALS.iter().map(|trial| (trial.feature, FeatureState::NotTried { why })).collect();
        Self { states, uffd_user_mode_only: false }
    }
}

/// Tries these features.
pub(super) fn examine(wanted: FeatureSet) -> Findings {
    // The first use asks the kernel; the examiner then knows it without a lock.
    rustix::param::page_size();
    let sheet = match SharedSheet::new() {
        Ok(sheet) => sheet,
        Err(error) => return Findings::none(&error),
    };
    let mut broken_off: Vec<(Feature, Option<i32>)> = Vec::new();
    while broken_off.len() < EXAMINERS_MAX && next_trial(&sheet, wanted).is_some() {
        let signal = match run_examiner(&sheet, wanted) {
            Ok(signal) => signal,
            Err(error) => return Findings::none(&error),
        };
        let begun = |feature: &Feature| sheet.mark(*feature) == TrialMark::Begun;
        let known = |feature: &Feature| broken_off.iter().any(|(noted, _)| noted == feature);
        match Feature::all().find(|feature| begun(feature) && !known(feature)) {
            Some(feature) => broken_off.push((feature, signal)),
            // It ended between two trials: nothing tells that another would get further.
            None => break,
        }
    }
    let state = |feature| match sheet.mark(feature) {
        TrialMark::Ended(outcome) => FeatureState::from(outcome),
        TrialMark::Untouched => FeatureState::NotTried { why: NotTried::GaveUp },
        TrialMark::Begun => {
            let noted = broken_off.iter().find(|(noted, _)| *noted == feature);
            FeatureState::NotTried { why: NotTried::Ended { signal: noted.and_then(|(_, signal)| *signal) } }
        }
    };
    let states = TRIALS.iter().map(|trial| (trial.feature, state(trial.feature))).collect();
    Findings { states, uffd_user_mode_only: sheet.uffd_user_mode_only.load(SeqCst) }
}

/// The first trial that is wanted and that no examiner has begun.
fn next_trial(sheet: &Sheet, wanted: FeatureSet) -> Option<&'static Trial> {
    TRIALS
        .iter()
        .find(|trial| wanted.contains(trial.feature) && sheet.mark(trial.feature) == TrialMark::Untouched)
}

/// Makes an examiner and waits for its end. Returns the signal that ended it, if one did.
fn run_examiner(sheet: &Sheet, wanted: FeatureSet) -> io::Result<Option<i32>> {
    // SAFETY: the examiner and every trial make system calls on memory of their own, as `Trial` demands;
    // the test `children_do_not_allocate` watches them.
    let examiner = unsafe { child::fork(|| run_trials(sheet, wanted))? };
    let status = examiner.wait();
    reap_sibling(sheet);
    // Without a status somebody else has reaped the examiner: it is gone, and how is not known.
    let status = status.ok();
    Ok(status.filter(|status| libc::WIFSIGNALED(*status)).map(|status| libc::WTERMSIG(status)))
}

/// Reaps the child that a trial made for this process. It exits by itself, at once.
fn reap_sibling(sheet: &Sheet) {
    let pid = sheet.sibling.swap(0, SeqCst);
    if pid > 0 {
        let _ = raw::wait_pid(pid, false);
    }
}

/// The whole life of an examiner.
fn run_trials(sheet: &Sheet, wanted: FeatureSet) -> i32 {
    child::end_after(EXAMINER_LIMIT_S);
    let no_core = Rlimit { current: Some(0), maximum: Some(0) };
    // Without it a trial that is ended by a signal may leave a core file.
    let _ = setrlimit(Resource::Core, no_core);
    while let Some(trial) = next_trial(sheet, wanted) {
        sheet.begin(trial.feature);
        let outcome = (trial.run)(sheet);
        sheet.end(trial.feature, outcome);
    }
    0
}
