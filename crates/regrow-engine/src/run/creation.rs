//! How a process came to be, and why it was not recycled where it was not.
//!
//! Every spawn ends in one [`Creation`]. The reasons of an exec have stable names ([`Fallback::name`]): they are
//! the keys of the counters and of the reports, so a name is never given another meaning.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use regrow_abi::{MAX_FDS, Refused};
pub use regrow_image::point::Point;

/// How a process was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Creation {
    /// In a body that an earlier run left, or that was put in place with the image.
    Recycled {
        /// Where the run started.
        point: Point,
    },
    /// In a further body, made by the keeper's fork because the others were busy.
    ForkedBody {
        /// Where the run started.
        point: Point,
    },
    /// The ordinary way, by exec.
    Exec {
        /// Why it was not recycled.
        why: Fallback,
    },
}

impl Creation {
    /// The name of the way in reports: `recycled`, `forked_body` or `exec`.
    #[must_use]
    pub const fn how(&self) -> &'static str {
        match self {
            Self::Recycled { .. } => "recycled",
            Self::ForkedBody { .. } => "forked_body",
            Self::Exec { .. } => "exec",
        }
    }

    /// The snapshot point that the run started from, where it did not start from exec.
    #[must_use]
    pub const fn point(&self) -> Option<Point> {
        match self {
            Self::Recycled { point } | Self::ForkedBody { point } => Some(*point),
            Self::Exec { .. } => None,
        }
    }

    /// Why the run was not recycled, where it was not.
    #[must_use]
    pub const fn fallback(&self) -> Option<&Fallback> {
        match self {
            Self::Exec { why } => Some(why),
            Self::Recycled { .. } | Self::ForkedBody { .. } => None,
        }
    }

    /// Whether the run started in a kept address space.
    #[must_use]
    pub const fn is_recycled(&self) -> bool {
        self.point().is_some()
    }
}

impl fmt::Display for Creation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recycled { point } => write!(f, "recycled at {point}"),
            Self::ForkedBody { point } => write!(f, "forked body at {point}"),
            Self::Exec { why } => write!(f, "exec: {why}"),
        }
    }
}

/// A property of the caller that a kept body cannot be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallerPart {
    /// User, group or supplementary group ids, capabilities or securebits.
    Credentials,
    /// The session.
    Session,
    /// The root directory.
    Root,
    /// A namespace.
    Namespace,
    /// The control group.
    Cgroup,
    /// The seccomp state or `no_new_privs`.
    Seccomp,
    /// The scheduling policy or the set of processors.
    Scheduling,
    /// The security label or a sandbox, as far as the kernel tells.
    Confinement,
    /// The process that made the pool is not the one that uses it.
    Process,
}

impl fmt::Display for CallerPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credentials => "credentials",
            Self::Session => "session",
            Self::Root => "root directory",
            Self::Namespace => "namespaces",
            Self::Cgroup => "control group",
            Self::Seccomp => "seccomp state",
            Self::Scheduling => "scheduling",
            Self::Confinement => "security label or sandbox",
            Self::Process => "process",
        })
    }
}

/// What of a request only exec can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestPart {
    /// More descriptors than a body is given.
    Descriptors {
        /// So many.
        count: usize,
    },
    /// A descriptor with a negative number.
    DescriptorNumber,
    /// A stack limit above the hard limit of the process that makes the images.
    StackLimit,
    /// No session of its own, of a pool whose runs lead sessions.
    CallersSession,
    /// Another user or other groups than the caller's.
    Identity,
    /// A function of the caller's that is called before the program is executed.
    Hook,
    /// A name, with what it is looked up by, that is not kept for its length.
    LongName,
    /// A step that the kernel refused; `None` where it is not known which.
    Step(Option<Refused>),
    /// Arguments that the program's front end cannot be started with.
    FrontEndArguments,
    /// What the daemon cannot carry out: a message that is no request, or a session or group that is the daemon's to say.
    Message,
    /// Nothing more: the client has taken it back.
    TakenBack,
    /// A start ahead of its turn, where the process could not wait with its order.
    Ahead,
}

impl fmt::Display for RequestPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptors { count } => write!(f, "{count} descriptors, more than {MAX_FDS}"),
            Self::DescriptorNumber => f.write_str("a descriptor with a negative number"),
            Self::StackLimit => {
                f.write_str("a stack limit above the hard limit of the process that makes the images")
            }
            Self::CallersSession => f.write_str("the caller's session, of a pool whose runs lead sessions"),
            Self::Identity => f.write_str("another user or other groups"),
            Self::Hook => f.write_str("a function that is called before the exec (pre_exec)"),
            Self::LongName => f.write_str("a program whose path and PATH are too long"),
            Self::Ahead => f.write_str("a start ahead of its turn"),
            Self::Step(Some(step)) => write!(f, "{}, which the kernel refused", step.what()),
            Self::Step(None) => f.write_str("something that the kernel refused"),
            Self::FrontEndArguments => f.write_str("arguments that the front end cannot be started with"),
            Self::Message => f.write_str("something that the daemon does not understand"),
            Self::TakenBack => f.write_str("nothing, it was taken back"),
        }
    }
}

