//! The machine around the model of creation sites (`regrow-sites`): what tells the model of processes, and where its memory is kept.
//!
//! ```text
//!   collectors ──Event──> Model <──load, save──> kept: a file in the user's state folder
//!                           └──class──> outside: processes are scheduled from here        below: by a library in them
//! ```

pub mod below;
pub mod kept;
pub mod outside;
mod scheduling;
pub mod signals;

pub use scheduling::{Scheduling, SchedulingError};
