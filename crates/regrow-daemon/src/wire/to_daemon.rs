//! The messages to a daemon.

use super::codec::{Reader, WireError, Writer};
use super::kind;
use super::spawn::{OnceMessage, SpawnMessage};

/// What a client may ask of the daemon itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The state of the pool, as JSON.
    Status,
    /// The names below a path of the resource tree, as JSON.
    List(Vec<u8>),
    /// What stands at a path of the resource tree, as JSON.
    Show(Vec<u8>),
}

/// A message to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToDaemon {
    /// Start a run.
    Run(Box<SpawnMessage>),
    /// Start the one run of this connection, and close it afterwards.
    Once(Box<OnceMessage>),
    /// Lend a body for runs like this one, which come with descriptors for its targets.
    Lease(Box<SpawnMessage>),
    /// Let a lease hold on.
    Renew(u32),
    /// Take a lease back.
    Return(u32),
    /// Answer a question.
    Ask(Question),
    /// Drop everything that is kept.
    Clear,
    /// Take no further runs, and leave when those that are there have ended.
    Stop,
    /// Keep at most so many bytes that are in no use.
    Budget(u64),
    /// The secret that a client can read which may look into the daemon.
    Proof(Vec<u8>),
}

impl ToDaemon {
    /// The message as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let path = |kind: u16, path: &[u8]| {
            let mut to = Writer::new(kind);
            to.bytes(path);
            to
        };
        let number = |kind: u16, number: u32| {
            let mut to = Writer::new(kind);
            to.u32(number);
            to
        };
        let writer = match self {
            Self::Run(message) => message.write(),
            Self::Once(message) => message.write(),
            Self::Lease(message) => message.write_as(kind::LEASE),
            Self::Renew(lease) => number(kind::RENEW, *lease),
            Self::Return(lease) => number(kind::RETURN, *lease),
            Self::Ask(Question::Status) => Writer::new(kind::STATUS),
            Self::Ask(Question::List(at)) => path(kind::LIST, at),
            Self::Ask(Question::Show(at)) => path(kind::SHOW, at),
            Self::Clear => Writer::new(kind::CLEAR),
            Self::Stop => Writer::new(kind::STOP),
            Self::Budget(bytes) => {
                let mut to = Writer::new(kind::BUDGET);
                to.u64(*bytes);
                to
            }
            Self::Proof(secret) => {
                let mut to = Writer::new(kind::PROOF);
                to.bytes(secret);
                to
            }
        };
        writer.0
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn from_bytes(message: &[u8]) -> Result<ToDaemon, WireError> {
        let mut from = Reader::new(message)?;
        let message = match from.kind {
            kind::RUN => Self::Run(Box::new(SpawnMessage::read(&mut from)?)),
            kind::LEASE => Self::Lease(Box::new(SpawnMessage::read(&mut from)?)),
            kind::RENEW => Self::Renew(from.u32("lease")?),
            kind::RETURN => Self::Return(from.u32("lease")?),
            kind::ONCE => Self::Once(Box::new(OnceMessage::read(&mut from)?)),
            kind::STATUS => Self::Ask(Question::Status),
            kind::LIST => Self::Ask(Question::List(from.string("path")?)),
            kind::SHOW => Self::Ask(Question::Show(from.string("path")?)),
            kind::CLEAR => Self::Clear,
            kind::STOP => Self::Stop,
            kind::BUDGET => Self::Budget(from.u64("bytes")?),
            kind::PROOF => Self::Proof(from.bytes("secret")?),
            kind => return Err(WireError::Kind { kind }),
        };
        from.end(message)
    }
}
