//! How much process a work gets, and what each kind isolates.

use std::fmt;
use std::str::FromStr;

/// How much process a work gets, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Weight {
    /// A state machine: no stack. It shares everything, and gives way between its steps alone.
    Step,
    /// A stack of its own, in a thread of many.
    Fiber,
    /// A thread of the kernel's.
    Thread,
    /// A copy of this process.
    Fork,
    /// A fresh process of this program, which has seen nothing but its arguments.
    Fresh,
    /// A process of another program.
    Program,
}

/// What of a work does not reach who has started it. Each entry is a test (`crates/regrow/tests/isolation.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isolation {
    /// What it writes to memory.
    pub memory: bool,
    /// It does not see what stands in the caller's memory.
    pub secrets: bool,
    /// Its crash: a wild address, an abort, an exit.
    pub crash: bool,
    /// An endless loop, which can be ended.
    pub time: bool,
    /// Its working directory, its umask, and descriptors that it closes.
    pub files: bool,
    /// Descriptors of the caller that it was not given.
    pub descriptors: bool,
    /// Rights: what the caller's user may do, it may.
    pub rights: bool,
}

impl Weight {
    /// All of them, the lightest first.
    pub const ALL: [Self; 6] =
        [Self::Step, Self::Fiber, Self::Thread, Self::Fork, Self::Fresh, Self::Program];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Fiber => "fiber",
            Self::Thread => "thread",
            Self::Fork => "fork",
            Self::Fresh => "fresh",
            Self::Program => "program",
        }
    }

    /// What it isolates.
    #[must_use]
    pub fn isolation(self) -> Isolation {
        let is_process = self >= Self::Fork;
        let is_fresh = self >= Self::Fresh;
        Isolation {
            memory: is_process,
            secrets: is_fresh,
            crash: is_process,
            time: is_process,
            files: is_process,
            descriptors: is_fresh,
            rights: false,
        }
    }
}

impl Isolation {
    /// The name of each entry, and whether it is isolated.
    #[must_use]
    pub fn entries(self) -> [(&'static str, bool); 7] {
        [
            ("memory", self.memory),
            ("secrets", self.secrets),
            ("crash", self.crash),
            ("time", self.time),
            ("files", self.files),
            ("descriptors", self.descriptors),
            ("rights", self.rights),
        ]
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// No weight has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no weight is called {0:?}: there are step, fiber, thread, fork, fresh and program")]
pub struct UnknownWeight(String);

impl FromStr for Weight {
    type Err = UnknownWeight;

    fn from_str(name: &str) -> Result<Self, UnknownWeight> {
        Self::ALL
            .into_iter()
            .find(|weight| weight.name() == name)
            .ok_or_else(|| UnknownWeight(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_known_by_their_names_and_isolate_more_and_more() {
        for weight in Weight::ALL {
            assert_eq!(weight.name().parse(), Ok(weight));
        }
        assert!("heavy".parse::<Weight>().unwrap_err().to_string().contains("\"heavy\""));
        for pair in Weight::ALL.windows(2) {
            let [lighter, heavier] = pair else { unreachable!("two at a time") };
            let entries = lighter.isolation().entries().into_iter().zip(heavier.isolation().entries());
            assert!(entries.into_iter().all(|((_, lighter), (_, heavier))| lighter <= heavier));
        }
    }
}
