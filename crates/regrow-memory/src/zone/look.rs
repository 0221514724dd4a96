//! What somebody looks for who gives a zone's memory back, and what is found.

use crate::units::Page;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Whole chunks that were idle for the paper's T1.
    Chunks,
    /// Blocks of every size that were idle for T2.
    All,
    /// What is idle at this moment, but for the paper's H2.
    Surplus,
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
