//! What can be wrong with a request to a zone. Nothing has changed then.

use crate::units::{Chunk, Page};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// The chunk of the page belongs to another zone, or to none.
    #[error("page {page} is in no chunk of the zone")]
    Elsewhere {
        /// The page.
        page: Page,
    },
    /// The block is free already.
    #[error("page {page} is the start of a block that is free already")]
    FreeAlready {
        /// The page.
        page: Page,
    },
    /// No block begins there.
    #[error("no block begins at page {page}")]
    NoBlock {
        /// The page.
        page: Page,
    },
    /// The zone has the chunk already.
    #[error("chunk {chunk} is the zone's already")]
    OwnChunk {
        /// The chunk.
        chunk: Chunk,
    },
    /// No range has so many chunks.
    #[error("chunk {chunk} is beyond the end of any range")]
    NoChunk {
        /// The chunk.
        chunk: Chunk,
    },
    /// No block has so high an order.
    #[error("blocks of order {order} are larger than any: {most} is the highest order")]
    Order {
        /// What was asked for.
        order: u8,
        /// The highest.
        most: u8,
    },
    /// The zone has no free block that is large enough.
    #[error("no free block of order {order}")]
    NoRoom {
        /// What was asked for.
        order: u8,
    },
}
