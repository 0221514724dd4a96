//! What a client asks a zone for, and what it is given.

use crate::units::{CHUNK_ORDER, Page};

/// Who has a block, or had it. Zero is nobody: the pages are zero.
pub type Owner = u32;

/// The client of pages that are zero.
pub const NOBODY: Owner = 0;

/// How the pages of a block come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// They are there when the block is given.
    #[default]
    Immediate,
    /// They come when they are touched.
    Delayed,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// The block has 2^order pages.
    pub order: u8,
    /// Who asks.
    pub owner: Owner,
    /// Its pages are to be mapped when it is given (the paper's immediate mode); else at their first touch (delayed).
    pub mapped: bool,
    /// Its pages are to be zero, also where the client itself had them last.
    pub zeroed: bool,
}

impl Want {
    /// Whether pages of the block, where it has to be zeroed, may be given back to the kernel for that: these are not mapped then.
    #[must_use]
    pub fn is_zeroed_by_the_kernel(&self) -> bool {
        self.order >= CHUNK_ORDER
    }
}

/// A block that is given, and what is to be done before the client has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grant {
    /// Its first page.
    pub page: Page,
    /// The memory is to be zeroed.
    pub zero: bool,
    /// The memory is to be mapped, after that.
    pub map: bool,
}