/// Why a run was started by exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// There is no image of the program; one is made after this run is started.
    FirstRun,
    /// The image of the program is being made.
    ImageInProgress,
    /// The policy keeps nothing of the program.
    NotKept,
    /// Recycling is turned off.
    RecyclingOff,
    /// The file has the set-user-ID bit.
    SetUid,
    /// The file has the set-group-ID bit.
    SetGid,
    /// The file has capabilities.
    FileCapabilities,
    /// The file can be run but not read.
    NotReadable,
    /// The file is for another architecture.
    ForeignArchitecture,
    /// The file is not an executable that Regrow understands.
    Malformed,
    /// The program is not a regular file.
    NotRegular,
    /// The file is on a file system that nothing may be run from.
    NoexecMount,
    /// The file, or one that it needs, is on a file system that another process or machine answers for, and the pool keeps nothing that is.
    RemoteFiles,
    /// The program is in a state at every snapshot point that cannot be kept.
    RefusedState {
        /// The state, for example `2 threads at main`.
        detail: String,
    },
    /// All bodies of the program are busy, and there may be no more of them.
    AllBusy,
    /// Arguments and environment do not fit in the arg area.
    ArgumentsTooLarge,
    /// The caller is not as it was when the body was made, and the body cannot be made like it.
    CallerChanged {
        /// What differs.
        what: CallerPart,
    },
    /// The body was in doubt and has been discarded.
    BodyBroken,
    /// Memory is short.
    NoMemory,
    /// Descriptors are short.
    NoDescriptors,
    /// The kernel lacks something that recycling needs.
    UnsupportedKernel,
    /// The request asks for something that only exec can give.
    UnsupportedRequest {
        /// What it asks for.
        what: RequestPart,
    },
    /// The image of the program could not be made.
    ImageFailed {
        /// What failed.
        detail: String,
    },
    /// The program could not be looked up; exec finds the error.
    ResolveError,
    /// The program or one of its libraries has changed on disk.
    ProgramChanged,
    /// A fault point of the tests has fired.
    FaultInjected,
}

impl Fallback {
    /// Whether there is no image because of what the program is, or does while it is prepared.
    pub(crate) const fn is_of_image(&self) -> bool {
        matches!(self, Self::RefusedState { .. } | Self::ImageFailed { .. })
    }

    /// The name of the reason in reports and counters. It is stable.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::FirstRun => "first_run",
            Self::ImageInProgress => "image_in_progress",
            Self::NotKept => "not_kept",
            Self::RecyclingOff => "recycling_off",
            Self::SetUid => "set_uid",
            Self::SetGid => "set_gid",
            Self::FileCapabilities => "file_capabilities",
            Self::NotReadable => "not_readable",
            Self::ForeignArchitecture => "foreign_architecture",
            Self::Malformed => "malformed",
            Self::NotRegular => "not_regular",
            Self::NoexecMount => "noexec_mount",
            Self::RemoteFiles => "remote_files",
            Self::RefusedState { .. } => "refused_state",
            Self::AllBusy => "all_busy",
            Self::ArgumentsTooLarge => "arguments_too_large",
            Self::CallerChanged { .. } => "caller_changed",
            Self::BodyBroken => "body_broken",
            Self::NoMemory => "no_memory",
            Self::NoDescriptors => "no_descriptors",
            Self::UnsupportedKernel => "unsupported_kernel",
            Self::UnsupportedRequest { .. } => "unsupported_request",
            Self::ImageFailed { .. } => "image_failed",
            Self::ResolveError => "resolve_error",
            Self::ProgramChanged => "program_changed",
            Self::FaultInjected => "fault_injected",
        }
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstRun => "there is no image of the program yet",
            Self::ImageInProgress => "the image of the program is being made",
            Self::NotKept => "the policy keeps nothing of the program",
            Self::RecyclingOff => "recycling is turned off",
            Self::SetUid => "the file has the set-user-ID bit",
            Self::SetGid => "the file has the set-group-ID bit",
            Self::FileCapabilities => "the file has capabilities",
            Self::NotReadable => "the file cannot be read",
            Self::ForeignArchitecture => "the file is for another architecture",
            Self::Malformed => "the file is not an executable that can be kept",
            Self::NotRegular => "the program is not a regular file",
            Self::NoexecMount => "the file is on a file system mounted noexec",
            Self::RemoteFiles => "a file is on a file system that another process or machine answers for",
            Self::RefusedState { detail } => {
                return write!(f, "the program's state cannot be kept: {detail}");
            }
            Self::AllBusy => "all bodies of the program are busy",
            Self::ArgumentsTooLarge => "arguments and environment are too large for a body",
            Self::CallerChanged { what } => {
                return write!(f, "the caller's {what} differs from that of the body");
            }
            Self::BodyBroken => "the body was in doubt and has been discarded",
            Self::NoMemory => "memory is short",
            Self::NoDescriptors => "descriptors are short",
            Self::UnsupportedKernel => "the kernel lacks something that recycling needs",
            Self::UnsupportedRequest { what } => {
                return write!(f, "only exec can give what is asked for: {what}");
            }
            Self::ImageFailed { detail } => return write!(f, "the image could not be made: {detail}"),
            Self::ResolveError => "the program could not be looked up",
            Self::ProgramChanged => "the program has changed on disk",
            Self::FaultInjected => "a fault point has fired",
        })
    }
}

