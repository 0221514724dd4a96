//! The kernel probe: which features work here, found out by using each of them.
//!
//! Versions tell little: features are configured away, forbidden by a sandbox, or back-ported. So every feature
//! is used in earnest, on memory and processes made for it, and its effect is looked at; a call that succeeds
//! without the effect does not count. What could change or end the caller is tried in a child
//! made for it; the caller gets no signal, and no child, descriptor or mapping is left.
//!
//! ```
//! use regrow_sys::disable::FeatureSet;
//! use regrow_sys::probe::{Feature, Kernel};
//!
//! let kernel = Kernel::probe(&FeatureSet::EMPTY);
//! if !kernel.works(Feature::PagemapScan) {
//!     println!("{}", Feature::PagemapScan.without());
//! }
//! ```
//!
//! Limits: a process that is not dumpable may not trace a copy of itself, so `ptrace` and its kin are reported
//! missing there although a program started with exec could be traced. A process that is itself traced with
//! its children (`strace -f`) gets the same answer, and it is right. A trial that a filter ends may leave a
//! child, which the kernel then kills: a caller that adopts orphans (`PR_SET_CHILD_SUBREAPER`) has to reap it
//! as it does any other.

mod cgroup;
mod child;
mod cpu;
mod examine;
mod feature;
mod sheet;
#[cfg(test)]
mod tests;
mod trials;
mod wire;

use std::fmt;
use std::io;

pub use cgroup::CgroupPlace;
pub use feature::{Feature, Need};

use crate::disable::FeatureSet;

/// What one trial says.
type Outcome = Result<(), TrialError>;

/// How a trial fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialError {
    /// A call that it needs failed.
    Errno(i32),
    /// Every call succeeded, and the effect is not what the kernel documents.
    Misbehaves,
}

impl From<io::Error> for TrialError {
    fn from(error: io::Error) -> Self {
        error.raw_os_error().map_or(Self::Misbehaves, Self::Errno)
    }
}

impl From<rustix::io::Errno> for TrialError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Errno(errno.raw_os_error())
    }
}

/// Fails a trial whose effect is not what it should be.
fn expect(condition: bool) -> Outcome {
    if condition { Ok(()) } else { Err(TrialError::Misbehaves) }
}

/// What the probe knows of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It was used and did what it should.
    Works,
    /// The kernel refuses it, with this error number.
    Missing {
        /// The error number.
        errno: i32,
    },
    /// The kernel accepts it and does not do what it documents.
    Misbehaves,
    /// `REGROW_DISABLE` names it.
    Disabled,
    /// It is not known whether it works. It is not used.
    NotTried {
        /// The reason.
        why: NotTried,
    },
}

/// Why a feature could not be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotTried {
    /// The child that tries could not be made.
    NoChild {
        /// The error number.
        errno: i32,
    },
    /// The trial ended the child that made it, as a filter of system calls does.
    Ended {
        /// The signal that ended it, if one did.
        signal: Option<i32>,
    },
    /// Too many trials before it ended their child.
    GaveUp,
    /// Regrow does not use it on this architecture.
    Architecture,
}

impl From<Outcome> for State {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(()) => Self::Works,
            Err(TrialError::Errno(errno)) => Self::Missing { errno },
            Err(TrialError::Misbehaves) => Self::Misbehaves,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::Missing { errno } => write!(f, "missing: {}", io::Error::from_raw_os_error(*errno)),
            Self::Misbehaves => f.write_str("does not do what it should"),
            Self::Disabled => write!(f, "disabled by {}", crate::disable::VARIABLE),
            Self::NotTried { why } => write!(f, "not tried: {why}"),
        }
    }
}

impl fmt::Display for NotTried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoChild { errno } => {
                write!(f, "no child could be made for it: {}", io::Error::from_raw_os_error(*errno))
            }
            Self::Ended { signal: Some(signal) } => write!(f, "the trial was ended by signal {signal}"),
            Self::Ended { signal: None } => f.write_str("the trial did not come to its end"),
            Self::GaveUp => f.write_str("too many trials before it were ended"),
            Self::Architecture => f.write_str("not for this architecture"),
        }
    }
}

