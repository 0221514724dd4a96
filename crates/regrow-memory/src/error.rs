//! What can be wrong with a request. Nothing has changed then.

use std::io;

use crate::units::{Chunk, Page};

/// What can be wrong with a request to a service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// No range has no chunks, or so many.
    #[error("a range of {chunks} chunks: it has one at least, and {most} at most")]
    Chunks {
        /// What was asked for.
        chunks: u32,
        /// The most.
        most: u32,
    },
    /// A service has one zone at least, and not more than chunks.
    #[error("{zones} zones for {chunks} chunks: there is one at least, and a chunk for each")]
    Zones {
        /// What was asked for.
        zones: usize,
        /// The chunks of the range.
        chunks: u32,
    },
    /// No block is so large.
    #[error("a block of {pages} pages: the largest has {most}")]
    TooLarge {
        /// What was asked for.
        pages: u64,
        /// The most.
        most: u32,
    },
    /// No zone has such a block, and none can grow by it.
    #[error("no memory for a block of {pages} pages")]
    NoMemory {
        /// Its pages.
        pages: u32,
    },
    /// The system refuses something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// What can be wrong with a line that says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// No message is of this kind.
    #[error("a message of kind {kind}, which none has")]
    Kind {
        /// The kind.
        kind: u64,
    },
    /// More is in a message, or asked for by it, than may be.
    #[error("a message of {count} blocks: {most} at most")]
    Count {
        /// What it says.
        count: usize,
        /// The most.
        most: usize,
    },
    /// No block has so high an order.
    #[error("a message asks for blocks of order {order}: {most} is the highest order")]
    Order {
        /// What was asked for.
        order: u8,
        /// The highest.
        most: u8,
    },
}

/// What can be wrong with a request to a zone.
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
