//! Pages, chunks and orders: the numbers by which the service speaks of memory.

/// The number of a page of 4 KiB in the range.
pub type Page = u32;
/// The number of a chunk in the range.
pub type Chunk = u32;

/// The order of a chunk.
pub const CHUNK_ORDER: u8 = 9;
/// Pages of a chunk, which has 2 MiB.
pub const CHUNK_PAGES: u32 = 1 << CHUNK_ORDER;
/// The highest order: 2^18 pages, which are 1 GiB.
pub const MAX_ORDER: u8 = 18;
/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES: usize = PAGE_BYTES * CHUNK_PAGES as usize;
/// Most chunks of a range, which are 8 TiB.
pub const MAX_CHUNKS: Chunk = 1 << 22;

/// Pages of a block.
#[must_use]
pub const fn pages_of(order: u8) -> u32 {
    1 << order
}

/// The chunk of a page.
#[must_use]
pub fn chunk_of(page: Page) -> Chunk {
    page >> CHUNK_ORDER
}

/// The first page of the chunk of a page.
pub(crate) fn chunk_start(page: Page) -> Page {
    page - page % CHUNK_PAGES
}

/// The number of a page in its chunk.
pub(crate) fn in_chunk(page: Page) -> usize {
    (page % CHUNK_PAGES) as usize
}

/// The smallest order whose blocks have so many pages; `None` where no block is so large.
#[must_use]
pub fn order_for(pages: u64) -> Option<u8> {
    let order = u8::try_from(pages.max(1).checked_next_power_of_two()?.trailing_zeros()).ok()?;
    (order <= MAX_ORDER).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_orders() {
        let orders = [(0, 0), (1, 0), (2, 1), (3, 2), (512, 9), (513, 10), (1 << 18, 18)];
        for (pages, order) in orders {
            assert_eq!(order_for(pages), Some(order));
        }
        assert_eq!((order_for((1 << 18) + 1), order_for(u64::MAX)), (None, None));
    }
}
