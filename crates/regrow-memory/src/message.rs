//! Messages between a client and the server of its zone: a cache line each.
//!
//! ```text
//!   word 0   bits  0..4  kind           words 1 to 7   14 pages of 32 bits each; of `Ask` the first is how many blocks
//!                  4..8  how many pages
//!                  8..16 order
//!                 16..18 mapped, zeroed
//!                 20..48 of each page: is it to be zeroed, is it to be mapped
//!                 48..64 tag: an answer has that of its request
//! ```
//!
//! A line may come from another process, so that nothing in it is believed: [`Request::read`] and [`Answer::read`] refuse what cannot be.

use crate::error::MessageError;
use crate::request::{Grant, Owner, Want};
use crate::units::{MAX_ORDER, Page};

/// Words of a line.
pub const WORDS: usize = 8;
/// A cache line.
pub type Line = [u64; WORDS];

/// Most pages of a line.
pub const PAGES: usize = 14;
/// Most blocks that are asked for at once.
pub const MOST_ASKED: usize = 4 * PAGES;

const ASK: u64 = 1;
const RETURN: u64 = 2;
const GRANTED: u64 = 3;
const REFUSED: u64 = 4;
const TAKEN: u64 = 5;

const KIND: (u32, u64) = (0, 0xf);
const COUNT: (u32, u64) = (4, 0xf);
const ORDER: (u32, u64) = (8, 0xff);
const MAPPED: (u32, u64) = (16, 1);
const ZEROED: (u32, u64) = (17, 1);
const FLAGS: u32 = 20;
const TAG: (u32, u64) = (48, 0xffff);

fn field(word: u64, (shift, mask): (u32, u64)) -> u64 {
    word >> shift & mask
}

/// What a client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// It wants so many blocks.
    Ask {
        /// Which the answer has too.
        tag: u16,
        /// How many.
        count: usize,
        /// What each is to be. The owner is not in the line: a server knows whose lane it is.
        want: Want,
    },
    /// It gives blocks back.
    Return {
        /// Which the answer has too, where something is wrong.
        tag: u16,
        /// Their first pages.
        pages: Pages<Page>,
    },
}

/// What a server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Blocks. The last line of an answer has fewer than [`PAGES`], maybe none.
    Granted {
        /// The request's.
        tag: u16,
        /// Each with what is to be done with its memory.
        grants: Pages<Grant>,
    },
    /// The rest of what was asked for is not to be had in this zone.
    Refused {
        /// The request's.
        tag: u16,
    },
    /// A block that was given back is none of the client's. The others of its line were taken.
    NotTaken {
        /// The request's.
        tag: u16,
        /// The first such page.
        page: Page,
    },
}

/// Up to [`PAGES`] of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages<T> {
    all: [T; PAGES],
    count: usize,
}

impl<T: Copy + Default> Default for Pages<T> {
    fn default() -> Pages<T> {
        Pages { all: [T::default(); PAGES], count: 0 }
    }
}

impl<T: Copy> Pages<T> {
    /// Adds one. False where there is no room.
    pub fn push(&mut self, one: T) -> bool {
        let Some(slot) = self.all.get_mut(self.count) else { return false };
        *slot = one;
        self.count += 1;
        true
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self.all.get(..self.count).unwrap_or(&[])
    }

    /// Whether one more has no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count == PAGES
    }
}

fn head(kind: u64, tag: u16, count: usize) -> u64 {
    kind << KIND.0 | (count as u64) << COUNT.0 | u64::from(tag) << TAG.0
}

fn put(line: &mut Line, at: usize, page: Page) {
    if let Some(word) = line.get_mut(1 + at / 2) {
        *word |= u64::from(page) << (at % 2 * 32);
    }
}

fn get(line: &Line, at: usize) -> Page {
    let word = line.get(1 + at / 2).copied().unwrap_or(0) >> (at % 2 * 32);
    u32::try_from(word & 0xffff_ffff).unwrap_or(Page::MAX)
}

/// The tag, and how many pages a line has.
fn tag_and_count(word: u64) -> Result<(u16, usize), MessageError> {
    let count = usize::try_from(field(word, COUNT)).unwrap_or(usize::MAX);
    let tag = u16::try_from(field(word, TAG)).unwrap_or(0);
    if count > PAGES { Err(MessageError::Count { count, most: PAGES }) } else { Ok((tag, count)) }
}

impl Request {
    /// As a line.
    #[must_use]
    pub fn write(&self) -> Line {
        let mut line = Line::default();
        match self {
            Request::Ask { tag, count, want } => {
                line[0] = head(ASK, *tag, 1)
                    | u64::from(want.order) << ORDER.0
                    | u64::from(want.mapped) << MAPPED.0
                    | u64::from(want.zeroed) << ZEROED.0;
                put(&mut line, 0, u32::try_from(*count).unwrap_or(u32::MAX));
            }
            Request::Return { tag, pages } => {
                line[0] = head(RETURN, *tag, pages.count);
                pages.as_slice().iter().enumerate().for_each(|(at, &page)| put(&mut line, at, page));
            }
        }
        line
    }

