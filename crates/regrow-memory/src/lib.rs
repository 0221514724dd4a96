//! A memory service: gives blocks of pages to clients, and takes them back, without a lock that all of them meet in.
//!
//! After "A Scalable Memory Management Service Based on Microkernel OS in Multicore Environment": the memory is divided into zones, each
//! zone belongs to one server, and a master that sees all zones routes clients and balances. On Linux the service is a library: it owns one
//! range of the address space, and unmaps nothing on the hot way.
//!
//! ```text
//!   Master    which zone a client asks; which chunks move from zone to zone        (estimated loads)
//!   Zone      free blocks of its chunks, what is hot, what a page may hold         (one owner at a time)
//!   Buddy     the lists of free blocks by order
//! ```
//!
//! Sizes are in pages of 4 KiB; a block has 2^order of them; a *chunk* is 2 MiB, the unit in which zones grow, shrink and exchange memory.
//! These three make no system call and touch no page: they say what is to be done, and whoever holds the range does it.

#![forbid(unsafe_code)]

mod error;
pub mod master;
pub mod request;
pub mod units;
pub mod zone;

pub use error::ZoneError;
