//! One pool for all programs of a user: a small service that keeps it, and its clients.
//!
//! ```text
//!   client ──▶ wire ◀── server ──▶ regrow-engine
//!      └────▶ place ◀────┘
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`wire`] | the messages, as bytes; `docs/protocol.md` is their specification |
//! | [`place`] | where the socket is, and whose it must be |
//! | [`client`] | orders a run, passes signals on to it, learns of its end |
//! | [`server`] | the daemon: one thread, one shard, no lock |
//!
//! Whatever goes wrong on the way to a run's first instruction is told the client, which then executes the program
//! itself: no command fails because of the daemon.

pub mod client;
pub mod place;
pub mod server;
pub mod wire;
