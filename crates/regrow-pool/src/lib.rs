//! What is worth keeping of processes that have ended, and what is worth having ready before it is asked for.
//!
//! The mechanism can keep anything; this crate decides. It makes no system call, reads no clock and has no randomness of
//! its own: events come in with their times, actions go out, and the same events give the same actions. So a policy is
//! tested by running whole recorded days of a machine through it in milliseconds.
//!
//! ```text
//!   engine or simulator                         Pool
//!                           ┌─────────────────────────────────────────────┐
//!   created, exited,  ────> │ State   what is kept, in use, how many bytes │
//!   ready, lost, tick,      │   │ read by                                  │
//!   pressure, budget        │   v                                          │
//!                           │ Policy  none · recycle · recycle-one ·       │
//!                           │   │     pool · adaptive                      │
//!                           │   v each action is checked                   │
//!   keep, break up,   <──── │ State   legal? within the budget?            │
//!   drop, add shell,        └─────────────────────────────────────────────┘
//!   add body, prefault,       why: a reason for each thing that is kept
//!   trim
//! ```
//!
//! What can be kept (the Tender papers' table 1, and what it is here):
//!
//! | resource | fits | bytes |
//! |---|---|---|
//! | [`Kept::Shell`]: a task with a blank address space, in its sandbox | every program | the state's `shell_bytes` |
//! | [`Kept::Region`]: zeroed pages that are mapped already | a region of its size | its own |
//! | [`Kept::Body`]: an address space with the program's image in place | its program | its own, and the image once |
//!
//! A body can be broken up into a shell and regions. What is in use is never touched.
//!
//! The [`sim`] module runs a recorded sequence of creations ([`trace`]) through a policy, with a table of costs.

#![forbid(unsafe_code)]

pub mod event;
pub mod learn;
pub mod policy;
mod pool;
pub mod sim;
pub mod state;
pub mod trace;

pub use event::{
    Action, BodyId, Done, Event, Facts, Kept, Place, ProcessId, ProgramId, RegionId, ShellId, Source,
};
pub use policy::{Choice, Policy, Turn, UnknownPolicy, Why};
pub use pool::Pool;
pub use state::{Illegal, State};
