//! The label of a stack: at its top stands whether a fiber is on it, and which one; of a stack that nobody has, which one is next in its list.

#![allow(unsafe_code, reason = "a label stands at an address of the stack")]

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use super::size::top_of;

/// What stands in the label of a stack that somebody has.
const TAKEN: u64 = 0x7265_6772_6f77_6669;

/// See the module. Its size is a multiple of what the addresses of stacks are.
#[repr(C, align(16))]
pub(super) struct Label {
    taken: Cell<u64>,
    next: Cell<*mut u8>,
    name: Option<Arc<str>>,
}

/// Where the label of a stack stands.
#[inline]
pub(super) fn of(bottom: NonNull<u8>, bytes: usize) -> *mut Label {
    top_of(bottom, bytes).wrapping_sub(size_of::<Label>()).cast()
}

/// Somebody has the stack from now on.
#[inline]
pub(super) fn begin(bottom: NonNull<u8>, bytes: usize, name: Option<Arc<str>>) {
    // SAFETY: the stack is the caller's alone, and its top page is mapped. A label that stood there was ended: it owns nothing.
    unsafe {
        of(bottom, bytes).write(Label {
            taken: Cell::new(TAKEN),
            next: Cell::new(std::ptr::null_mut()),
            name,
        });
    }
}

/// Nobody has it any more.
#[inline]
pub(super) fn end(bottom: NonNull<u8>, bytes: usize) {
    // SAFETY: as in `begin`; the name is taken out once.
    unsafe {
        let label = of(bottom, bytes);
        (*label).taken.set(0);
        drop((&raw const (*label).name).read());
    }
}

/// The name of the fiber on a stack that somebody has.
pub(super) fn name<'a>(bottom: NonNull<u8>, bytes: usize) -> Option<&'a str> {
    // SAFETY: a label is live as long as somebody has its stack, and its name does not change.
    unsafe { (*of(bottom, bytes)).name.as_deref() }
}

/// The same of any stack, for a signal handler: it takes no lock. Who used it up has it.
pub(super) fn name_if_taken<'a>(bottom: NonNull<u8>, bytes: usize) -> Option<&'a str> {
    // SAFETY: the top page of a stack is mapped, and zero or what a label was.
    let is_taken = unsafe { (*of(bottom, bytes)).taken.get() == TAKEN };
    if is_taken { name(bottom, bytes) } else { None }
}

/// The stack behind one that nobody has, in their list.
#[inline]
pub(super) fn next(bottom: NonNull<u8>, bytes: usize) -> *mut u8 {
    // SAFETY: as in `name_if_taken`.
    unsafe { (*of(bottom, bytes)).next.get() }
}

/// Puts a stack that nobody has before another one.
#[inline]
pub(super) fn set_next(bottom: NonNull<u8>, bytes: usize, next: *mut u8) {
    // SAFETY: as in `name_if_taken`; nobody has the stack.
    unsafe { (*of(bottom, bytes)).next.set(next) };
}
