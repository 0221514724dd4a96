//! The kernel features that Regrow looks for: name, age, need, and what is done with and without each.
//!
//! The table is the only place where a feature is described. `regrow doctor` prints it, `REGROW_DISABLE`
//! takes its names, and the trials in this module's siblings are looked up by [`Feature`].

use std::fmt;

use crate::arch;

/// Whether a process can be recycled at all without the feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Without it everything is started by exec.
    Required,
    /// Without it recycling works in another way, or does less.
    Optional,
}

/// What is known of a feature without looking at a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FeatureEntry {
    feature: Feature,
    name: &'static str,
    since: &'static str,
    need: Need,
    with: &'static str,
    without: &'static str,
}

/// Writes the enum and the table from one list, so that their order is the same.
macro_rules! features {
    ($(
        $(#[$doc:meta])*
        $variant:ident = $name:expr, since $since:literal, $need:ident,
        with $with:literal,
        without $without:literal;
    )*) => {
        /// One feature of the kernel or the processor.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Feature {
            $( $(#[$doc])* $variant, )*
        }

        /// The table, in the order of the enum.
        const TABLE: &[FeatureEntry] = &[
            $( FeatureEntry {
                feature: Feature::$variant,
                name: $name,
                since: $since,
                need: Need::$need,
                with: $with,
                without: $without,
            }, )*
        ];
    };
}

features! {
    /// `clone3` with `CLONE_PIDFD` and `CLONE_CLEAR_SIGHAND`.
    Clone3 = "clone3", since "5.5", Required,
        with "A run starts with default signal dispositions and its pidfd from one system call.",
        without "Everything is started by exec.";
    /// `pidfd_open`, and `waitid` on a pidfd.
    Pidfd = "pidfd", since "5.4", Required,
        with "A process is signalled, and its end waited for, through a pidfd that no other process can reuse.",
        without "Everything is started by exec.";
    /// `clone` with `CLONE_VM`, `CLONE_VFORK` and `CLONE_PARENT`.
    CloneParent = "clone_parent", since "2.4", Required,
        with "A keeper makes runs in its own address space that are children of the caller.",
        without "Everything is started by exec.";
    /// `PTRACE_SEIZE` and `PTRACE_INTERRUPT` of an own child.
    Ptrace = "ptrace", since "3.4", Required,
        with "A program is run to its snapshot point and the agent is loaded into it.",
        without "No image can be made: everything is started by exec.";
    /// `memfd_create` with seals, mapped executable.
    MemfdSeals = "memfd_seals", since "3.17", Required,
        with "Images and the agent are kept in sealed memory files, which do not merge with other mappings.",
        without "Everything is started by exec.";
    /// `PTRACE_GET_RSEQ_CONFIGURATION`.
    PtraceRseq = "ptrace_rseq", since "5.13", Optional,
        with "The tracer asks the kernel where a program registered its rseq area.",
        without "There is no main point: programs are kept at entry.";
    /// Breakpoints in the debug registers, set by a tracer.
    HwBreakpoints = "hw_breakpoints", since "2.6.33", Optional,
        with "A snapshot point is reached with a breakpoint in a debug register: no page of the program is written.",
        without "There is no main point: programs are kept at entry.";
    /// `rseq` registration.
    Rseq = "rseq", since "4.18", Optional,
        with "Each run registers its restartable sequences again, as after exec.",
        without "There is nothing to register; C libraries then do without it as well.";
    /// The `PAGEMAP_SCAN` ioctl.
    PagemapScan = "pagemap_scan", since "6.7", Optional,
        with "Dirty pages are found by one ioctl that skips empty ranges.",
        without "Dirty pages are found by reading /proc/self/pagemap.";
    /// The `PROCMAP_QUERY` ioctl.
    ProcmapQuery = "procmap_query", since "6.11", Optional,
        with "The mappings that a run left are compared by an ioctl for each, without text.",
        without "The mappings that a run left are read from /proc/self/maps.";
    /// userfaultfd with asynchronous write protection.
    UffdWpAsync = "uffd_wp_async", since "6.7", Optional,
        with "A reset of an image of more than 2 MiB looks at the pages that a run has written, and at none of the others.",
        without "A reset of a large image compares every page that is present and not of a file, as that of a small one always does.";
    /// userfaultfd with `UFFDIO_MOVE`.
    UffdMove = "uffd_move", since "6.8", Optional,
        with "Nothing yet: pages are copied.",
        without "Nothing is different.";
    /// `PR_SET_MM_MAP`.
    PrctlMmMap = "prctl_mm_map", since "3.18", Required,
        with "The bounds of arguments and environment are set for each run, so that /proc/PID/cmdline is right.",
        without "Everything is started by exec.";
    /// `unshare(CLONE_VM)`, which refuses when another task shares the memory.
    ShareCheck = "share_check", since "2.6.16", Required,
        with "A reset begins when unshare(CLONE_VM) says that nobody else shares the memory.",
        without "Everything is started by exec.";
    /// `kcmp` with `KCMP_VM`.
    Kcmp = "kcmp", since "3.5", Optional,
        with "Nothing: the share check tells when a run has left its body by exec.",
        without "Nothing is different.";
    /// A cgroup of version 2 that groups can be made in.
    Cgroup2 = "cgroup2", since "4.5", Optional,
        with "Nothing yet: memory is charged to the keeper's control group.",
        without "Nothing is different.";
    /// inotify.
    Inotify = "inotify", since "2.6.27", Optional,
        with "A changed executable or library drops its images at once, at no cost to a run.",
        without "Each spawn stats the files of its program.";
    /// `close_range`.
    CloseRange = "close_range", since "5.11", Required,
        with "Descriptors that a run must not have are closed by one call.",
        without "Nothing can be started, not even by exec.";
    /// `MEMBARRIER_CMD_GET_REGISTRATIONS`.
    MembarrierQuery = "membarrier_query", since "6.3", Optional,
        with "A body whose run registered for membarrier is noticed and given up.",
        without "A registration stays with the body: it cannot be seen.";
    /// `mseal`.
    Mseal = "mseal", since "6.10", Optional,
        with "A run can seal mappings, which cannot be undone: such a body is given up.",
        without "There is nothing to look for.";
    /// Memory-deny-write-execute.
    Mdwe = "mdwe", since "6.3", Optional,
        with "A run can deny itself executable memory, which cannot be undone: such a body is given up.",
        without "There is nothing to look for.";
    /// `PR_SET_MEMORY_MERGE` and `PR_GET_MEMORY_MERGE`.
    MemoryMerge = "memory_merge", since "6.4", Optional,
        with "A run can have its equal pages merged: the reset turns it off again.",
        without "There is nothing to look for.";
    /// AIO contexts.
    Aio = "aio", since "2.6", Optional,
        with "A run can leave AIO contexts in its memory: the reset looks for their mappings.",
        without "There is nothing to look for.";
    /// Memory protection keys.
    Pkeys = "pkeys", since "4.9", Optional,
        with "A run can allocate protection keys: the reset frees those that the image does not have.",
        without "There is nothing to look for.";
    /// The processor keeps more than the oldest floating-point registers, and the kernel saves all of it.
    ExtendedState = arch::EXTENDED_STATE, since "2.6.30", Optional,
        with "All vector and floating-point state is saved in the image and restored for each run.",
        without "The oldest floating-point registers are all there is, and are restored in the older way.";
}

impl Feature {
    /// How many there are.
    pub const COUNT: usize = TABLE.len();

    /// All of them, in the order in which they are reported.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|entry| entry.feature)
    }

    /// The feature of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|entry| entry.name == name).map(|entry| entry.feature)
    }

    /// Its name, stable: `REGROW_DISABLE` and the JSON of `regrow doctor` use it.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// The kernel version that has it first. For the reader only: a probe tries.
    pub fn since(self) -> &'static str {
        self.entry().since
    }

    /// Whether anything can be recycled without it.
    pub fn need(self) -> Need {
        self.entry().need
    }

    /// What Regrow does with it, a sentence.
    pub fn with(self) -> &'static str {
        self.entry().with
    }

    /// What Regrow does without it, a sentence.
    pub fn without(self) -> &'static str {
        self.entry().without
    }

    /// Its position in [`Feature::all`].
    pub(crate) fn index(self) -> usize {
        usize::from(self as u8)
    }

    fn entry(self) -> &'static FeatureEntry {
        // The macro writes one entry for each variant, in the same order.
        &TABLE[self.index()]
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_found_by_its_name_and_number() {
        for (position, feature) in Feature::all().enumerate() {
            assert_eq!(feature.index(), position);
            assert_eq!(feature.entry().feature, feature);
            assert_eq!(Feature::from_name(feature.name()), Some(feature));
        }
        assert_eq!(Feature::from_name("pagemap-scan"), None);
    }

    #[test]
    fn names_are_snake_case_and_texts_are_sentences() {
        for feature in Feature::all() {
            let name = feature.name();
            let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(letter), "{name}");
            assert!(feature.since().starts_with(|c: char| c.is_ascii_digit()), "{name}");
            for sentence in [feature.with(), feature.without()] {
                assert!(sentence.ends_with('.') && sentence.len() > 20, "{name}: {sentence}");
            }
        }
    }
}
