//! How a task is scheduled, as the kernel has it.

/// The kernel's `struct sched_attr`, its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedAttr {
    /// Bytes of the structure, as the kernel has filled it.
    pub size: u32,
    /// The policy, by its `SCHED_` number; 0 is the ordinary one.
    pub policy: u32,
    /// The `SCHED_FLAG_` bits; 1 has children begin with the default.
    pub flags: u64,
    /// Niceness.
    pub nice: i32,
    /// The priority under a real-time policy.
    pub priority: u32,
    /// Under an ordinary policy the slice in nanoseconds, from Linux 6.12 on.
    pub runtime: u64,
    /// The deadline under `SCHED_DEADLINE`, in nanoseconds.
    pub deadline: u64,
    /// The period under `SCHED_DEADLINE`, in nanoseconds.
    pub period: u64,
}

const _: () = assert!(size_of::<SchedAttr>() == 48);

impl SchedAttr {
    /// The ordinary policy (`SCHED_OTHER`).
    pub const OTHER: u32 = 0;
    /// That of work that nobody waits for (`SCHED_BATCH`).
    pub const BATCH: u32 = 3;

    /// The same with another slice; `None` under a policy that has none.
    #[must_use]
    pub fn with_slice(mut self, slice_ns: u64) -> Option<SchedAttr> {
        self.runtime = slice_ns;
        (self.policy == Self::OTHER || self.policy == Self::BATCH).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_policies_have_a_slice() {
        for (policy, has) in [(0, true), (1, false), (2, false), (3, true), (5, false), (6, false)] {
            let of = SchedAttr { policy, nice: 3, ..SchedAttr::default() };
            let with = SchedAttr { runtime: 100_000, ..of };
            assert_eq!(of.with_slice(100_000), has.then_some(with), "policy {policy}");
        }
    }
}
