//! The trials: each uses one feature in earnest and looks at the effect.
//!
//! They run in the examiner, one after the other, and obey its rules (see [`super::child`]): system calls on
//! memory, descriptors and children of their own, no allocation, no lock. What a trial opens it closes and whom
//! it makes it reaps, because the trials after it share the examiner. The order is that of the features, but
//! for those that change the examiner for good, which come last.

mod files;
mod memory;
mod tasks;
mod tracing;
mod userfault;

use super::feature::Feature;
use super::outcome::TrialResult;
use super::sheet::Sheet;

/// One trial: a feature, and a function that uses it in earnest. It runs in the examiner (see
/// [`super::child`] for what it may do there) and leaves no child of the examiner behind.
pub(super) struct Trial {
    /// What is tried.
    pub(super) feature: Feature,
    /// The trial.
    pub(super) run: fn(&Sheet) -> TrialResult,
}

const fn trial(feature: Feature, run: fn(&Sheet) -> TrialResult) -> Trial {
    Trial { feature, run }
}

/// All trials, in their order. Features that are looked up without one are not here.
pub(super) const TRIALS: &[Trial] = &[
    trial(Feature::Clone3, tasks::clone3),
    trial(Feature::Pidfd, tasks::pidfd),
    trial(Feature::CloneParent, tasks::clone_parent),
    trial(Feature::Ptrace, tracing::ptrace),
    trial(Feature::MemfdSeals, files::memfd_seals),
    trial(Feature::PtraceRseq, tracing::ptrace_rseq),
    trial(Feature::HwBreakpoints, tracing::hw_breakpoints),
    trial(Feature::Rseq, tasks::rseq),
    trial(Feature::PagemapScan, memory::pagemap_scan),
    trial(Feature::ProcmapQuery, memory::procmap_query),
    trial(Feature::UffdWpAsync, userfault::wp_async),
    trial(Feature::UffdMove, userfault::move_page),
    trial(Feature::ShareCheck, tasks::share_check),
    trial(Feature::Kcmp, tasks::kcmp),
    trial(Feature::Inotify, files::inotify),
    trial(Feature::CloseRange, files::close_range),
    trial(Feature::MembarrierQuery, tasks::membarrier_query),
    trial(Feature::MemoryMerge, memory::memory_merge),
    trial(Feature::Aio, memory::aio),
    trial(Feature::Pkeys, memory::pkeys),
    trial(Feature::PrctlMmMap, memory::prctl_mm_map),
    trial(Feature::Mseal, memory::mseal),
    trial(Feature::Mdwe, memory::mdwe),
];
