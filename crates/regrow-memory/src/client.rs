//! A client of the service: asks its zone for blocks, and keeps a few that it has just given back.
//!
//! ```text
//!   kept?           ── yes ──> no token, no atomic operation
//!   token free?     ── yes ──> the client is the server for that time
//!                   ── no ───> a message; whoever has the token answers, a slave where there is much to do
//!   no room there?             the zone grows, or another one has room: the master's business
//! ```

use std::sync::Arc;

use crate::block::{Block, Home};
use crate::error::ServiceError;
use crate::growth::Growth;
use crate::link::Link;
use crate::message::MOST_ASKED;
use crate::request::{Grant, Mode, Owner, Want};
use crate::slave::{self, Slaves};
use crate::store::Store;
use crate::units::{CHUNK_ORDER, MAX_ORDER, Page, order_for, pages_of};

/// Of so many requests that met others one looks whether a slave is needed.
const LOOK_EACH: u32 = 64;

/// See the module. Clients of two threads may lie side by side: none shares a cache line, or the pair of lines that is fetched together, with the next.
#[derive(Debug)]
#[repr(align(128))]
pub struct Client {
    home: Arc<Home>,
    number: Owner,
    zone: usize,
    keep_pages: usize,
    slaves: Slaves,
    /// Blocks with all their pages mapped, by order.
    kept: [Vec<Block>; CHUNK_ORDER as usize + 1],
    /// To the zone, from the first time on that somebody else had its token.
    link: Option<Link>,
    /// How often somebody had.
    met: u32,
    /// What the zone has just granted.
    granted: Vec<Grant>,
    growth: Growth,
}

impl Client {
    /// Keeps so many pages of each size; where slaves are elastic it sees to it that they come.
    pub(crate) fn new(
        service: Arc<Store>,
        (number, zone): (Owner, usize),
        keep_pages: usize,
        slaves: Slaves,
    ) -> Client {
        let (home, kept, granted, growth) =
            (Home::new(service), Default::default(), Vec::new(), Growth::new());
        Client { home, number, zone, keep_pages, slaves, kept, link: None, met: 0, granted, growth }
    }

    /// A block of so many pages at least. What is in it is zero, or what this client has written to a block before.
    ///
    /// # Errors
    /// [`ServiceError::TooLarge`], [`ServiceError::NoMemory`], [`ServiceError::System`].
    #[inline]
    pub fn alloc(&mut self, pages: u64, mode: Mode) -> Result<Block, ServiceError> {
        let want = self.want(pages, mode, false)?;
        match self.kept.get_mut(usize::from(want.order)).and_then(Vec::pop) {
            Some(block) => {
                block.take_up();
                Ok(block)
            }
            None => self.ask(want),
        }
    }

    /// The same, all of it zero.
    ///
    /// # Errors
    /// As [`Client::alloc`].
    pub fn alloc_zeroed(&mut self, pages: u64, mode: Mode) -> Result<Block, ServiceError> {
        let want = self.want(pages, mode, true)?;
        self.ask(want)
    }

    /// Several blocks of the same size at once, for less each: they are put behind what is in `blocks`.
    ///
    /// # Errors
    /// As [`Client::alloc`]. What was got until then is in `blocks`.
    pub fn alloc_many(
        &mut self,
        count: usize,
        pages: u64,
        mode: Mode,
        blocks: &mut Vec<Block>,
    ) -> Result<(), ServiceError> {
        let want = self.want(pages, mode, false)?;
        let mut left = count;
        if let Some(kept) = self.kept.get_mut(usize::from(want.order)) {
            let from = kept.len().saturating_sub(left);
            left -= kept.len() - from;
            blocks.extend(kept.drain(from..).inspect(Block::take_up));
        }
        while left > 0 {
            self.granted.clear();
            self.grants(want, left.min(MOST_ASKED));
            if self.granted.is_empty() {
                let grant = self.home.grant_elsewhere(&mut self.zone, want)?;
                self.granted.push(grant);
            }
            left -= self.granted.len();
            self.make_blocks(want, blocks)?;
        }
        Ok(())
    }

    /// Gives a block back. A block that is dropped goes home too, by a slower way.
    #[inline]
    pub fn free(&mut self, block: Block) {
        let order = usize::from(block.order());
        let may_keep = block.is_of(&self.home) && block.mode() == Mode::Immediate;
        let most = self.most_kept(block.order());
        match self.kept.get_mut(order) {
            Some(kept) if may_keep && kept.len() < most => {
                block.set_aside();
                kept.push(block);
            }
            _ => drop(block),
        }
    }

    /// Gives blocks back at once, for less each.
    pub fn free_many(&mut self, blocks: impl IntoIterator<Item = Block>) {
        let mut pages = Vec::new();
        for block in blocks {
            let most = self.most_kept(block.order());
            let is_own = block.is_of(&self.home);
            let may_keep = is_own && block.mode() == Mode::Immediate;
            match self.kept.get_mut(usize::from(block.order())) {
                Some(kept) if may_keep && kept.len() < most => {
                    block.set_aside();
                    kept.push(block);
                }
                _ if is_own && self.home.zone_of(block.page()) == self.zone => {
                    pages.push(block.into_page());
                }
                _ => drop(block),
            }
        }
        self.give_back(&pages);
    }

    /// Gives back what it keeps.
    pub fn trim(&mut self) {
        self.kept.iter_mut().for_each(Vec::clear);
        if let Some(link) = self.link.as_mut() {
            link.trim();
        }
    }

