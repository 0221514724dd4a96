//! Why something is kept, in words.

use std::fmt;
use std::time::Duration;

/// Why something is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The policy keeps every body.
    EveryBody,
    /// It is the one body of a program that runs often.
    RunsOften {
        /// How many of the last creations were of it.
        runs: u32,
        /// Of how many.
        of: u32,
    },
    /// It is a part of a broken-up body, and every process can use it.
    Part,
    /// At least so many are kept.
    Minimum {
        /// How many.
        least: usize,
    },
    /// It is unused, and processes of its program use their bodies up.
    UsedUp,
    /// Somebody has named its program as one that is going to start.
    Named,
    /// Its program often comes next.
    Follows {
        /// What it follows.
        cue: crate::learn::Cue,
        /// In how many of a hundred cases.
        percent: u8,
    },
    /// It was needed just now, although the next need is not likely: making it again would cost something too.
    Lately {
        /// How many of its kind have been needed at a time when it was.
        at_a_time: usize,
    },
    /// It is likely to be needed again within this window.
    Gap {
        /// How long it has not been needed.
        unused: Duration,
        /// How long it is kept after it was last needed.
        keep_alive: Duration,
        /// How many of its kind have been needed at a time when it was.
        at_a_time: usize,
        /// Start-up time that it is expected to save, in microseconds for each mebibyte and hour.
        saves_us_per_mib_hour: u64,
        /// Whose gaps that was learned from.
        from: crate::learn::Basis,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EveryBody => f.write_str("every body is kept"),
            Self::RunsOften { runs, of } => write!(f, "runs often: {runs} of the last {of} creations"),
            Self::Part => f.write_str("part of a body that was broken up; every program can use it"),
            Self::Minimum { least } => write!(f, "at least {least} are kept ready"),
            Self::UsedUp => f.write_str("unused, for a process that uses its body up"),
            Self::Named => f.write_str("named as a program that is going to be started"),
            Self::Follows { cue, percent } => write!(f, "comes after {cue} in {percent} of 100 cases"),
            Self::Lately { at_a_time } => write!(f, "{at_a_time} at a time were needed until just now"),
            Self::Gap { unused, keep_alive, at_a_time, saves_us_per_mib_hour, from } => write!(
                f,
                "{at_a_time} at a time needed {unused:.1?} ago, kept for {keep_alive:.1?} ({from}); saves {:.1?} per MiB \
                 and hour",
                Duration::from_micros(*saves_us_per_mib_hour)
            ),
        }
    }
}
