//! Where a process was created, and what follows from it.
//!
//! After Choi et al. ("location-based process management"): the image of the parent and the place in it where a child is created predict how
//! long the child runs. This crate says what a creation site is and what happens to processes, as values; it makes no system call, reads
//! no clock and has no state of its own but the model's.
//!
//! ```text
//!   collectors ──Event──> Model ──Prediction──> scheduler, pool, profiler
//!   (a preloaded library, BPF, Regrow's own starts)
//! ```

#![forbid(unsafe_code)]

pub mod event;
mod hash;
pub mod model;
pub mod place;
pub mod site;

pub use event::{Event, ProcessKey, Usage};
pub use model::{After, DecodeError, Expected, Level, Model, Next, PlaceId, Prediction, Quantiles};
pub use regrow_abi::sites::Arguments;
pub use site::{Frame, ImageId, Script, Site};
