//! What a shard is told about how it is to work.

use std::str::FromStr;
use std::time::Duration;

use regrow_pool::policy::PolicyChoice;
use regrow_sys::disable::FeatureSet;

use regrow_abi::fault::{self, FaultPoint};

use crate::run::creation::Point;

/// Which snapshot point images are made at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PointChoice {
    /// The deepest point that is safe for the program.
    #[default]
    Auto,
    /// This point or none: a program whose state cannot be kept there is started by exec.
    Only(Point),
}

/// Which runs share a body. It has a name of one word, for command lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reuse {
    /// A body is put back after each run, and serves the next.
    #[default]
    Always,
    /// The same, but two scripts of one interpreter (`#!`) share no body.
    Script,
    /// A body serves one run. Bodies are forked ahead from the program's image, which no run has touched: nothing that a run does to its
    /// memory reaches another.
    Never,
}

impl FromStr for Reuse {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "always" => Ok(Self::Always),
            "script" => Ok(Self::Script),
            "never" => Ok(Self::Never),
            _ => Err(format!("{name:?} is none of always, script, never")),
        }
    }
}

/// How a shard works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether runs are recycled at all. Where they are not, every run is started by exec.
    pub recycle: bool,
    /// Whether every body is compared with its image, byte for byte, after every run.
    pub verify: bool,
    /// One body in so many runs is compared with its image while no run is in it; 0: none.
    pub spot_checks: u32,
    /// Whether a process that waits for its order has a session of its own already. Runs that are to have none are started by exec.
    pub sessions: bool,
    /// Whether runs are code that is trusted as its caller is: a reset believes what the kernel has noted of their writes.
    pub trusts_runs: bool,
    /// Whether every run has its body alone; a request can ask for that, too.
    pub reuse: Reuse,
    /// Which snapshot point images are made at.
    pub point: PointChoice,
    /// How many bodies of one program there may be. A run that would need one more is started by exec.
    pub max_bodies_per_program: usize,
    /// What decides which bodies and shells are kept.
    pub policy: PolicyChoice,
    /// Whether shells are kept: whoever executes a program in a process of its own has no use for them.
    pub shells: bool,
    /// How much memory may be held by what is kept and in no use.
    pub budget_bytes: u64,
    /// Whether nothing is kept that lies on a file system which another process or machine answers for, and no file is looked at for a run
    /// before somebody has looked it up ([`Lookup`](crate::run::lookup::Lookup)): whoever must not wait for such a file system wants that.
    pub local_files_only: bool,
    /// How old what is known of the caller may be: a change of limits, ignored signals or affinity shows within this time.
    pub reread_after: Duration,
    /// Whether the times of each run are noted (see `Shard::times`).
    pub timed: bool,
    /// Whether a pool of a library is in the list of pools ([`listing`](crate::listing)).
    pub listed: bool,
    /// Kernel features that are not to be used, as `REGROW_DISABLE` names them.
    pub disabled: FeatureSet,
    /// The fault point that is to fail (tests).
    pub fault: FaultPoint,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            recycle: true,
            verify: false,
            spot_checks: 0,
            sessions: false,
            trusts_runs: false,
            reuse: Reuse::Always,
            point: PointChoice::Auto,
            max_bodies_per_program: 8,
            policy: PolicyChoice::default(),
            shells: true,
            budget_bytes: default_budget(),
            local_files_only: false,
            reread_after: Duration::from_millis(10),
            timed: false,
            listed: true,
            disabled: FeatureSet::from_env().unwrap_or_default(),
            fault: fault::NONE,
        }
    }
}

/// Five percent of the machine's memory, or of what this process may take where that is less.
#[must_use]
pub fn default_budget() -> u64 {
    const PERCENT: u64 = 5;
    let info = rustix::system::sysinfo();
    let machine = info.totalram.saturating_mul(info.mem_unit.into());
    let limit = regrow_sys::pressure::memory_limit().unwrap_or(u64::MAX);
    machine.min(limit) / 100 * PERCENT
}
