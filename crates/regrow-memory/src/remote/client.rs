//! A client of a domain: what a process has that uses the service of another one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::block::RemoteBlock;
use super::connection::Connection;
use super::error::{DomainError, TicketError};
use super::peer::Peer;
use super::ticket::Ticket;
use crate::error::ServiceError;
use crate::message::MOST_ASKED;
use crate::request::{Grant, Mode, NOBODY, Want};
use crate::shared::handing;
use crate::shared::inbox::Note;
use crate::shared::layout::CUT_OFF;
use crate::units::{CHUNK_ORDER, MAX_ORDER, order_for, pages_of};

/// How many pages of each size a client keeps of what it has given back.
const KEEP_PAGES: usize = 64;
/// How often a client looks into its inbox before it gives its processor to others, and before it sleeps; and how long it sleeps before it looks
/// whether the domain is there.
const LOOKS: u32 = 2_000;
const YIELDS: u32 = 20;
const PATIENCE: Duration = Duration::from_millis(50);

/// See the module. It is of one process: a forked copy does not use it.
#[derive(Debug)]
pub struct RemoteClient {
    connection: Arc<Connection>,
    /// Blocks that it has given back, by order.
    kept: [Vec<RemoteBlock>; CHUNK_ORDER as usize + 1],
    /// What was just granted.
    granted: Vec<Grant>,
}

impl RemoteClient {
    /// A client of the domain at a path, which has the same user. Maps the whole range, once.
    ///
    /// # Errors
    /// [`DomainError::Socket`], [`DomainError::User`], [`DomainError::Full`], [`DomainError::Short`], [`DomainError::OutOfDescriptors`],
    /// [`DomainError::Version`], [`DomainError::Gone`], [`DomainError::Refused`] where the range cannot be mapped.
    pub fn connect(path: &Path) -> Result<RemoteClient, DomainError> {
        let connection = Arc::new(Connection::open(path)?);
        Ok(RemoteClient { connection, kept: Default::default(), granted: Vec::new() })
    }

