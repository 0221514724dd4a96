//! What the planner is told that a program takes, and that keeping it saves.

use std::time::Duration;

use regrow_body::Body;
use regrow_pool::Facts;

use crate::image::kept::KeptImage;
use crate::run::creation::Point;

/// What a program is thought to take before it is known: most do.
const GUESSED_IMAGE_BYTES: u64 = 1 << 20;
const GUESSED_BODY_BYTES: u64 = 256 * 1024;
/// Start-up time that a body saves: what exec takes that links nothing, and what each file of the program adds.
const EXEC_TIME: Duration = Duration::from_micros(400);
const FILE_TIME: Duration = Duration::from_micros(100);
/// What a fork of a body takes that is made for a run.
const FORK_TIME: Duration = Duration::from_micros(150);
/// So many files of a program count, at most, where it is kept before it has read them.
const MOST_FILES: u32 = 64;

/// What a program takes of which nothing is known.
pub(crate) fn guessed() -> Facts {
    Facts {
        image_bytes: GUESSED_IMAGE_BYTES,
        body_bytes: GUESSED_BODY_BYTES,
        regions: Vec::new(),
        saves: EXEC_TIME + FILE_TIME * 2,
        saves_over_image: FORK_TIME,
    }
}

/// What a body of an image takes: this one, or any.
pub(crate) fn of_image(kept: &KeptImage, body: Option<&Body>) -> Facts {
    // A run can have written another number there.
    let most = kept.image.header.hot_zero_pages;
    let zeroed = body.map_or(0, |body| body.reset_work().zeroed).min(most);
    // A front end makes something of what it reads, which takes longer than to map it.
    let most_files = if kept.point() == Point::Warm { u32::MAX } else { MOST_FILES };
    let files = u32::try_from(kept.image.dependencies.files.len()).unwrap_or(u32::MAX).min(most_files);
    Facts {
        image_bytes: kept.image_bytes(),
        body_bytes: kept.body_bytes(),
        regions: regions(zeroed),
        saves: EXEC_TIME + FILE_TIME * files,
        saves_over_image: FORK_TIME,
    }
}

/// The region that a reset which zeroed so many pages leaves mapped. Its size is rounded up: runs differ by a page or two, which
/// is no reason to add or give back any.
fn regions(zeroed_pages: u32) -> Vec<u64> {
    match zeroed_pages {
        0 => Vec::new(),
        pages => vec![u64::from(pages.next_power_of_two()) * regrow_abi::PAGE_BYTES],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_differ_by_a_page_have_a_region_of_one_size() {
        assert_eq!(regions(0), Vec::<u64>::new());
        assert_eq!(regions(5), regions(8));
        assert_eq!(regions(8), [8 * regrow_abi::PAGE_BYTES]);
    }
}
