//! Which of the places that a process came through are its creation site.
//!
//! The C library's own code is left out, and so are Go's packages below `os/exec`: a site is the place in the program that called them, with
//! its callers. Of a function that creates a child by itself (`system`, `popen`) the first byte comes before: the site is the same as that of
//! a library that is called in the function's place.

use regrow_sites::site::MOST_FRAMES;
use regrow_sites::{Frame, ImageId};

use crate::unwind::Place;

/// The frames of a site. When all places are a C library's, the way out of it was not found: they are the site then.
pub(crate) fn choose(places: &[Place], id: impl Fn(usize) -> ImageId) -> [Option<Frame>; MOST_FRAMES] {
    let outside = places.iter().position(|place| !place.is_wrapper);
    let first = outside.unwrap_or(usize::from(places.len() > 1));
    let (wrappers, others) = places.split_at(first);
    let creator = wrappers.last().filter(|_| outside.is_some()).and_then(|place| {
        // One byte further, so that who looks for the call before a return address finds the function.
        Some(Frame { module: id(place.file), offset: place.creator?.wrapping_add(1) })
    });
    let others = others.iter().map(|place| Frame { module: id(place.file), offset: place.address });
    let mut chosen = creator.into_iter().chain(others);
    std::array::from_fn(|_| chosen.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: usize, address: u64, is_wrapper: bool) -> Place {
        Place { file, address, is_wrapper, creator: None }
    }

    fn offsets(places: &[Place]) -> Vec<u64> {
        choose(places, |file| ImageId(file as u64)).iter().flatten().map(|frame| frame.offset).collect()
    }

    #[test]
    fn a_site_begins_where_the_program_called() {
        let places = [
            place(1, 10, true),
            place(1, 11, true),
            place(2, 20, false),
            place(1, 12, true),
            place(2, 21, false),
            place(2, 22, false),
        ];
        assert_eq!(
            offsets(&places),
            [20, 12, 21],
            "what calls back into the program is a caller like any other"
        );
        assert_eq!(offsets(&places[2..]), [20, 12, 21]);
    }

    #[test]
    fn a_function_that_creates_a_child_by_itself_comes_first() {
        let system = Place { creator: Some(100), ..place(1, 11, true) };
        let places =
            [place(1, 10, true), system, place(2, 20, false), place(2, 21, false), place(2, 22, false)];
        assert_eq!(offsets(&places), [101, 20, 21]);
        let within = [system, place(1, 10, true), place(2, 20, false)];
        assert_eq!(offsets(&within), [20], "it was not the one that the program called");
    }

    #[test]
    fn a_way_that_ends_in_the_library_is_better_than_none() {
        assert_eq!(offsets(&[place(1, 10, true), place(1, 11, true)]), [11]);
        assert_eq!(offsets(&[place(1, 10, true)]), [10]);
        assert!(offsets(&[]).is_empty());
    }
}
