//! What all processes of a domain share, and any of them may write to: words, and the steps by which blocks and tickets go over them.
//!
//! ```text
//!   head     desk of each client: is it there (presence), its inbox         layout, inbox
//!   entry    of each page: who has the block that begins there              entry
//!   steps    of giver, receiver and porter, in which order                  handing
//! ```
//!
//! Nothing here maps memory, waits or makes a system call, so that models try each order of the atomic operations (`make loom`). What maps the memory, and the
//! processes on both sides: `remote`.

pub(crate) mod entry;
pub(crate) mod handing;
pub(crate) mod inbox;
pub(crate) mod layout;

#[cfg(all(test, loom))]
mod model;
