//! A kept address space: fork, arm, order, verify and discard.
//!
//! A [`Body`] is the engine's handle on one keeper (see the `agent`): it is forked from the image's seed, runs one
//! process at a time, and is put back by its keeper after each.

mod ahead;
pub mod body;
mod command;
mod control;
mod desk;
mod ending;
mod exchange;
mod keepers;
mod laid;
pub mod lease;
mod leased;
mod lending;
mod lent;
mod line;
mod place;
mod prefault;
mod reaping;
pub mod run;
pub mod shell;
mod start_error;
pub mod verify;

pub use body::{Bell, Body, BodyError, Making, Purpose, ResetWork, StartError, Times};
pub use keepers::Keepers;
pub use leased::{Layout, LeaseRun, Leased, LeasedBody};
pub use lent::{LeaseEnd, Lent};
pub use place::Processors;
pub use prefault::own_pages;
pub use run::Run;
pub use shell::Shell;
