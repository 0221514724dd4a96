//! What the probe knows of a feature.

use std::{fmt, io};

use super::outcome::{TrialError, TrialResult};

/// What the probe knows of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureState {
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

impl fmt::Display for FeatureState {
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

impl From<TrialResult> for FeatureState {
    fn from(outcome: TrialResult) -> Self {
        match outcome {
            Ok(()) => Self::Works,
            Err(TrialError::Errno(errno)) => Self::Missing { errno },
            Err(TrialError::Misbehaves) => Self::Misbehaves,
        }
    }
}
