//! Gives back the second copy of saved pages that no run writes: the seed has them anyway, and a reset hardly ever needs them.
//!
//! ```text
//!   some runs ──> which pages are a body's own? ──> a store without the others ──> bodies that are made from then on
//!                                                                            └──> each older body is renewed when it waits
//! ```

use std::collections::HashSet;
use std::io;

use regrow_abi::{PAGE_LEN, PageEntry};
use regrow_body::{Body, own_pages};
use regrow_image::image::Image;

use crate::image::forking::BodyForker;

/// Leaves to the seed what the bodies of these keepers have not written. Gives how many pages it has alone: none where runs write most.
///
/// # Errors
/// When no keeper's pages can be looked at, or as [`Image::give_back`].
pub(crate) fn give_back(image: &Image, keepers: &[i32]) -> io::Result<usize> {
    let seen = keepers.iter().filter_map(|&keeper| own_pages(&image.vmas, keeper).ok());
    let written = seen.map(|ranges| addresses(&ranges)).reduce(|mut all, more| {
        all.extend(more);
        all
    });
    let written = written.ok_or(io::ErrorKind::NotFound)?;
    if are_most(&written, &image.pages) { Ok(0) } else { image.give_back(&written) }
}

/// The addresses of the pages of ranges.
fn addresses(ranges: &[(u64, u64)]) -> HashSet<u64> {
    ranges.iter().flat_map(|&(start, bytes)| (start..start + bytes).step_by(PAGE_LEN)).collect()
}

/// Whether more than half of the saved pages were written.
fn are_most(written: &HashSet<u64>, pages: &[PageEntry]) -> bool {
    pages.iter().filter(|page| written.contains(&page.address())).count() * 2 > pages.len()
}

/// Whether the bodies of an image can be looked at: some had runs, and the kernel tells what those have written. A body without that compares
/// all pages in each reset.
pub(crate) fn can_be_seen(image: &Image, bodies: &[&Body]) -> bool {
    let half = u32::try_from(image.pages.len() / 2).unwrap_or(u32::MAX);
    let is_seen = |body: &&Body| body.reset_work().compared <= half;
    bodies.iter().any(|body| body.runs() > 0) && bodies.iter().all(is_seen)
}

/// Makes a body anew that has a store with all pages. It stays, for good, where that fails. Nothing is mapped ahead in the new one: most of that
/// no run needs, and its next run meets a fault for each piece that it does.
pub(crate) fn renew(image: &Image, forker: &BodyForker, mut body: Box<Body>) -> Box<Body> {
    match forker.fork(image) {
        Ok(new) => Box::new(new),
        Err(error) => {
            tracing::debug!(%error, "a body was not renewed");
            body.keep_all_pages();
            body
        }
    }
}

#[cfg(test)]
mod tests {
    use regrow_abi::PAGE_BYTES;

    use super::*;

    #[test]
    fn nothing_is_given_back_where_runs_write_most_pages() {
        let pages: Vec<_> =
            (1..=4).map(|page| PageEntry { address_and_flags: (page * PAGE_BYTES) | 1 }).collect();
        let half = addresses(&[(PAGE_BYTES, 2 * PAGE_BYTES), (9 * PAGE_BYTES, PAGE_BYTES)]);
        assert_eq!(half, HashSet::from([PAGE_BYTES, 2 * PAGE_BYTES, 9 * PAGE_BYTES]));
        assert!(!are_most(&half, &pages));
        assert!(are_most(&addresses(&[(PAGE_BYTES, 3 * PAGE_BYTES)]), &pages));
    }
}
