//! What a call has come to, as a number, and the number's text.

#![allow(unsafe_code, reason = "C knows functions by name")]

use std::ffi::{CStr, c_char};

use regrow_memory::{RawError, ServiceError};

/// What a call has come to. Nothing has changed where it is not REGROW_MEMORY_STATUS_OK.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegrowMemoryStatus {
    /// It is done.
    Ok = 0,
    /// A pointer that must point to something is null.
    Null = 1,
    /// No service has so many chunks or zones, or so few.
    Options = 2,
    /// No block is so large.
    TooLarge = 3,
    /// The service has no memory for such a block.
    NoMemory = 4,
    /// The block is free already.
    FreedTwice = 5,
    /// No block of this client begins at the address.
    NoBlock = 6,
    /// The address is none of the service.
    Outside = 7,
    /// The system refuses: most often a limit of memory, or of mappings.
    System = 8,
}

impl RegrowMemoryStatus {
    pub(crate) const ALL: [RegrowMemoryStatus; 9] = {
        use RegrowMemoryStatus::{
            FreedTwice, NoBlock, NoMemory, Null, Ok, Options, Outside, System, TooLarge,
        };
        [Ok, Null, Options, TooLarge, NoMemory, FreedTwice, NoBlock, Outside, System]
    };

    pub(crate) fn text(self) -> &'static CStr {
        match self {
            RegrowMemoryStatus::Ok => c"it is done",
            RegrowMemoryStatus::Null => c"a pointer that must point to something is null",
            RegrowMemoryStatus::Options => c"no service has so many chunks or zones, or so few",
            RegrowMemoryStatus::TooLarge => c"no block is so large",
            RegrowMemoryStatus::NoMemory => c"the service has no memory for such a block",
            RegrowMemoryStatus::FreedTwice => c"the block is free already",
            RegrowMemoryStatus::NoBlock => c"no block of this client begins at the address",
            RegrowMemoryStatus::Outside => c"the address is none of the service",
            RegrowMemoryStatus::System => c"the system refuses",
        }
    }
}

impl From<&ServiceError> for RegrowMemoryStatus {
    fn from(error: &ServiceError) -> RegrowMemoryStatus {
        match error {
            ServiceError::Chunks { .. } | ServiceError::Zones { .. } => RegrowMemoryStatus::Options,
            ServiceError::TooLarge { .. } => RegrowMemoryStatus::TooLarge,
            ServiceError::NoMemory { .. } => RegrowMemoryStatus::NoMemory,
            ServiceError::System { .. } => RegrowMemoryStatus::System,
        }
    }
}

impl From<&RawError> for RegrowMemoryStatus {
    fn from(error: &RawError) -> RegrowMemoryStatus {
        match error {
            RawError::FreedTwice { .. } => RegrowMemoryStatus::FreedTwice,
            RawError::NoBlock { .. } => RegrowMemoryStatus::NoBlock,
            RawError::Outside { .. } => RegrowMemoryStatus::Outside,
            RawError::Service(error) => error.into(),
        }
    }
}

impl From<Result<(), RawError>> for RegrowMemoryStatus {
    fn from(done: Result<(), RawError>) -> RegrowMemoryStatus {
        done.map_or_else(|error| (&error).into(), |()| RegrowMemoryStatus::Ok)
    }
}

/// The text of a status, which lives as long as the program. A number that is no status has a text that says so.
#[unsafe(no_mangle)]
pub extern "C" fn regrow_memory_status_text(status: i32) -> *const c_char {
    let of = |&known: &RegrowMemoryStatus| known as i32 == status;
    let known = RegrowMemoryStatus::ALL.into_iter().find(of);
    known.map_or(c"no status of the memory service", RegrowMemoryStatus::text).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_a_text_of_its_own() {
        // SAFETY: texts end in a zero and live as long as the program.
        let text = |status| unsafe { CStr::from_ptr(regrow_memory_status_text(status)) };
        let texts: std::collections::BTreeSet<&CStr> = (-1..10).map(text).collect();
        assert_eq!(texts.len(), RegrowMemoryStatus::ALL.len() + 1);
        assert_eq!(text(-1), text(i32::MAX));
    }
}
