//! The settings of the adaptive policy.

use std::time::Duration;

/// How the policy works. None of it needs to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptiveSettings {
    /// Start-up time that a shell saves; zero: shells are not kept.
    pub shell_saves: Duration,
    /// Start-up time that a region in the pool saves, in nanoseconds for each KiB; zero: they are not kept.
    pub region_saves_ns_per_kib: u64,
    /// Start-up time that a mapped page in a body saves, in nanoseconds for each KiB.
    pub fault_ns_per_kib: u64,
    /// A program is expected after another when it came next in at least so many of a hundred cases.
    pub follows_percent: u8,
    /// The policy gives back what nobody needs for this long.
    pub rest: Duration,
    /// The policy keeps an unused body at least this long: making it again costs something too.
    pub least: Duration,
    /// The same while memory is not short and the policy does not know yet after how long programs come back. Once it knows,
    /// a body stays a quarter longer than the longest such time, and at most this long.
    pub ample_least: Duration,
    /// From so many percent of the budget on, memory counts as short, and the policy gives back what is hardly needed again.
    pub tight_percent: u8,
    /// For how long the policy keeps and adds nothing after memory was short.
    pub pause: Duration,
    /// How many keepers can put bodies back at a time: as many as processors remain beside the caller's.
    pub resets_beside: usize,
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self {
            shell_saves: Duration::from_micros(50),
            region_saves_ns_per_kib: 0,
            fault_ns_per_kib: 300,
            follows_percent: 40,
            rest: Duration::from_secs(60),
            least: Duration::from_secs(10),
            ample_least: Duration::from_secs(600),
            tight_percent: 50,
            pause: Duration::from_secs(2),
            resets_beside: 1,
        }
    }
}
