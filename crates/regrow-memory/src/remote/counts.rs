//! What has happened in a domain, in numbers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::error::MessageError;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) clients: AtomicU64,
    pub(super) lent_pages: AtomicU64,
    pub(super) collected: AtomicU64,
    pub(super) not_taken: AtomicU64,
    forged: Mutex<(u64, Option<MessageError>)>,
}

/// What a domain is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainState {
    /// Clients in other processes.
    pub clients: u64,
    /// Pages of the blocks that they have.
    pub lent_pages: u64,
    /// Blocks that came back because their client had ended.
    pub collected: u64,
    /// Blocks that clients gave back and that were not theirs.
    pub not_taken: u64,
    /// Clients that were cut off, because they said what is no message.
    pub cut_off: u64,
    /// What was wrong with the last line that was no message.
    pub last_forged: Option<MessageError>,
}

impl Counts {
    pub(super) fn note_forged(&self, error: MessageError) {
        let mut forged = self.forged.lock().unwrap_or_else(PoisonError::into_inner);
        *forged = (forged.0 + 1, Some(error));
    }

    pub(super) fn state(&self) -> DomainState {
        let (cut_off, last_forged) = *self.forged.lock().unwrap_or_else(PoisonError::into_inner);
        DomainState {
            clients: self.clients.load(Relaxed),
            lent_pages: self.lent_pages.load(Relaxed),
            collected: self.collected.load(Relaxed),
            not_taken: self.not_taken.load(Relaxed),
            cut_off,
            last_forged,
        }
    }
}
