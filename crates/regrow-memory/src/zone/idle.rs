//! How much of a zone is *idle*: free, and perhaps there in memory. And how little of it there was since the last look.
//!
//! ```text
//!   idle pages │▇▇▇▆▅▃▂▂▃▅▆▇▇│   the least of a period was needed by nobody in it: so much, above the limit, goes back
//!              └── a period ─┘
//! ```
//!
//! So nothing is noted of a single block, and a request costs a subtraction and two comparisons.

use std::fmt;
use std::sync::Arc;

use super::look::Look;
use crate::units::CHUNK_PAGES;

/// Idle pages that a zone keeps, however long nobody needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The paper's H1: so many stay when whole chunks are given back.
    pub h1_pages: u64,
    /// H2: so many stay when blocks of all sizes are.
    pub h2_pages: u64,
}

/// Whom a zone tells that it has more idle pages than its limits say. What is called has the zone's token: it is quick, and asks no zone.
/// Where it returns false nobody has heard it, and it is called again when a chunk more is idle.
#[derive(Clone)]
pub struct Notice(Arc<dyn Fn() -> bool + Send + Sync>);

impl Notice {
    /// A notice that does so.
    #[must_use]
    pub fn new(tell: impl Fn() -> bool + Send + Sync + 'static) -> Notice {
        Notice(Arc::new(tell))
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notice")
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Idle {
    pages: u64,
    /// Those of them in blocks of a chunk and more.
    in_chunks: u64,
    /// The fewest idle pages since the last look at chunks, and at all.
    least: [u64; 2],
    limits: Limits,
    /// From more idle pages than this on somebody is to look at the zone: `u64::MAX` while somebody does.
    alarm: u64,
    notice: Option<Notice>,
    /// Whether a block has come or gone since the last rest.
    is_stirred: bool,
    given_back: u64,
}

impl Default for Idle {
    /// Nobody looks at it.
    fn default() -> Idle {
        let limits = Limits { h1_pages: 0, h2_pages: 0 };
        Idle {
            pages: 0,
            in_chunks: 0,
            least: [0; 2],
            limits,
            alarm: u64::MAX,
            notice: None,
            is_stirred: false,
            given_back: 0,
        }
    }
}

impl Idle {
    /// Tells as soon as there are more idle pages than a limit.
    pub(super) fn watch(&mut self, limits: Limits, notice: Notice) {
        self.limits = limits;
        self.notice = Some(notice);
        self.alarm = self.border();
    }

    fn border(&self) -> u64 {
        self.limits.h1_pages.min(self.limits.h2_pages)
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn given_back(&self) -> u64 {
        self.given_back
    }

    /// How many pages a look reaches.
    pub(super) fn within(&self, look: Look) -> u64 {
        if look == Look::Chunks { self.in_chunks } else { self.pages }
    }

    /// Idle pages were given to somebody.
    pub(super) fn taken(&mut self, pages: u64) {
        debug_assert!(self.pages >= pages, "{} idle pages, {pages} are taken", self.pages);
        self.pages = self.pages.saturating_sub(pages);
        self.least = self.least.map(|least| least.min(self.pages));
        self.is_stirred = true;
    }

    /// Somebody has given pages back.
    pub(super) fn returned(&mut self, pages: u64) {
        self.pages += pages;
        self.is_stirred = true;
        if self.pages > self.alarm {
            let is_heard = self.notice.as_ref().is_none_or(|Notice(tell)| tell());
            self.alarm = if is_heard { u64::MAX } else { self.pages + u64::from(CHUNK_PAGES) };
        }
    }

    /// Idle pages have left blocks of a chunk and more.
    pub(super) fn left_chunks(&mut self, pages: u64) {
        debug_assert!(self.in_chunks >= pages, "{} idle pages in chunks, {pages} leave", self.in_chunks);
        self.in_chunks = self.in_chunks.saturating_sub(pages);
    }

    /// Idle pages have come into such blocks.
    pub(super) fn came_into_chunks(&mut self, pages: u64) {
        self.in_chunks += pages;
    }

    /// Idle pages are away, to be given back. Nobody has needed them.
    pub(super) fn away(&mut self, pages: u64) {
        debug_assert!(self.pages >= pages, "{} idle pages, {pages} are away", self.pages);
        self.pages = self.pages.saturating_sub(pages);
        self.least = self.least.map(|least| least.saturating_sub(pages));
    }

    /// They are back, and so many of them still there.
    pub(super) fn back(&mut self, away: u64, kept: u64) {
        self.pages += kept;
        self.given_back += away.saturating_sub(kept);
    }

    /// Begins the periods of both looks.
    pub(super) fn begin(&mut self) {
        self.least = [self.pages; 2];
        self.is_stirred = false;
    }

    /// How many pages are to be given back. A period ends, and the next begins.
    pub(super) fn surplus(&mut self, look: Look) -> u64 {
        let Limits { h1_pages, h2_pages } = self.limits;
        let [chunks, all] = &mut self.least;
        match look {
            Look::Chunks => std::mem::replace(chunks, self.pages).saturating_sub(h1_pages),
            Look::All => std::mem::replace(all, self.pages).saturating_sub(h2_pages),
            Look::Surplus => self.pages.saturating_sub(h2_pages),
            Look::Everything => self.pages,
        }
    }

    /// Nobody looks any more: tells as soon as there are more idle pages than a limit.
    pub(super) fn rest(&mut self) {
        if self.notice.is_some() {
            self.alarm = self.border();
        }
    }

    /// Whether somebody is to look again. Not where little is idle, and not where nothing has changed in the longer period (`is_longer`): what
    /// could be given back was.
    pub(super) fn is_watched(&mut self, is_longer: bool) -> bool {
        if self.alarm == u64::MAX && (self.pages <= self.border() || is_longer && !self.is_stirred) {
            self.alarm = self.border();
        }
        self.is_stirred &= !is_longer;
        self.alarm == u64::MAX
    }
}
