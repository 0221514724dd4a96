//! What can be wrong between the processes of a domain. Nothing has changed then, where it does not say otherwise.

use std::io;
use std::path::PathBuf;

use crate::error::ServiceError;

/// What can be wrong with a domain, or with a client of it.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// Other processes cannot map the memory of the service.
    #[error("the service has memory of its process alone: its backing must be a memfd or huge pages")]
    NotShared,
    /// The socket cannot be had.
    #[error("{what} {path}: {source}")]
    Socket {
        /// What was tried.
        what: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The domain belongs to another user.
    #[error("the domain is user {theirs}'s: this process is user {ours}'s")]
    User {
        /// Whose it is.
        theirs: u32,
        /// Who asks.
        ours: u32,
    },
    /// The domain has as many clients as it may.
    #[error("the domain has no room for another client: it has {most}")]
    Full {
        /// The most.
        most: usize,
    },
    /// The domain's process cannot make what a client needs: descriptors or memory are short there.
    #[error("the domain cannot let another client in: {source}")]
    Short {
        /// Why.
        source: io::Error,
    },
    /// This process has no descriptors left for the files that the domain sends.
    #[error("no descriptors are left for the files that the domain sends")]
    OutOfDescriptors,
    /// What answers is no domain, or one of another version.
    #[error("what the domain says at first is not of this version: {what}")]
    Version {
        /// What is not as it should be.
        what: &'static str,
    },
    /// The process with the service has ended, or gives no service any more.
    #[error("the domain is gone")]
    Gone,
    /// This client has said what is no message.
    #[error("the domain has cut this client off: it has said what is no message")]
    CutOff,
    /// The service refuses.
    #[error(transparent)]
    Refused(#[from] ServiceError),
    /// What came is no ticket for a block.
    #[error(transparent)]
    Ticket(#[from] TicketError),
}

/// What can be wrong with a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// The domain has made no such ticket.
    #[error("the ticket is none of this domain")]
    Forged,
    /// It is for another client.
    #[error("the ticket is for client {receiver}")]
    NotForThis {
        /// The client.
        receiver: u32,
    },
    /// It was used already, or the giver has taken the block back.
    #[error("the ticket for page {page} is used up")]
    Used {
        /// The first page of the block.
        page: u32,
    },
}
