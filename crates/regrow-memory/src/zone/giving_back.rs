//! What a zone gives back to the kernel: it says which blocks, and has them *away* until somebody has done it.
//!
//! ```text
//!   look     what was idle all through a period, above a limit
//!   take     such blocks out of the lists: nobody gets them          (under the zone's token)
//!   …        their pages are given back                              (without it)
//!   put      them back, their pages zero and not there, at the ends of their lists
//! ```
//!
//! Blocks of a zone's lists are taken for requests from the smallest fitting order, and from the front. So what goes back is the other
//! end: whole chunks first, and of each order what has been free the longest. Blocks that are in use, also those that a client keeps for itself, are
//! in no list.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Zone;
use super::idle::Limits;
use crate::units::{CHUNK_ORDER, CHUNK_PAGES, Chunk, MAX_ORDER, Page, pages_of};

/// Most blocks smaller than a chunk that are looked at while the zone is kept from others.
const LOOKS: usize = 16_384;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Whole chunks that were idle for the paper's T1.
    Chunks,
    /// Blocks of every size that were idle for T2.
    All,
    /// All that is idle at this moment.
    Everything,
}

/// A block that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Away {
    /// Its first page.
    pub page: Page,
    /// Its order.
    pub order: u8,
    /// How many of its pages may be there.
    pub idle: u64,
}

/// How much may be away at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Pages that may be there.
    pub pages: u64,
    /// Blocks.
    pub blocks: usize,
}

impl Zone {
    /// Sets the notice as soon as more is idle than the limits say: somebody is to look at the zone from time to time.
    pub fn watch(&mut self, limits: Limits, notice: Arc<AtomicBool>) {
        self.idle.watch(limits, notice);
    }

    /// Begins the periods of all looks.
    pub fn begin_looking(&mut self) {
        self.idle.begin();
    }

    /// How many pages a look finds that are to be given back. Its next period begins.
    pub fn surplus(&mut self, look: Look) -> u64 {
        self.idle.surplus(look)
    }

    /// Whether somebody is to look again, before the notice is set again. `is_longer`: the longer one of the periods has just ended.
    pub fn is_watched(&mut self, is_longer: bool) -> bool {
        self.idle.is_watched(is_longer)
    }

    /// Pages that nobody uses, and that may be there.
    #[must_use]
    pub fn idle_pages(&self) -> u64 {
        self.idle.pages()
    }

    /// How many pages were given back.
    #[must_use]
    pub fn given_back_pages(&self) -> u64 {
        self.idle.given_back()
    }

    /// Takes free blocks away that are to be given back: of the surplus, so much at once. They are sorted, and [`Zone::put_back`] is called
    /// with each.
    pub fn take_away(&mut self, look: Look, surplus: u64, most: Most) -> Vec<Away> {
        let smallest = if look == Look::Chunks { CHUNK_ORDER } else { 0 };
        if surplus < u64::from(pages_of(smallest)) {
            return Vec::new();
        }
        self.cool_down();
        let within = self.idle.within(look);
        let surplus = surplus.min(within);
        let mut found = self.find(smallest, within - surplus, surplus.min(most.pages), most.blocks);
        found.sort_unstable();
        found.iter().for_each(|away| self.leave(away));
        found
    }

    /// Puts a block back that was away. Its pages are zero and not there, or they are as they were.
    pub fn put_back(&mut self, away: &Away, is_given_back: bool) {
        let &Away { page, order, idle } = away;
        if is_given_back {
            self.table.forget(page, order);
        }
        let Some(joined) = self.buddy.put_back(page) else {
            debug_assert!(false, "a block that was away is put back once: {away:?}");
            return;
        };
        let kept = if is_given_back { 0 } else { idle };
        self.idle.back(idle, kept);
        if order >= CHUNK_ORDER {
            self.idle.came_into_chunks(kept);
        } else {
            self.joined(page, order, joined);
        }
    }

    fn leave(&mut self, away: &Away) {
        let Some(found) = self.buddy.take_away(away.page, away.order) else {
            debug_assert!(false, "it stood in a list: {away:?}");
            return;
        };
        if away.order >= CHUNK_ORDER {
            self.idle.left_chunks(away.idle);
        } else if found >= CHUNK_ORDER {
            self.idle.left_chunks(self.table.touched(chunk_start(away.page), CHUNK_ORDER));
        }
        self.idle.away(away.idle);
    }

    /// Blocks from an order on with so many idle pages together, where so many others come before them.
    fn find(&self, smallest: u8, mut keep: u64, pages: u64, blocks: usize) -> Vec<Away> {
        let mut found = Vec::new();
        let (mut left, mut looks) = (pages, LOOKS);
        for away in (smallest..=MAX_ORDER).flat_map(|order| self.listed(order)) {
            if left == 0 || found.len() == blocks {
                break;
            }
            if away.order < CHUNK_ORDER {
                looks -= 1;
                if looks == 0 {
                    break;
                }
            }
            if away.idle == 0 {
                continue;
            }
            if keep > 0 {
                keep = keep.saturating_sub(away.idle);
            } else if away.idle <= left {
                left -= away.idle;
                found.push(away);
            }
        }
        found
    }

    /// The free blocks of an order, those of several chunks chunk by chunk.
    fn listed(&self, order: u8) -> impl Iterator<Item = Away> {
        let part = order.min(CHUNK_ORDER);
        let parts = move |page: Page| (page..page + pages_of(order)).step_by(pages_of(part) as usize);
        let away = move |page| Away { page, order: part, idle: self.table.touched(page, part) };
        self.buddy.listed(order).flat_map(parts).map(away)
    }
}

/// The first page of the chunk of a page.
pub(super) fn chunk_start(page: Page) -> Page {
    let chunk: Chunk = crate::units::chunk_of(page);
    chunk * CHUNK_PAGES
}
