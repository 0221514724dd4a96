//! The messages to a client.

use super::codec::{Reader, WireError, Writer};
use super::grant::GrantMessage;
use super::kind;

/// A message from the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToClient {
    /// The run is there; its pidfd comes with the message.
    Started {
        /// Its number.
        pid: i32,
        /// The name of how it was created.
        how: Vec<u8>,
        /// Why the modules that were asked for were not loaded ahead; empty where they were, or will be.
        not_loaded: Vec<u8>,
    },
    /// The client is to execute the program itself; nothing of it has run.
    Declined {
        /// The name of the reason.
        reason: Vec<u8>,
        /// The reason in words.
        detail: Vec<u8>,
    },
    /// The run was stopped by a signal.
    Stopped {
        /// The signal.
        signal: i32,
    },
    /// The run goes on.
    Continued,
    /// The run has ended.
    Ended {
        /// Its wait status.
        status: i32,
    },
    /// A part of an answer.
    Answer {
        /// Whether more follows.
        more: bool,
        /// The text.
        text: Vec<u8>,
    },
    /// A body is lent.
    Leased(Box<GrantMessage>),
    /// What was asked for is done.
    Done,
    /// What was asked for cannot be done.
    Failed {
        /// Why.
        text: Vec<u8>,
    },
}

impl ToClient {
    /// The message as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let number = |kind: u16, number: i32| {
            let mut to = Writer::new(kind);
            to.i32(number);
            to
        };
        let mut writer = match self {
            Self::Started { pid, .. } => number(kind::STARTED, *pid),
            Self::Declined { .. } => Writer::new(kind::DECLINED),
            Self::Stopped { signal } => number(kind::STOPPED, *signal),
            Self::Continued => Writer::new(kind::CONTINUED),
            Self::Ended { status } => number(kind::ENDED, *status),
            Self::Answer { more, .. } => {
                let mut to = Writer::new(kind::ANSWER);
                to.flag(*more);
                to
            }
            Self::Leased(grant) => grant.write(),
            Self::Done => Writer::new(kind::DONE),
            Self::Failed { .. } => Writer::new(kind::FAILED),
        };
        match self {
            Self::Started { how, not_loaded, .. } => {
                writer.bytes(how);
                writer.bytes(not_loaded);
            }
            Self::Declined { reason, detail } => {
                writer.bytes(reason);
                writer.bytes(detail);
            }
            Self::Answer { text, .. } | Self::Failed { text } => writer.bytes(text),
            Self::Stopped { .. } | Self::Continued | Self::Ended { .. } | Self::Leased(_) | Self::Done => {}
        }
        writer.0
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn from_bytes(message: &[u8]) -> Result<ToClient, WireError> {
        let mut from = Reader::new(message)?;
        let message = match from.kind {
            kind::STARTED => Self::Started {
                pid: from.i32("pid")?,
                how: from.bytes("how")?,
                not_loaded: from.bytes("not_loaded")?,
            },
            kind::DECLINED => Self::Declined { reason: from.bytes("reason")?, detail: from.bytes("detail")? },
            kind::STOPPED => Self::Stopped { signal: from.i32("signal")? },
            kind::CONTINUED => Self::Continued,
            kind::ENDED => Self::Ended { status: from.i32("status")? },
            kind::ANSWER => Self::Answer { more: from.flag("more")?, text: from.bytes("text")? },
            kind::LEASED => Self::Leased(Box::new(GrantMessage::read(&mut from)?)),
            kind::DONE => Self::Done,
            kind::FAILED => Self::Failed { text: from.bytes("text")? },
            kind => return Err(WireError::Kind { kind }),
        };
        from.end(message)
    }
}