/// Facts of the machine that are not a matter of yes or no.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Facts {
    /// The kernel's release, `6.18.44`.
    pub release: String,
    /// The architecture, `x86_64`.
    pub architecture: String,
    /// Processors that this process may run on.
    pub cores: usize,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// `kernel.yama.ptrace_scope`: 0 any process of the user may be traced, 1 children alone, 2 with privilege,
    /// 3 none. `None` without Yama.
    pub yama_ptrace_scope: Option<u8>,
    /// Where cgroups of version 2 are, writable or not.
    pub cgroup: Option<CgroupPlace>,
    /// userfaultfd must be asked for with `UFFD_USER_MODE_ONLY`.
    pub uffd_user_mode_only: bool,
    /// Bytes of the processor state that the kernel saves with XSAVE.
    pub xsave_bytes: Option<u32>,
}

/// What the running kernel can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    states: [State; Feature::COUNT],
    facts: Facts,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Row {
    /// Name of the feature.
    pub feature: &'static str,
    /// The kernel version that has it first.
    pub since: &'static str,
    /// Whether anything is recycled without it.
    pub need: Need,
    /// `works`, `missing`, `misbehaves`, `disabled` or `not_tried`.
    pub state: &'static str,
    /// The error number of a feature that is missing.
    pub errno: Option<i32>,
    /// The state in words, when it does not work.
    pub reason: Option<String>,
    /// What Regrow does here, a sentence.
    pub here: &'static str,
    /// What Regrow does with it, a sentence.
    pub with: &'static str,
    /// What Regrow does without it, a sentence.
    pub without: &'static str,
}

impl Kernel {
    /// Tries every feature but those that are disabled. Takes some milliseconds; the caller's memory is copied
    /// on write for that long, so probe early.
    #[must_use]
    pub fn probe(disabled: &FeatureSet) -> Self {
        let wanted = Feature::all().filter(|feature| !disabled.contains(*feature)).collect();
        let findings = examine::examine(wanted);
        let place = CgroupPlace::find();
        let xsave_bytes = cpu::xsave_bytes();
        let mut states = [State::Disabled; Feature::COUNT];
        for (feature, slot) in Feature::all().zip(&mut states) {
            if disabled.contains(feature) {
                continue;
            }
            *slot = match feature {
                Feature::Cgroup2 => cgroup::try_to_make_one(place.as_ref()).into(),
                Feature::Xsave => cpu::state(xsave_bytes),
                _ => findings.state(feature).unwrap_or(State::NotTried { why: NotTried::Architecture }),
            };
        }
        let uname = rustix::system::uname();
        let facts = Facts {
            release: uname.release().to_string_lossy().into_owned(),
            architecture: uname.machine().to_string_lossy().into_owned(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            page_bytes: rustix::param::page_size(),
            yama_ptrace_scope: yama_ptrace_scope(),
            cgroup: place,
            uffd_user_mode_only: findings.uffd_user_mode_only,
            xsave_bytes,
        };
        Self { states, facts }
    }

    /// Whether a feature may be used.
    #[must_use]
    pub fn works(&self, feature: Feature) -> bool {
        self.state(feature) == State::Works
    }

    /// What is known of a feature.
    #[must_use]
    pub fn state(&self, feature: Feature) -> State {
        // The array has one state for each feature.
        self.states[feature.index()]
    }

    /// The features whose absence means that everything is started by exec.
    pub fn missing_required(&self) -> impl Iterator<Item = Feature> + '_ {
        Feature::all().filter(|feature| feature.need() == Need::Required && !self.works(*feature))
    }

    /// Whether processes can be recycled at all.
    #[must_use]
    pub fn can_recycle(&self) -> bool {
        self.missing_required().next().is_none()
    }

    /// Facts of the machine.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// All that is known, a row for each feature.
    #[must_use]
    pub fn report(&self) -> Vec<Row> {
        Feature::all().map(|feature| Row::new(feature, self.state(feature))).collect()
    }
}

impl Row {
    fn new(feature: Feature, state: State) -> Self {
        let (word, errno) = match state {
            State::Works => ("works", None),
            State::Missing { errno } => ("missing", Some(errno)),
            State::Misbehaves => ("misbehaves", None),
            State::Disabled => ("disabled", None),
            State::NotTried { .. } => ("not_tried", None),
        };
        let works = state == State::Works;
        Self {
            feature: feature.name(),
            since: feature.since(),
            need: feature.need(),
            state: word,
            errno,
            reason: (!works).then(|| state.to_string()),
            here: if works { feature.with() } else { feature.without() },
            with: feature.with(),
            without: feature.without(),
        }
    }
}

fn yama_ptrace_scope() -> Option<u8> {
    std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()
}
