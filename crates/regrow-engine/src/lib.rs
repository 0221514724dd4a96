//! A shard: the tables of programs, images, bodies, shells and processes; spawn, wait and fall back.
//!
//! ```text
//!   controller   shared     who uses a shard: by paths and handles, or from several threads
//!        shard              wiring
//!   spawn/      tending     find an image, start a run; do what the ledger wants
//!        keeping/           tables, ledger and chores together
//!   tables/     ledger      what is kept; what is decided about it (pure)
//!        image/             make images, fork bodies
//!        run/               what a run is, how it came to be, and its exec
//!        way                what decides what a path names
//!        listing            the list of a user's pools, for whoever wants to see them
//! ```

#![forbid(unsafe_code)]

mod clock;
pub mod controller;
pub mod ids;
mod image;
pub mod keeping;
mod ledger;
pub mod listing;
pub mod log;
pub mod run;
pub mod settings;
pub mod shard;
pub mod shared;
mod spawn;
mod tables;
mod tending;
pub mod view;
mod way;

pub use image::maker::refusal_of;
pub use regrow_abi::fault;
