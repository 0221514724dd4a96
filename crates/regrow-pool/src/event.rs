//! What the pool is told, what it answers, and the numbers by which both speak of things.

use std::fmt;
use std::time::Duration;

/// A program, as the caller numbers them: one for each image key and recycling domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramId(pub u32);

/// A process, as the caller numbers them. A number is not used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

/// A body. The state numbers them, from 1, and uses no number twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BodyId(pub u64);

/// A shell, numbered as bodies are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShellId(pub u64);

/// A region that is in no body, numbered as bodies are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u64);

/// Something that the pool keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kept {
    /// A body.
    Body(BodyId),
    /// A shell.
    Shell(ShellId),
    /// A region.
    Region(RegionId),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(BodyId(id)) => write!(f, "body {id}"),
            Self::Shell(ShellId(id)) => write!(f, "shell {id}"),
            Self::Region(RegionId(id)) => write!(f, "region {id}"),
        }
    }
}

/// What keeping a program takes, and what it saves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Bytes of the image, which all bodies of the program share.
    pub image_bytes: u64,
    /// Bytes of each body beside its regions: page tables, stacks of the agent, the keeper.
    pub body_bytes: u64,
    /// The regions that a run dirties, in bytes: pages that need not be faulted in when they stay mapped.
    pub regions: Vec<u64>,
    /// Start-up time that a ready body saves where nothing of the program is kept.
    pub saves: Duration,
    /// Start-up time that a ready body saves where another body of the program is in use.
    pub saves_over_image: Duration,
}

impl Facts {
    /// Bytes of all regions.
    #[must_use]
    pub fn region_bytes(&self) -> u64 {
        self.regions.iter().sum()
    }
}

/// What a process was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// It runs in a kept body.
    Body(BodyId),
    /// It was made, with parts that were kept.
    Made {
        /// The image was there, held by another body: that body's fork, or shared text in the papers' system.
        image: bool,
        /// The shell that took the program.
        shell: Option<ShellId>,
        /// The regions that it was given.
        regions: Vec<RegionId>,
    },
}

impl Source {
    /// Nothing was kept that helps: an ordinary exec.
    #[must_use]
    pub const fn nothing() -> Source {
        Source::Made { image: false, shell: None, regions: Vec::new() }
    }
}

/// Something that happened. The time of it is told with it, see [`crate::Pool::handle`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// What keeping a program takes, told before its first process, or because it is another than before.
    Known {
        /// The program.
        program: ProgramId,
        /// What it takes and saves.
        facts: Facts,
    },
    /// A process was created.
    Created {
        /// The process.
        process: ProcessId,
        /// What it runs.
        program: ProgramId,
        /// The process that asked for it, if that is one that was created here.
        parent: Option<ProcessId>,
        /// The place in the parent that asked for it, where that is known.
        site: Option<u64>,
        /// How long it waited for its body to be put back.
        waited: Duration,
        /// What it was made from.
        from: Source,
    },
    /// A process has ended.
    Exited {
        /// The process.
        process: ProcessId,
        /// What a body of it takes, if one can be had: the one that it ran in, or one that the caller can make of it.
        /// `None`: there is none, and one that it ran in is gone.
        offer: Option<Facts>,
    },
    /// What was added, or a body that was kept, can be used from this moment on.
    Ready(Kept),
    /// Something that was kept is gone, and no action did it: the kernel killed it, its file changed.
    Lost(Kept),
    /// Time has passed: see [`crate::Policy::next_tick`].
    Tick,
    /// Memory is short: everything that is not in use is to be given back.
    Pressure,
    /// The budget is another.
    Budget {
        /// Most bytes that may be kept.
        bytes: u64,
    },
}

/// Where pages are added or given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a body that waits.
    Body(BodyId),
    /// In no body: a region of its own, mapped in whichever shell the caller likes.
    Pool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Put the body that a process left back, and keep it.
    Keep(BodyId),
    /// Make a shell of a body, and regions of its pages.
    BreakUp(BodyId),
    /// Destroy it.
    Drop(Kept),
    /// Make a shell.
    AddShell,
    /// Make a body of this program, before it is asked for. Its pages are not touched yet.
    AddBody(ProgramId),
    /// Add zeroed pages that are mapped already: `bytes` of them, as one region.
    Prefault {
        /// Where.
        place: Place,
        /// How many.
        bytes: u64,
    },
    /// Give back all pages of the regions in a body that waits, or that was just left.
    Trim(BodyId),
}

/// An action that the state has taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// What is to be done.
    pub action: Action,
    /// What it made: the shell and the regions of a broken-up body, what was added.
    pub made: Vec<Kept>,
}
