//! The profiler of process creations: which place in which program creates processes, and what they cost.
//!
//! ```text
//!   collectors ──Event──> Profile ─────────> Report ──> JSON, CSV, pprof, HTML; the command's tables
//!                         a row per site     ^     ^
//!                         a tree of creations│     │
//!                         Symbols ───────────┘     └── Savings: what recycled starts would have saved
//!                         address ──> function, file:line
//! ```
//!
//! After Choi et al. ("location-based process management"), whose tables 1 to 3 give the average running time by the image and the place that
//! created a process.
//!
//! - A [`Profile`] takes what collectors tell, in any order, and has bounded memory however much they tell.
//! - [`Symbols`] read the files of programs and libraries, and their debug information where it is on this machine.
//! - [`Savings`] says what a recycled start of each program would have saved, and how it comes to that figure. Nothing is executed for it.
//! - A [`Report`] is all of that as values that are ready to be shown; every output is made of it.
//! - [`traced::Traced`] makes events of what a tracer sees ([`regrow_sys::follow`]).

#![forbid(unsafe_code)]

pub mod image;
pub mod profile;
pub mod report;
pub mod savings;
pub mod symbols;
pub mod text;
pub mod traced;

pub use profile::Profile;
pub use report::Report;
pub use savings::Savings;
pub use symbols::Symbols;