    /// What others name it by.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.connection.peer
    }

    /// The clients that are there, this one among them.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        let desks = &self.connection.shared.head().desks;
        let of = |(desk, number)| (number != NOBODY).then_some(Peer { desk, number });
        (0..).zip(desks).filter_map(|(number, desk)| of((number, desk.presence.number()))).collect()
    }

    /// A block of so many pages at least. What is in it is zero, or what this client has had in a block before.
    ///
    /// # Errors
    /// [`DomainError::Refused`], [`DomainError::Gone`], [`DomainError::CutOff`].
    pub fn alloc(&mut self, pages: u64, mode: Mode) -> Result<RemoteBlock, DomainError> {
        let want = self.want(pages, mode, false)?;
        match self.kept.get_mut(usize::from(want.order)).and_then(Vec::pop) {
            Some(block) => {
                // One that another client has handed over is not mapped here.
                self.connection.finish(Grant { page: block.page(), ..Grant::default() }, want)?;
                Ok(block)
            }
            None => self.ask_one(want),
        }
    }

    /// The same, all of it zero.
    ///
    /// # Errors
    /// As [`RemoteClient::alloc`].
    pub fn alloc_zeroed(&mut self, pages: u64, mode: Mode) -> Result<RemoteBlock, DomainError> {
        let want = self.want(pages, mode, true)?;
        self.ask_one(want)
    }

    /// Several blocks of the same size by one message: they are put behind what is in `blocks`.
    ///
    /// # Errors
    /// As [`RemoteClient::alloc`]. What was got until then is in `blocks`.
    pub fn alloc_many(
        &mut self,
        count: usize,
        pages: u64,
        mode: Mode,
        blocks: &mut Vec<RemoteBlock>,
    ) -> Result<(), DomainError> {
        let want = self.want(pages, mode, false)?;
        let mut left = count;
        while left > 0 {
            let got = self.ask(want, left.min(MOST_ASKED), blocks)?;
            if got == 0 {
                return Err(ServiceError::NoMemory { pages: pages_of(want.order) }.into());
            }
            left = left.saturating_sub(got);
        }
        Ok(())
    }

    /// Gives a block back, or keeps it for the next one who asks here. A block that is dropped goes home.
    pub fn free(&mut self, block: RemoteBlock) {
        let most = (KEEP_PAGES >> block.order()).max(1);
        let is_own = block.is_of(&self.connection);
        match self.kept.get_mut(usize::from(block.order())) {
            Some(kept) if is_own && kept.len() < most => kept.push(block),
            _ => drop(block),
        }
    }

    /// Gives blocks back, several by one message. None of them is kept.
    pub fn free_many(&mut self, blocks: impl IntoIterator<Item = RemoteBlock>) {
        let mut pages = Vec::new();
        for block in blocks {
            if block.is_of(&self.connection) {
                pages.push(block.into_page());
            }
        }
        self.connection.give_back_many(&pages);
    }

    /// Gives back what it keeps.
    pub fn trim(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        self.free_many(kept.into_iter().flatten());
    }

    /// The block of a ticket.
    ///
    /// # Errors
    /// [`DomainError::Ticket`], [`DomainError::CutOff`].
    pub fn accept(&mut self, ticket: &Ticket) -> Result<RemoteBlock, DomainError> {
        ticket.verify(self.connection.key)?;
        if ticket.receiver != self.connection.peer.number {
            return Err(TicketError::NotForThis { receiver: ticket.receiver }.into());
        }
        let &Ticket { page, generation, order, .. } = ticket;
        if self.connection.shared.entry(page).is_none() {
            return Err(TicketError::Forged.into());
        }
        let block = self.accept_note(Note { page, generation, order });
        Ok(block.ok_or(TicketError::Used { page })?)
    }

    /// The block of a note, where it was handed to this client.
    fn accept_note(&self, note: Note) -> Option<RemoteBlock> {
        let word = self.connection.shared.entry(note.page).filter(|_| note.order <= MAX_ORDER)?;
        let is_own = handing::accept(word, note, self.connection.peer.number);
        is_own.then(|| RemoteBlock::new(&self.connection, note.page, note.order))?
    }

    /// The next block that was sent to this client ([`RemoteBlock::send_to`]). Waits for it so long at most; without a limit until it comes. What lies in the
    /// inbox and is no ticket for a block of this client is passed over: it may be for the client that had the desk before.
    ///
    /// # Errors
    /// [`DomainError::Gone`] where nothing lies there and the domain is not there any more, [`DomainError::CutOff`].
    pub fn receive(&mut self, at_most: Option<Duration>) -> Result<Option<RemoteBlock>, DomainError> {
        let connection = Arc::clone(&self.connection);
        let Some(desk) = connection.desk(connection.peer) else { return Ok(None) };
        let until = at_most.and_then(|limit| Instant::now().checked_add(limit));
        let mut looks = 0;
        loop {
            if let Some(block) = desk.inbox.take().and_then(|note| self.accept_note(note)) {
                return Ok(Some(block));
            }
            looks += 1;
            match looks {
                _ if at_most == Some(Duration::ZERO) && desk.inbox.is_empty() => {
                    connection.check()?;
                    return Ok(None);
                }
                ..LOOKS => std::hint::spin_loop(),
                LOOKS..YIELDS_END => std::thread::yield_now(),
                _ => {
                    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                    if left == Some(Duration::ZERO) {
                        return Ok(None);
                    }
                    connection.check()?;
                    desk.bell.take();
                    let limit = left.map_or(PATIENCE, |left| left.min(PATIENCE));
                    desk.bell.wait(Some(limit), || !desk.inbox.is_empty());
                }
            }
        }
    }

    /// How often the domain has not taken back what this client gave it: somebody has changed the entries of its blocks.
    #[must_use]
    pub fn not_taken(&self) -> u64 {
        self.connection.not_taken()
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    fn want(&self, pages: u64, mode: Mode, zeroed: bool) -> Result<Want, DomainError> {
        let too_large = ServiceError::TooLarge { pages, most: pages_of(MAX_ORDER) };
        let order = order_for(pages).ok_or(too_large)?;
        Ok(Want { order, owner: self.connection.peer.number, mapped: mode == Mode::Immediate, zeroed })
    }

    fn ask_one(&mut self, want: Want) -> Result<RemoteBlock, DomainError> {
        let mut blocks = Vec::with_capacity(1);
        self.ask(want, 1, &mut blocks)?;
        blocks.pop().ok_or_else(|| ServiceError::NoMemory { pages: pages_of(want.order) }.into())
    }

    /// How many blocks have come.
    fn ask(&mut self, want: Want, count: usize, blocks: &mut Vec<RemoteBlock>) -> Result<usize, DomainError> {
        let Some(desk) = self.connection.desk(self.connection.peer) else { return Err(DomainError::Gone) };
        if desk.state.load(SeqCst) == CUT_OFF {
            return Err(DomainError::CutOff);
        }
        self.granted.clear();
        let asked = self.connection.ask(want, count, &mut self.granted);
        let mut made = Ok(());
        for &grant in &self.granted {
            let Some(block) = RemoteBlock::new(&self.connection, grant.page, want.order) else {
                return Err(DomainError::Version { what: "a block that it gives" });
            };
            match self.connection.finish(grant, want) {
                Ok(()) => blocks.push(block),
                Err(error) => made = Err(error),
            }
        }
        asked?;
        made?;
        Ok(self.granted.len())
    }
}

/// See [`YIELDS`].
const YIELDS_END: u32 = LOOKS + YIELDS;
