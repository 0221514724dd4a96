//! What a body is doing, why a keeper gave it up, and which step of an order failed: the words of the control area.

/// What a body is doing. The value of [`Control::state`](crate::Control::state).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// The keeper has not come to its loop.
    Starting = 0,
    /// The keeper makes the next process.
    Arming = 1,
    /// A process waits for its order.
    Armed = 2,
    /// The engine has taken the armed process and is about to send its order.
    Taken = 3,
    /// The program runs.
    Running = 4,
    /// The run has left the body; the keeper puts it back.
    Resetting = 5,
    /// The body is put back and waits to be compared (verify mode).
    Clean = 6,
    /// The keeper gave the body up: see [`Control::broken`](crate::Control::broken).
    Broken = 7,
}

impl State {
    /// The state that a raw word stands for, if any.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<State> {
        Some(match raw {
            0 => State::Starting,
            1 => State::Arming,
            2 => State::Armed,
            3 => State::Taken,
            4 => State::Running,
            5 => State::Resetting,
            6 => State::Clean,
            7 => State::Broken,
            _ => return None,
        })
    }
}

/// Why a keeper gave its body up. The value of [`Control::broken`](crate::Control::broken).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Broken {
    /// The image is of another protocol version.
    Version = 1,
    /// The next process could not be made.
    Clone = 2,
    /// A process that is not the run still shares the memory.
    Shared = 3,
    /// A mapping of a file went missing and cannot be mapped again from inside.
    MappingLost = 4,
    /// The mappings differ from the image after everything was tried.
    Mappings = 5,
    /// A page could not be put back.
    Pages = 6,
    /// The program break could not be put back.
    Brk = 7,
    /// The address space carries state that cannot be undone (an LDT, membarrier, memory-deny-write-execute, …).
    Sticky = 8,
    /// `/proc` is not there or refuses.
    Proc = 9,
    /// More mappings than the agent keeps room for.
    TooManyMappings = 10,
    /// A fault point of the tests was hit.
    Fault = 11,
    /// A process died with its order, before it was the run.
    Died = 12,
    /// A process that the run has forked still has a copy of the memory.
    LeftProcesses = 13,
    /// A run has sealed a mapping of the image.
    Sealed = 14,
    /// A run has left guard pages in a mapping of the image.
    Guarded = 15,
    /// A run has changed the keeper: its limits, or how it is scheduled.
    Keeper = 16,
    /// A page could not be read from the seed, which alone has its content.
    Seed = 17,
}

impl Broken {
    /// The reason that a raw word stands for, if any.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Broken> {
        Some(match raw {
            1 => Broken::Version,
            2 => Broken::Clone,
            3 => Broken::Shared,
            4 => Broken::MappingLost,
            5 => Broken::Mappings,
            6 => Broken::Pages,
            7 => Broken::Brk,
            8 => Broken::Sticky,
            9 => Broken::Proc,
            10 => Broken::TooManyMappings,
            11 => Broken::Fault,
            12 => Broken::Died,
            13 => Broken::LeftProcesses,
            14 => Broken::Sealed,
            15 => Broken::Guarded,
            16 => Broken::Keeper,
            17 => Broken::Seed,
            _ => return None,
        })
    }
}

/// Which step of an order the agent could not carry out. Part of a [`Report`](crate::Report).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Refused {
    /// Placing the descriptors.
    Descriptors = 1,
    /// A session of its own.
    Session = 2,
    /// The process group.
    ProcessGroup = 3,
    /// A resource limit.
    Limit = 4,
    /// The niceness.
    Nice = 5,
    /// The working directory.
    Directory = 6,
    /// A private copy of root, working directory and umask.
    Filesystem = 7,
    /// The bounds of arguments and environment.
    Bounds = 8,
    /// Scheduling policy or affinity.
    Scheduling = 9,
    /// Executing the program in a shell.
    Exec = 10,
    /// Taking the order: the process had ended before.
    Take = 11,
}

impl Refused {
    /// The step that a raw word stands for, if any.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Refused> {
        Some(match raw {
            1 => Refused::Descriptors,
            2 => Refused::Session,
            3 => Refused::ProcessGroup,
            4 => Refused::Limit,
            5 => Refused::Nice,
            6 => Refused::Directory,
            7 => Refused::Filesystem,
            8 => Refused::Bounds,
            9 => Refused::Scheduling,
            10 => Refused::Exec,
            11 => Refused::Take,
            _ => return None,
        })
    }

    /// What was to be done, in words.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Refused::Descriptors => "its descriptors",
            Refused::Session => "a session of its own",
            Refused::ProcessGroup => "its process group",
            Refused::Limit => "a resource limit",
            Refused::Nice => "its niceness",
            Refused::Directory => "its working directory",
            Refused::Filesystem => "a root, working directory and umask of its own",
            Refused::Bounds => "the bounds of its arguments",
            Refused::Scheduling => "its scheduling",
            Refused::Exec => "the exec",
            Refused::Take => "the start, before which the process ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_from_its_number_and_no_other_number_is_one() {
        let known = (0..=7).filter_map(State::from_raw);
        assert!(known.clone().enumerate().all(|(number, state)| state as usize == number));
        assert_eq!(known.count(), 8);
        assert!([8, 9, u32::MAX].into_iter().all(|number| State::from_raw(number).is_none()));
    }

    #[test]
    fn a_reason_is_read_back_from_its_number_and_no_other_number_is_one() {
        let known = (1..=17).filter_map(Broken::from_raw);
        assert!(known.clone().zip(1..).all(|(reason, number)| reason as u32 == number));
        assert_eq!(known.count(), 17);
        assert!([0, 18, u32::MAX].into_iter().all(|number| Broken::from_raw(number).is_none()));
    }

    #[test]
    fn a_step_is_read_back_from_its_number_and_no_other_number_is_one() {
        let known = (1..=11).filter_map(Refused::from_raw);
        assert!(known.clone().zip(1..).all(|(step, number)| step as u32 == number));
        assert_eq!(known.count(), 11);
        assert!([0, 12, u32::MAX].into_iter().all(|number| Refused::from_raw(number).is_none()));
    }
}
