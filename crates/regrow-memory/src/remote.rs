//! Processes of one domain share a service: a block goes from one to another without a copy.
//!
//! ```text
//!   process with the service                      another process
//!     Domain    doorman: socket ── hello: ─────── RemoteClient::connect      three files in memory: the range, what all share, the client's lane
//!                        hang-up <─────────────── it ends, however it does
//!               porter:  lane <── requests, answers ── alloc, free           sleeps in its bell while nobody asks for anything
//!                        books, zones
//!     shared    entry of each page: who has the block that begins there ──── hand_to: giver ─> receiver, by one atomic operation
//!               desk of each client: is it there; its inbox ──────────────── send_to, receive
//! ```
//!
//! Over the socket a client may ask one question: how the service is ([`DomainStatus`]).
//!
//! # What is believed
//!
//! Only processes of the same user come in, and all of them map the whole range: a block is kept from others by their library, as memory is kept from other threads
//! by the compiler. The process with the service believes nothing: what it goes by (zones, books) is its own memory, lines are read as any stranger's, and an
//! entry is used only together with the books. So the worst that a process can do is to spoil blocks and entries; lists stay whole.
//!
//! # What is zero when
//!
//! The zone says with each grant whether somebody else had the pages; the client's library zeroes them before it gives the block out. A client that dies before
//! that is the last one that had them for the zone, its number never comes again, and so whoever is next zeroes them.

mod block;
mod books;
mod client;
mod connection;
mod counts;
mod domain;
mod doorman;
mod error;
mod guest;
mod hello;
mod memory;
mod peer;
mod porter;
mod socket_file;
mod status;
mod ticket;

#[cfg(test)]
mod tests;

pub use block::{HandError, RemoteBlock};
pub use client::RemoteClient;
pub use counts::DomainState;
pub use domain::Domain;
pub use error::{DomainError, TicketError};
pub use peer::Peer;
pub use status::{Cell, DomainStatus, ZoneStatus};
pub use ticket::Ticket;
