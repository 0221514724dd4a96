//! What the engine tells the pool, and what the pool answers.

use std::fmt;
use std::time::Duration;

use crate::ids::{BodyId, ProcessId, ProgramId, RegionId, ShellId};

/// A resource that the pool keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeptId {
    /// A body.
    Body(BodyId),
    /// A shell.
    Shell(ShellId),
    /// A region.
    Region(RegionId),
}

impl fmt::Display for KeptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(id) => id.fmt(f),
            Self::Shell(id) => id.fmt(f),
            Self::Region(id) => id.fmt(f),
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
    /// The regions that a run dirties, in bytes: a run takes no fault for pages that stay mapped.
    pub regions: Vec<u64>,
    /// Start-up time that a ready body saves when the pool keeps nothing of the program.
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
        /// Another body held the image: on Linux a fork of the image, in the papers' system shared text.
        image: bool,
        /// The shell that took the program.
        shell: Option<ShellId>,
        /// The regions that it took.
        regions: Vec<RegionId>,
        /// The body that was made for it, where the caller has one: an id that [`crate::Planner::reserve_body`] gave.
        body: Option<BodyId>,
    },
}

impl Source {
    /// Nothing was kept that helps: an ordinary exec.
    #[must_use]
    pub const fn nothing() -> Source {
        Source::Made { image: false, shell: None, regions: Vec::new(), body: None }
    }
}

/// Something that happened. The caller tells its time, too: see [`crate::Planner::handle`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// What keeping a program takes. It comes before the program's first process, and after each change.
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
        /// The process that asked for it, if the pool knows that one.
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
        /// What a body of it takes: the body that it ran in, or one that the caller can make of it.
        /// `None`: there is no body; if it ran in one, that is gone.
        offer: Option<Facts>,
    },
    /// The process of the event before uses up what it was made from: no other process gets its body.
    UsedUp {
        /// Its program.
        program: ProgramId,
        /// What it was made from.
        from: Source,
    },
    /// From this moment on a process can use what was added, or a body that was kept.
    Ready(KeptId),
    /// Something that the pool kept is gone without an action: the kernel killed it, or its file changed.
    Lost(KeptId),
    /// Time has passed: see [`crate::Policy::next_tick`].
    Tick,
    /// Memory is short: the policy gives back everything that is not in use.
    Pressure,
    /// The budget has changed.
    Budget {
        /// Most bytes that may be kept.
        bytes: u64,
    },
}

/// Where an action adds pages or gives them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionPlace {
    /// In a body that waits.
    Body(BodyId),
    /// In no body: a region of its own, mapped in whichever shell the caller likes.
    Pool,
}

/// What the caller is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Put the body that a process left back, and keep it.
    Keep(BodyId),
    /// Make a shell of a body, and regions of its pages.
    BreakUp(BodyId),
    /// Destroy it.
    Drop(KeptId),
    /// Make a shell.
    AddShell,
    /// Make a body of this program ahead. Its pages stay untouched.
    AddBody(ProgramId),
    /// Map zeroed pages ahead: `bytes` of them, as one region.
    Prefault {
        /// Where.
        place: RegionPlace,
        /// How many.
        bytes: u64,
    },
    /// Give back all pages of the regions in a body that waits, or that its process has just left.
    Trim(BodyId),
}

/// An action that the inventory has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// What the caller is to do.
    pub action: Action,
    /// What it made: the shell and the regions of a broken-up body, what was added.
    pub made: Vec<KeptId>,
}
