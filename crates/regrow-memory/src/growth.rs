//! How far ahead a client maps: the more, the longer it has met nothing but pages that were not there.
//!
//! A call of the kernel costs about as much as four pages. A client that grows takes the blocks that it will ask for next at once, and
//! has all of them mapped by one call; one that meets pages that are there again takes one block at a time.

use crate::units::pages_of;

/// So many pages are mapped in one call at most.
const MOST_PAGES: u32 = 16;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Growth {
    pages: u32,
}

impl Growth {
    /// A client that has asked for nothing yet.
    pub(crate) const fn new() -> Growth {
        Growth { pages: 1 }
    }

    /// How many blocks of an order to take at once.
    pub(crate) fn blocks(self, order: u8) -> usize {
        (self.pages / pages_of(order).max(1)).max(1) as usize
    }

    /// A block has come whose pages had to be mapped, or were there.
    pub(crate) fn note(&mut self, is_new: bool) {
        self.pages = if is_new { (self.pages * 2).min(MOST_PAGES) } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_client_grows_the_more_it_takes_at_once() {
        let mut growth = Growth::new();
        let taken: Vec<usize> = (0..6)
            .map(|_| {
                let blocks = growth.blocks(0);
                growth.note(true);
                blocks
            })
            .collect();
        assert_eq!(taken, [1, 2, 4, 8, 16, 16]);
        assert_eq!([1, 2, 4, 5, 9].map(|order| growth.blocks(order)), [8, 4, 1, 1, 1]);
        growth.note(false);
        assert_eq!(growth, Growth::new());
    }
}