/// Why an image could not be made ahead.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The program cannot be found or opened.
    #[error("the program {program:?} cannot be used")]
    Program {
        /// The program as the user named it.
        program: std::ffi::OsString,
        /// What the system said.
        source: io::Error,
    },
    /// The program is one that is started by exec.
    #[error("the program {program:?} is not recycled: {why}")]
    NotRecycled {
        /// The program as the user named it.
        program: std::ffi::OsString,
        /// Why it is not.
        why: Fallback,
    },
}

/// Counts per snapshot point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PointCounts {
    /// Runs that started at [`Point::Entry`].
    pub entry: u64,
    /// Runs that started at [`Point::Main`].
    pub main: u64,
    /// Runs that started at [`Point::Warm`].
    pub warm: u64,
}

impl PointCounts {
    fn add(&mut self, point: Point) {
        match point {
            Point::Entry => self.entry += 1,
            Point::Main => self.main += 1,
            Point::Warm => self.warm += 1,
        }
    }

    /// The runs of all points.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.entry + self.main + self.warm
    }
}

/// How many processes were created in which way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Runs in a recycled body.
    pub recycled: PointCounts,
    /// Runs in a body that the keeper's fork made for them.
    pub forked_body: PointCounts,
    /// Runs started by exec.
    pub exec: u64,
    /// Those of them that were executed in a shell.
    pub in_shell: u64,
    /// The runs started by exec, by [`Fallback::name`].
    pub fallbacks: BTreeMap<&'static str, u64>,
}

impl Stats {
    /// Counts one process.
    pub fn count(&mut self, creation: &Creation) {
        match creation {
            Creation::Recycled { point } => self.recycled.add(*point),
            Creation::ForkedBody { point } => self.forked_body.add(*point),
            Creation::Exec { why } => {
                self.exec += 1;
                *self.fallbacks.entry(why.name()).or_default() += 1;
            }
        }
    }

    /// All processes.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.recycled.total() + self.forked_body.total() + self.exec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_creation_is_counted_once_under_its_own_name() {
        let mut stats = Stats::default();
        let refused = Fallback::RefusedState { detail: "2 threads at main".to_owned() };
        stats.count(&Creation::Recycled { point: Point::Main });
        stats.count(&Creation::Recycled { point: Point::Entry });
        stats.count(&Creation::ForkedBody { point: Point::Main });
        stats.count(&Creation::Exec { why: refused.clone() });
        stats.count(&Creation::Exec { why: refused });
        assert_eq!(stats.recycled, PointCounts { entry: 1, main: 1, warm: 0 });
        assert_eq!(stats.forked_body, PointCounts { entry: 0, main: 1, warm: 0 });
        assert_eq!((stats.exec, stats.total()), (2, 5));
        assert_eq!(stats.fallbacks, BTreeMap::from([("refused_state", 2)]));
    }

    #[test]
    fn a_creation_says_how_it_was_made_and_why() {
        let recycled = Creation::Recycled { point: Point::Main };
        assert_eq!(
            (recycled.how(), recycled.point(), recycled.fallback()),
            ("recycled", Some(Point::Main), None)
        );
        assert_eq!(recycled.to_string(), "recycled at main");
        let why = Fallback::CallerChanged { what: CallerPart::Session };
        let exec = Creation::Exec { why: why.clone() };
        assert_eq!((exec.how(), exec.point(), exec.fallback()), ("exec", None, Some(&why)));
        assert_eq!(exec.to_string(), "exec: the caller's session differs from that of the body");
    }
}