    #[inline]
    fn want(&self, pages: u64, mode: Mode, zeroed: bool) -> Result<Want, ServiceError> {
        let order = order_for(pages).ok_or(ServiceError::TooLarge { pages, most: pages_of(MAX_ORDER) })?;
        Ok(Want { order, owner: self.number, mapped: mode == Mode::Immediate, zeroed })
    }

    #[inline]
    fn most_kept(&self, order: u8) -> usize {
        if self.keep_pages == 0 { 0 } else { (self.keep_pages >> order).max(1) }
    }

    fn ask(&mut self, want: Want) -> Result<Block, ServiceError> {
        let ahead = self.ahead(want);
        self.granted.clear();
        self.grants(want, 1 + ahead);
        let grant = match self.granted.pop() {
            Some(grant) => grant,
            None => self.home.grant_elsewhere(&mut self.zone, want)?,
        };
        if want.mapped {
            self.growth.note(grant.map);
        }
        if self.granted.is_empty() {
            return self.block(grant, want);
        }
        self.granted.push(grant);
        self.keep_all_but_one(want)
    }

    /// How many blocks more than the one that is asked for it takes, as it grows: no more than it may keep.
    #[inline]
    fn ahead(&self, want: Want) -> usize {
        let Some(kept) = self.kept.get(usize::from(want.order)).filter(|_| want.mapped && !want.zeroed)
        else {
            return 0;
        };
        let may_keep = self.most_kept(want.order).saturating_sub(kept.len());
        (self.growth.blocks(want.order) - 1).min(may_keep)
    }

    /// Makes what was granted blocks, gives the lowest, and keeps the others: they come next.
    fn keep_all_but_one(&mut self, want: Want) -> Result<Block, ServiceError> {
        let order = usize::from(want.order);
        let mut blocks = self.kept.get_mut(order).map(std::mem::take).unwrap_or_default();
        let before = blocks.len();
        let made = self.make_blocks(want, &mut blocks);
        // What is kept is taken from the end.
        if let Some(new) = blocks.get_mut(before..) {
            new.sort_unstable_by_key(|block| std::cmp::Reverse(block.page()));
        }
        let first = if blocks.len() > before { blocks.pop() } else { None };
        blocks.iter().skip(before).for_each(Block::set_aside);
        if let Some(kept) = self.kept.get_mut(order) {
            *kept = blocks;
        }
        made?;
        first.ok_or(ServiceError::NoMemory { pages: pages_of(want.order) })
    }

    /// Makes what was granted blocks, put behind what is in `blocks`. Blocks that lie side by side are mapped by one call.
    fn make_blocks(&mut self, want: Want, blocks: &mut Vec<Block>) -> Result<(), ServiceError> {
        let mut granted = std::mem::take(&mut self.granted);
        granted.sort_unstable_by_key(|grant| grant.page);
        let from = blocks.len();
        blocks.extend(granted.iter().map(|grant| Block::new(Arc::clone(&self.home), grant.page, want)));
        let made = self.home.finish_all(&granted, want);
        if made.is_err() {
            blocks.truncate(from);
        }
        self.granted = granted;
        self.granted.clear();
        made
    }

    fn block(&self, grant: Grant, want: Want) -> Result<Block, ServiceError> {
        let block = Block::new(Arc::clone(&self.home), grant.page, want);
        self.home.finish(grant, want).map(|()| block)
    }

    /// What the zone has of so many blocks.
    fn grants(&mut self, want: Want, count: usize) {
        let Some(seat) = self.home.seats().get(self.zone) else { return };
        let granted = &mut self.granted;
        let take = |zone: &mut crate::zone::Zone| {
            granted.extend((0..count).map_while(|_| zone.alloc(want).ok()));
        };
        if !seat.has_slave() && seat.try_with(take).is_some() {
            return;
        }
        if self.has_link() {
            if let Some(link) = self.link.as_mut() {
                link.ask(want, count, &mut self.granted);
            }
        } else if let Some(seat) = self.home.seats().get(self.zone) {
            seat.with(|zone| self.granted.extend((0..count).map_while(|_| zone.alloc(want).ok())));
        }
    }

    /// Gives blocks of its zone back.
    fn give_back(&mut self, pages: &[Page]) {
        let Some(seat) = self.home.seats().get(self.zone).filter(|_| !pages.is_empty()) else { return };
        let take = |zone: &mut crate::zone::Zone| {
            for &page in pages {
                let freed = zone.free(page);
                debug_assert!(freed.is_ok(), "a block goes home once: {freed:?}");
            }
        };
        if !seat.has_slave() && seat.try_with(take).is_some() {
            return;
        }
        if self.has_link() {
            if let Some(link) = self.link.as_mut() {
                link.give_back(pages);
            }
        } else {
            pages.iter().for_each(|&page| self.home.free(page));
        }
    }

    /// Whether it can send messages to its zone: others have the token. Sees to it that a slave comes, where many meet.
    fn has_link(&mut self) -> bool {
        self.met = self.met.wrapping_add(1);
        let looks = self.slaves == Slaves::Elastic && self.met.is_multiple_of(LOOK_EACH);
        if looks && self.home.seats().get(self.zone).is_some_and(crate::seat::Seat::wants_slave) {
            slave::grow(self.home.store(), self.zone);
        }
        if self.link.as_ref().is_none_or(|link| link.zone() != self.zone) {
            self.link = None;
            self.link = Link::open(self.home.store(), self.zone, self.number);
        }
        self.link.is_some()
    }
}
