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
mod examine;
pub(crate) mod feature;
mod outcome;
mod sheet;
mod state;
#[cfg(test)]
mod tests;
mod trials;
mod wire;

pub use cgroup::CgroupPlace;
pub use feature::{Feature, Need};
pub use state::{FeatureState, NotTried};

pub use crate::arch::ExtendedState;
use crate::disable::FeatureSet;

/// MachineFacts of the machine that are not a matter of yes or no.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MachineFacts {
    /// The kernel's release, `6.18.44`.
    pub release: String,
    /// The architecture, by the kernel's name.
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
    /// The floating-point state beyond the oldest registers.
    #[serde(flatten)]
    pub extended_state: ExtendedState,
}

/// What the running kernel can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    states: [FeatureState; Feature::COUNT],
    facts: MachineFacts,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FeatureRow {
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
        let extended_state = ExtendedState::read();
        let mut states = [FeatureState::Disabled; Feature::COUNT];
        for (feature, slot) in Feature::all().zip(&mut states) {
            if disabled.contains(feature) {
                continue;
            }
            *slot = match feature {
                Feature::Cgroup2 => cgroup::try_to_make_one(place.as_ref()).into(),
                Feature::ExtendedState if extended_state.bytes.is_some() => FeatureState::Works,
                Feature::ExtendedState => FeatureState::Missing { errno: libc::ENOSYS },
                _ => {
                    findings.state(feature).unwrap_or(FeatureState::NotTried { why: NotTried::Architecture })
                }
            };
        }
        let uname = rustix::system::uname();
        let facts = MachineFacts {
            release: uname.release().to_string_lossy().into_owned(),
            architecture: uname.machine().to_string_lossy().into_owned(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            page_bytes: rustix::param::page_size(),
            yama_ptrace_scope: yama_ptrace_scope(),
            cgroup: place,
            uffd_user_mode_only: findings.uffd_user_mode_only,
            extended_state,
        };
        Self { states, facts }
    }

    /// Whether a feature may be used.
    #[must_use]
    pub fn works(&self, feature: Feature) -> bool {
        self.state(feature) == FeatureState::Works
    }

    /// What is known of a feature.
    #[must_use]
    pub fn state(&self, feature: Feature) -> FeatureState {
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

    /// MachineFacts of the machine.
    #[must_use]
    pub fn facts(&self) -> &MachineFacts {
        &self.facts
    }

    /// All that is known, a row for each feature.
    #[must_use]
    pub fn report(&self) -> Vec<FeatureRow> {
        Feature::all().map(|feature| FeatureRow::new(feature, self.state(feature))).collect()
    }
}

impl FeatureRow {
    fn new(feature: Feature, state: FeatureState) -> Self {
        let (word, errno) = match state {
            FeatureState::Works => ("works", None),
            FeatureState::Missing { errno } => ("missing", Some(errno)),
            FeatureState::Misbehaves => ("misbehaves", None),
            FeatureState::Disabled => ("disabled", None),
            FeatureState::NotTried { .. } => ("not_tried", None),
        };
        let works = state == FeatureState::Works;
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
