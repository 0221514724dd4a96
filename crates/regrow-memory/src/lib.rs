//! A memory service: gives blocks of pages to clients, and takes them back, without a lock that all of them meet in.
//!
//! After "A Scalable Memory Management Service Based on Microkernel OS in Multicore Environment": the memory is divided into zones, each
//! zone belongs to one server, and a master that sees all zones routes clients and balances. On Linux the service is a library: it owns one
//! range of the address space, and unmaps nothing on the hot way.
//!
//! ```text
//!   Client    asks for blocks, keeps a few that it has just given back        Block: memory that a client has alone
//!   RawClient the same for callers that have addresses alone, from all threads
//!   Service   made once, gives out clients
//!   Store     range, zones and master together
//!   Master    which zone a client asks; which chunks move from zone to zone   (estimated loads)
//!   Link      a client's side of a lane: requests and answers, a cache line each       Slave: a thread that serves a zone under load
//!   Seat      a zone, its token and its rings; what waits for whoever has the token
//!   Zone      free blocks of its chunks, what is hot, what a page may hold    (one owner at a time)
//!   Keeper    the thread that gives back what nobody has needed for a while, or all of it when memory is short
//!   Range     the memory: maps, zeroes, gives back
//!   Domain    lets other processes have blocks of the service     RemoteClient: what such a process has
//! ```
//!
//! Sizes are in pages of 4 KiB; a block has 2^order of them; a *chunk* is 2 MiB, the unit in which zones grow, shrink and exchange memory.
//! `master` and `zone` make no system call and touch no page: they say what is to be done.
//!
//! ```
//! use regrow_memory::{Mode, Service, ServiceOptions};
//!
//! let service = Service::new(&ServiceOptions { chunks: 8, ..ServiceOptions::default() })?;
//! let mut client = service.client();
//! let mut block = client.alloc(16, Mode::Immediate)?;
//! block[..5].copy_from_slice(b"hello");
//! std::thread::spawn(move || assert_eq!(&block[..5], b"hello")).join().unwrap();
//! # Ok::<(), regrow_memory::ServiceError>(())
//! ```

mod bell;
mod block;
mod client;
mod error;
mod giving_back;
mod growth;
mod keeper;
mod lane;
mod link;
pub mod master;
pub mod message;
mod range;
pub mod raw;
#[cfg(not(loom))]
mod remote;
pub mod request;
mod returns;
mod ring;
mod seat;
mod service;
#[cfg_attr(loom, allow(dead_code, reason = "the processes on both sides are not there"))]
mod shared;
mod slave;
mod store;
pub mod units;
pub mod zone;

use regrow_sync as sync;

pub use block::Block;
pub use client::Client;
pub use error::{MessageError, ServiceError, ZoneError};
pub use giving_back::{GiveBack, GivingBackState, PressureWatch};
pub use keeper::Woken;
pub use range::Backing;
pub use raw::{RawClient, RawError};
#[cfg(not(loom))]
pub use remote::{
    Cell, Domain, DomainError, DomainState, DomainStatus, HandError, Peer, RemoteBlock, RemoteClient, Ticket,
    TicketError, ZoneStatus,
};
pub use request::Mode;
pub use service::{Service, ServiceOptions, ZoneState};
pub use slave::Slaves;
pub use units::PAGE_BYTES;
