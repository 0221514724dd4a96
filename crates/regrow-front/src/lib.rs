//! The engine's side of a *front end*: a program that prepares itself, stops, and is woken in every run.
//!
//! `docs/warm.md` is the contract. This crate has its formats and the front ends that come with Regrow, and makes no
//! system call: bytes come in, and bytes go out.
//!
//! ```text
//!  a descriptor, two variables      channel     how the two sides reach each other
//!  command line ── languages ─────> plan        the arguments of the front end, and what the image's key has of it
//!  report       ── report::parse ─> PreparationReport   what the image depends on
//!  a run        ── order::write ──> bytes       what the front end reads when it wakes
//! ```

#![forbid(unsafe_code)]

pub mod channel;
pub mod language;
pub mod languages;
pub mod names;
pub mod order;
pub mod perl;
pub mod python;
pub mod report;

pub use channel::{DESCRIPTOR, ORDER_VARIABLE, WARM_VARIABLE};
