//! The messages between a daemon and its clients, as bytes.
//!
//! Every message is one packet of a `SOCK_SEQPACKET` socket. `docs/protocol.md` is the specification, and this module its
//! only implementation.
//!
//! | module | what it is for |
//! |---|---|
//! | `codec` | header, numbers, strings; what is wrong with bytes that are no message |
//! | `kind` | the numbers of the kinds |
//! | `spawn`, `task` | what a run is to be |
//! | `grant` | a body that is lent |
//! | `to_daemon`, `to_client` | the messages of both directions |
//!
//! Invariants: decoding allocates no more than the message is long, never panics, and takes a message only if every
//! byte of it is used.

mod codec;
mod grant;
mod kind;
mod spawn;
mod task;
mod to_client;
mod to_daemon;

pub use codec::{MAGIC, MAX_FDS, MAX_MESSAGE, MAX_TARGETS, VERSION, WireError};
pub(crate) use grant::GRANT_FDS;
pub use grant::GrantMessage;
pub use spawn::{OnceMessage, SpawnMessage};
pub use to_client::ToClient;
pub use to_daemon::{Question, ToDaemon};

#[cfg(test)]
mod tests;
