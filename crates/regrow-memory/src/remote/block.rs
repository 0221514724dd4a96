//! A block that a client of a domain has. Dropped, it goes home; handed over, it is another client's.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::connection::Connection;
use super::entry::Entry;
use super::inbox::Note;
use super::layout::Peer;
use super::memory::Extent;
use super::ticket::Ticket;
use crate::request::NOBODY;
use crate::units::Page;

/// See the module. It is its bytes: [`Deref`] gives them.
#[derive(Debug)]
pub struct RemoteBlock {
    connection: Arc<Connection>,
    memory: Extent,
    page: Page,
    order: u8,
    /// It is another's, and does not go home.
    is_handed: bool,
}

/// Why a block was not handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandError {
    /// The receiver is not there. The block is the giver's as before; none where the domain has taken it back with the receiver's end.
    #[error("client {peer} is not there")]
    Gone {
        /// The receiver.
        peer: Peer,
        /// The block.
        block: Option<Box<RemoteBlock>>,
    },
    /// The receiver does not take what lies in its inbox. The block is the giver's as before.
    #[error("the inbox of client {peer} is full")]
    Full {
        /// The receiver.
        peer: Peer,
        /// The block.
        block: Option<Box<RemoteBlock>>,
    },
    /// Somebody has changed the entry of the block, which is lost for this client.
    #[error("page {page} is not this client's")]
    NotOwn {
        /// The first page of the block.
        page: u32,
    },
}

impl RemoteBlock {
    /// The block of an entry that this client has made its own. None where the range has no such pages.
    pub(super) fn new(connection: &Arc<Connection>, page: Page, order: u8) -> Option<RemoteBlock> {
        let memory = Extent::new(&connection.range, page, order)?;
        Some(RemoteBlock { connection: Arc::clone(connection), memory, page, order, is_handed: false })
    }

    /// Its first page, for who gives it back himself.
    pub(super) fn into_page(mut self) -> Page {
        self.is_handed = true;
        self.page
    }

    /// Its order: it has 2^order pages.
    #[must_use]
    pub fn order(&self) -> u8 {
        self.order
    }

    /// Its first page.
    pub(super) fn page(&self) -> Page {
        self.page
    }

    /// Whether a client of a connection has it.
    pub(super) fn is_of(&self, connection: &Arc<Connection>) -> bool {
        Arc::ptr_eq(&self.connection, connection)
    }

    /// Makes it another client's, without a copy and without a message. That one accepts it by the ticket, which goes to it by any way. Where the receiver
    /// ends before, the domain takes the block back; where the giver does, the block stays the receiver's.
    ///
    /// # Errors
    /// [`HandError`].
    pub fn hand_to(self, peer: Peer) -> Result<Ticket, HandError> {
        self.hand(peer).map(|(ticket, _)| ticket)
    }

    /// The same, and puts the ticket into the receiver's inbox ([`crate::RemoteClient::receive`]).
    ///
    /// # Errors
    /// [`HandError`].
    pub fn send_to(self, peer: Peer) -> Result<(), HandError> {
        let connection = Arc::clone(&self.connection);
        let (Ticket { page, generation, order, .. }, handed) = self.hand(peer)?;
        let Some(desk) = connection.desk(peer) else { return Err(HandError::Gone { peer, block: None }) };
        if !desk.inbox.put(Note { page, generation, order }) {
            let block = recall(&connection, page, handed).map(Box::new);
            return Err(HandError::Full { peer, block });
        }
        desk.bell.ring(0);
        Ok(())
    }

    fn hand(mut self, peer: Peer) -> Result<(Ticket, Entry), HandError> {
        let page = self.page;
        let connection = Arc::clone(&self.connection);
        if peer.number == NOBODY || !connection.is_there(peer) {
            return Err(HandError::Gone { peer, block: Some(Box::new(self)) });
        }
        let not_own = HandError::NotOwn { page };
        let Some(word) = connection.shared.entry(page) else { return Err(not_own) };
        let entry = Entry::of(word);
        let is_own = (entry.owner, entry.order) == (connection.peer.number, self.order) && !entry.is_pending;
        let handed = if is_own { entry.hand(word, peer.number) } else { None };
        self.is_handed = true;
        let Some(handed) = handed else { return Err(not_own) };
        if !connection.is_there(peer) {
            // It has ended meanwhile: this client has the block again, where the domain has not taken it back already.
            return Err(HandError::Gone { peer, block: recall(&connection, page, handed).map(Box::new) });
        }
        Ok((Ticket::new(connection.key, page, peer.number, handed.generation, handed.order), handed))
    }
}

/// Makes a block the giver's again, which the receiver has not accepted.
fn recall(connection: &Arc<Connection>, page: Page, handed: Entry) -> Option<RemoteBlock> {
    let word = connection.shared.entry(page)?;
    handed.accept(word, connection.peer.number).then(|| RemoteBlock::new(connection, page, handed.order))?
}

impl Deref for RemoteBlock {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory
    }
}

impl DerefMut for RemoteBlock {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

impl Drop for RemoteBlock {
    fn drop(&mut self) {
        if !self.is_handed {
            self.connection.give_back(self.page);
        }
    }
}
