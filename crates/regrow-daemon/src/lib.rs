//! One pool for all programs of a user: a small service that keeps it, and its clients.
//!
//! ```text
//!   caller ──▶ client ──▶ wire, ticket ◀── server ──▶ regrow-engine
//!                 └───────▶ place ◀───────────┘
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`wire`] | the messages, as bytes; `docs/protocol.md` is their specification |
//! | [`place`] | where the socket is, and whose it must be |
//! | `proof` | shows the daemon that a client may look into it |
//! | `ticket` | which of both sides starts the run when the connection breaks |
//! | [`client`] | asks for a run, learns of its end |
//! | [`caller`] | what the calling process would become by executing a program |
//! | [`server`] | the daemon: one thread, one shard, no lock |
//!
//! Whatever goes wrong on the way to a run's first instruction is told the client, which then executes the program
//! itself: no command fails because of the daemon.

pub mod caller;
pub mod client;
pub mod place;
mod proof;
pub mod server;
mod ticket;
pub mod wire;
