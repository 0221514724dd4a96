//! Where threads keep the blocks that they have just freed: a slot for each thread, as far as there are slots.
//!
//! A thread takes its own slot, or, where somebody else has it, any other one. Whatever a raw client does with the service it does with
//! a slot in its hands: who has all of them knows that nobody is in the middle of anything. What a thread has left in its slot when it
//! ends serves the next one.

use std::time::Duration;

use crate::request::Mode;
use crate::sync::barrier;
use crate::units::{CHUNK_ORDER, Page};

use regrow_sync::biased::{Biased, Claim, Turn};

/// How many there are. Most programs have fewer threads that work at a time.
const SLOTS: usize = 64;
/// At how many places a thread's own slot may be.
const PROBES: usize = 4;
/// How many pages are kept in blocks of one order.
const KEPT_PAGES: usize = 64;
const ORDERS: usize = CHUNK_ORDER as usize + 1;
/// Who waits for a slot looks so often before it sleeps, and sleeps so long.
const LOOKS: u32 = 32;
const SLEEP: Duration = Duration::from_micros(20);

/// What is kept in a slot.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The zone that requests go to; `None` before the first.
    pub(super) zone: Option<usize>,
    immediate: [Vec<Page>; ORDERS],
    delayed: [Vec<Page>; ORDERS],
}

impl Kept {
    fn blocks(&mut self, order: u8, mode: Mode) -> Option<&mut Vec<Page>> {
        let lists = match mode {
            Mode::Immediate => &mut self.immediate,
            Mode::Delayed => &mut self.delayed,
        };
        lists.get_mut(usize::from(order))
    }

    /// A block that is kept.
    #[inline]
    pub(super) fn take(&mut self, order: u8, mode: Mode) -> Option<Page> {
        self.blocks(order, mode)?.pop()
    }

    /// Keeps a block. False where it keeps enough of them.
    #[inline]
    pub(super) fn keep(&mut self, page: Page, order: u8, mode: Mode) -> bool {
        match self.blocks(order, mode) {
            Some(blocks) if blocks.len() < (KEPT_PAGES >> order).max(1) => {
                blocks.push(page);
                true
            }
            _ => false,
        }
    }

    /// All that is kept; it is kept no longer.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Page> {
        self.immediate.iter_mut().chain(&mut self.delayed).flat_map(|blocks| blocks.drain(..))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Slots(Box<[Biased<Kept>; SLOTS]>);

/// Where a thread looks for its slot first. Thread pointers lie at multiples of 64, and most of them a stack apart.
#[inline]
fn home_of(thread: usize) -> usize {
    const GOLDEN: usize = 0x9e37_79b9_7f4a_7c15;
    (thread >> 6).wrapping_mul(GOLDEN) >> (usize::BITS - SLOTS.ilog2())
}

impl Slots {
    pub(super) fn new() -> Slots {
        let is_shared = !barrier::prepare();
        Slots(Box::new(std::array::from_fn(|_| Biased::new(Kept::default(), is_shared))))
    }

    /// A slot for this thread.
    #[inline]
    pub(super) fn mine(&self) -> Turn<'_, Kept> {
        self.own().unwrap_or_else(|| self.any(barrier::thread()))
    }

    /// The slot of this thread, if that is where it is looked for first, and nobody else has it.
    #[inline]
    pub(super) fn own(&self) -> Option<Turn<'_, Kept>> {
        let thread = barrier::thread();
        self.0[home_of(thread)].try_own(thread)
    }

    /// All slots, from a place on.
    fn from(&self, home: usize) -> impl Iterator<Item = &Biased<Kept>> {
        (home..home + SLOTS).map(|at| &self.0[at % SLOTS])
    }

    /// A slot for a thread that has none as yet or not at the first place, or whose own slot is taken: by somebody who wants all of them, or,
    /// where a signal has interrupted it, by itself.
    #[cold]
    fn any(&self, thread: usize) -> Turn<'_, Kept> {
        let home = home_of(thread);
        let near = || self.from(home).take(PROBES);
        let own = near().find_map(|slot| slot.try_own(thread));
        let adopted = || near().filter(|slot| slot.adopt(thread)).find_map(|slot| slot.try_own(thread));
        if let Some(turn) = own.or_else(adopted) {
            return turn;
        }
        let has_own = near().any(|slot| slot.is_of(thread));
        wait(|| {
            let shared = near().find_map(Biased::try_shared);
            shared.or_else(|| self.from(home).find_map(|slot| another(slot, has_own)))
        })
    }

    /// All slots, when each of them is let go.
    pub(super) fn all(&self) -> Vec<Turn<'_, Kept>> {
        let claims: Vec<_> = self.0.iter().map(|slot| wait(|| slot.try_claim())).collect();
        barrier::heavy();
        claims.into_iter().map(|claim| insist(claim)).collect()
    }

    /// Those that nobody has.
    pub(super) fn all_free(&self) -> Vec<Turn<'_, Kept>> {
        let claims: Vec<_> = self.0.iter().filter_map(Biased::try_claim).collect();
        barrier::heavy();
        claims.into_iter().filter_map(|claim| claim.take().ok()).collect()
    }
}

/// Another thread's slot, if that does not have it. Who has none of his own shares it with its owner.
fn another(slot: &Biased<Kept>, has_own: bool) -> Option<Turn<'_, Kept>> {
    let claim = slot.try_claim()?;
    barrier::heavy();
    let turn = claim.take().ok()?;
    if !has_own {
        turn.share();
    }
    Some(turn)
}

/// Waits until the owner of a claimed slot has let it go.
fn insist<T>(claim: Claim<'_, T>) -> Turn<'_, T> {
    let mut claim = Some(claim);
    wait(|| match claim.take()?.take() {
        Ok(turn) => Some(turn),
        Err(still) => {
            claim = Some(still);
            None
        }
    })
}

/// Looks until there is something. What it waits for is over in a moment, unless its thread does not run.
fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        for _ in 0..LOOKS {
            if let Some(found) = look() {
                return found;
            }
            std::hint::spin_loop();
        }
        barrier::sleep(SLEEP);
    }
}
