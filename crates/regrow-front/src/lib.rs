//! The engine's side of a *front end*: a program that prepares itself, stops, and is woken in every run.
//!
//! `docs/warm.md` is the contract. This crate has its formats and the front ends that come with Regrow, and makes no
//! system call: bytes come in, and bytes go out.
//!
//! ```text
//!  command line ── python::plan, perl::plan ──> arguments of the front end, names of the key
//!  report       ── report::parse ─> what the image depends on
//!  a run        ── order::write ──> what the front end reads when it wakes
//! ```

#![forbid(unsafe_code)]

pub mod names;
pub mod order;
pub mod perl;
pub mod python;
pub mod report;

/// The descriptor that is a front end's report, and then its order.
pub const DESCRIPTOR: i32 = 63;

/// The variable that tells a front end its descriptor when it is to stop itself.
pub const WARM_VARIABLE: &str = "REGROW_WARM";

/// The variable that tells a front end its descriptor when the order is there from the start.
pub const ORDER_VARIABLE: &str = "REGROW_ORDER";
