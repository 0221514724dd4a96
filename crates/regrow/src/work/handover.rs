//! Descriptors that go from process to process within the arguments of a call.
//!
//! ```text
//!   caller    give(3 descriptors) ── a place, which stands in the arguments ──>   descriptor 63 + 1 + place …
//!   process   take(place)  ── the descriptor of this number
//! ```

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;

use regrow_front::DESCRIPTOR;
use regrow_sys::front_gate::descriptor_from_start;

thread_local! {
    /// What the arguments that are being written down hold.
    static GIVEN: RefCell<Option<Vec<OwnedFd>>> = const { RefCell::new(None) };
}

/// Writes arguments down; gives the descriptors in them too.
pub(crate) fn collect<T>(write: impl FnOnce() -> T) -> (T, Vec<OwnedFd>) {
    let before = GIVEN.replace(Some(Vec::new()));
    let written = write();
    (written, GIVEN.replace(before).unwrap_or_default())
}

/// Has the arguments that are being written down hold descriptors; the place of the first. `None`: there are no arguments that go to a process.
pub(crate) fn give(descriptors: impl IntoIterator<Item = OwnedFd>) -> Option<u32> {
    GIVEN.with_borrow_mut(|given| {
        let given = given.as_mut()?;
        let place = u32::try_from(given.len()).ok()?;
        given.extend(descriptors);
        Some(place)
    })
}

/// Takes a descriptor that this process was started with.
pub(crate) fn take(place: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(place).ok().and_then(|place| place.checked_add(DESCRIPTOR + 1));
    descriptor_from_start(number.ok_or(io::ErrorKind::InvalidInput)?)
}
