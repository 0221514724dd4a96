//! A block that a client of a domain has. Dropped, it goes home; handed over, it is another client's.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::connection::Connection;
use super::memory::Extent;
use super::peer::Peer;
use super::ticket::Ticket;
use crate::shared::entry::Entry;
use crate::shared::handing::{self, Handed};
use crate::shared::inbox::Note;
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
        self.memory.set_aside();
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
    pub fn hand_to(mut self, peer: Peer) -> Result<Ticket, HandError> {
        match self.hand(peer) {
            Handed::Pending(Entry { generation, order, .. }) => {
                Ok(Ticket::new(self.connection.key, self.page, peer.number, generation, order))
            }
            refused => Err(self.refused(peer, refused)),
        }
    }

    /// The same, and puts the ticket into the receiver's inbox ([`crate::RemoteClient::receive`]).
    ///
    /// # Errors
    /// [`HandError`].
    pub fn send_to(mut self, peer: Peer) -> Result<(), HandError> {
        let handed = match self.hand(peer) {
            Handed::Pending(entry) => entry,
            refused => return Err(self.refused(peer, refused)),
        };
        let Entry { generation, order, .. } = handed;
        let connection = Arc::clone(&self.connection);
        let (Some(desk), Some(word)) = (connection.desk(peer), connection.shared.entry(self.page)) else {
            return Err(HandError::Gone { peer, block: None });
        };
        if desk.inbox.put(Note { page: self.page, generation, order }) {
            desk.bell.ring(0);
            return Ok(());
        }
        self.note(!handing::recall(word, handed, connection.peer.number));
        Err(HandError::Full { peer, block: self.if_own() })
    }

    /// What becomes of it. It does not go home where another one has it.
    fn hand(&mut self, peer: Peer) -> Handed {
        let connection = &self.connection;
        let Some(desk) = connection.desk(peer) else { return Handed::Gone { is_own: true } };
        let Some(word) = connection.shared.entry(self.page) else { return Handed::NotOwn };
        let giver = connection.peer.number;
        // It may be another one's before this thread goes on.
        self.memory.set_aside();
        let handed = handing::hand(word, giver, self.order, peer.number, &desk.presence);
        self.note(handed != Handed::Gone { is_own: true });
        handed
    }

    /// Notes whether it is another one's.
    fn note(&mut self, is_handed: bool) {
        self.is_handed = is_handed;
        if !is_handed {
            self.memory.take_up();
        }
    }

    fn refused(self, peer: Peer, handed: Handed) -> HandError {
        match handed {
            Handed::NotOwn => HandError::NotOwn { page: self.page },
            Handed::Gone { .. } | Handed::Pending(_) => HandError::Gone { peer, block: self.if_own() },
        }
    }

    fn if_own(self) -> Option<Box<RemoteBlock>> {
        (!self.is_handed).then(|| Box::new(self))
    }
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
            self.memory.set_aside();
            self.connection.give_back(self.page);
        }
    }
}
