//! What is worth keeping of processes that have ended, and what is worth having ready before it is asked for.
//!
//! The mechanism can keep anything; this crate decides. It makes no system call, reads no clock and has no randomness of
//! its own: events come in with their times, actions go out, and the same events give the same actions. So a policy is
//! tested by running whole recorded days of a machine through it in milliseconds.
//!
//! ```text
//!   engine or simulator                         Planner
//!                           ┌──────────────────────────────────────────────────┐
//!   created, exited,  ────> │ Inventory   what is kept, in use, how many bytes │
//!   ready, lost, tick,      │   │ read by                                      │
//!   pressure, budget        │   v                                              │
//!                           │ Policy  none · recycle · recycle-one ·           │
//!                           │   │     pool · adaptive                          │
//!                           │   v each action is checked                       │
//!   keep, break up,   <──── │ Inventory   legal? within the budget?            │
//!   drop, add shell,        └──────────────────────────────────────────────────┘
//!   add body, prefault,       why: a reason for each thing that is kept
//!   trim
//! ```
//!
//! What a pool can keep (the Tender papers' table 1, and what it is here):
//!
//! | resource | fits | bytes |
//! |---|---|---|
//! | [`KeptId::Shell`]: a task with a blank address space, in its sandbox | every program | the inventory's `shell_bytes` |
//! | [`KeptId::Region`]: zeroed pages that are mapped already | a region of its size | its own |
//! | [`KeptId::Body`]: an address space with the program's image in place | its program | its own, and the image once |
//!
//! A policy can have a body broken up into a shell and regions. It never touches what is in use.
//!
//! The [`sim`] module runs a recorded sequence of creations ([`trace`]) through a policy, with a table of costs.

#![forbid(unsafe_code)]

pub mod event;
pub mod ids;
pub mod inventory;
pub mod learn;
mod planner;
pub mod policy;
pub mod sim;
pub mod trace;

pub use event::{Action, Done, Event, Facts, KeptId, RegionPlace, Source};
pub use ids::{BodyId, ProcessId, ProgramId, RegionId, ShellId};
pub use inventory::{Illegal, Inventory};
pub use planner::Planner;
pub use policy::{Policy, PolicyChoice, Turn, UnknownPolicy, Why};