    /// What a line of a client says.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn read(line: &Line, owner: Owner) -> Result<Request, MessageError> {
        let word = line[0];
        let (tag, pages) = tag_and_count(word)?;
        match field(word, KIND) {
            ASK => {
                let count = get(line, 0) as usize;
                if count > MOST_ASKED {
                    return Err(MessageError::Count { count, most: MOST_ASKED });
                }
                let order = u8::try_from(field(word, ORDER)).unwrap_or(u8::MAX);
                if order > MAX_ORDER {
                    return Err(MessageError::Order { order, most: MAX_ORDER });
                }
                let [mapped, zeroed] = [MAPPED, ZEROED].map(|flag| field(word, flag) == 1);
                Ok(Request::Ask { tag, count, want: Want { order, owner, mapped, zeroed } })
            }
            RETURN => {
                let mut returned = Pages::default();
                (0..pages).for_each(|at| _ = returned.push(get(line, at)));
                Ok(Request::Return { tag, pages: returned })
            }
            kind => Err(MessageError::Kind { kind }),
        }
    }
}

impl Answer {
    /// As a line.
    #[must_use]
    pub fn write(&self) -> Line {
        let mut line = Line::default();
        match self {
            Answer::Granted { tag, grants } => {
                line[0] = head(GRANTED, *tag, grants.count);
                for (at, grant) in grants.as_slice().iter().enumerate() {
                    put(&mut line, at, grant.page);
                    line[0] |=
                        (u64::from(grant.zero) | u64::from(grant.map) << 1) << (FLAGS as usize + 2 * at);
                }
            }
            Answer::Refused { tag } => line[0] = head(REFUSED, *tag, 0),
            Answer::NotTaken { tag, page } => {
                line[0] = head(TAKEN, *tag, 1);
                put(&mut line, 0, *page);
            }
        }
        line
    }

    /// What a line of a server says.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn read(line: &Line) -> Result<Answer, MessageError> {
        let word = line[0];
        let (tag, count) = tag_and_count(word)?;
        match field(word, KIND) {
            GRANTED => {
                let mut grants = Pages::default();
                for at in 0..count {
                    let flags = word >> (FLAGS as usize + 2 * at);
                    let (zero, map) = (flags & 1 == 1, flags & 2 == 2);
                    grants.push(Grant { page: get(line, at), zero, map });
                }
                Ok(Answer::Granted { tag, grants })
            }
            REFUSED => Ok(Answer::Refused { tag }),
            TAKEN => Ok(Answer::NotTaken { tag, page: get(line, 0) }),
            kind => Err(MessageError::Kind { kind }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            tag: u16, count in 0..=MOST_ASKED, order in 0..=MAX_ORDER, mapped: bool, zeroed: bool, owner: u32,
            pages in proptest::collection::vec((any::<u32>(), any::<bool>(), any::<bool>()), 0..=PAGES),
        ) {
            let ask = Request::Ask { tag, count, want: Want { order, owner, mapped, zeroed } };
            prop_assert_eq!(Request::read(&ask.write(), owner), Ok(ask));
            let (mut returned, mut grants) = (Pages::default(), Pages::default());
            for (page, zero, map) in pages {
                let grant = Grant { page, zero, map };
                prop_assert!(returned.push(page) && grants.push(grant));
            }
            let back = Request::Return { tag, pages: returned };
            prop_assert_eq!(Request::read(&back.write(), owner), Ok(back));
            for answer in [Answer::Granted { tag, grants }, Answer::Refused { tag }, Answer::NotTaken { tag, page: owner }] {
                prop_assert_eq!(Answer::read(&answer.write()), Ok(answer));
            }
        }

        #[test]
        fn no_line_is_read_as_more_than_there_may_be(line: [u64; WORDS]) {
            match Request::read(&line, 1) {
                Ok(Request::Ask { count, want, .. }) => prop_assert!(count <= MOST_ASKED && want.order <= MAX_ORDER),
                Ok(Request::Return { pages, .. }) => prop_assert!(pages.as_slice().len() <= PAGES),
                Err(_) => {}
            }
            let _ = Answer::read(&line);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_and_named() {
        let refused = |word: u64, first: u64| Request::read(&[word, first, 0, 0, 0, 0, 0, 0], 1);
        assert_eq!(refused(0, 0), Err(MessageError::Kind { kind: 0 }));
        assert_eq!(refused(RETURN | 15 << 4, 0), Err(MessageError::Count { count: 15, most: PAGES }));
        assert_eq!(refused(ASK, 57), Err(MessageError::Count { count: 57, most: MOST_ASKED }));
        assert_eq!(refused(ASK | 19 << 8, 1), Err(MessageError::Order { order: 19, most: MAX_ORDER }));
        assert_eq!(Answer::read(&[ASK, 0, 0, 0, 0, 0, 0, 0]), Err(MessageError::Kind { kind: ASK }));
        let mut full = Pages::default();
        assert!((0..14).all(|page| full.push(page)) && full.is_full() && !full.push(14));
    }
}
