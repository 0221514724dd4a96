//! The control block of a fiber: at the top of its stack, so that a fiber takes no memory but its stack.
//!
//! ```text
//!   top ─> control block │ the function's captures │ frames …
//! ```

#![allow(unsafe_code, reason = "the control block stands at an address of the stack")]

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arch::{self, Main, Position, STACK_ALIGN_BYTES};
use crate::stack::Stack;
use crate::task::Task;

/// See the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Control {
    /// What a worker has of it, when one runs it. It stands first: a worker knows fibers by it.
    pub(crate) task: Task,
    /// The number that a task was started with; 0: no task.
    pub(crate) birth: AtomicU64,
    /// Its place in its worker's list of tasks.
    pub(crate) place: Cell<usize>,
    stack: Stack,
}

/// How many bytes below the top the control block takes.
const CONTROL_BYTES: usize = size_of::<Control>();

impl Control {
    /// Lays out a fiber on a stack, and where it begins: `main` gets the control block, and takes the captures ([`Control::captures`]).
    #[inline]
    pub(crate) fn lay_out<F>(stack: Stack, captures: F, main: Main) -> (NonNull<Self>, Position) {
        let control = control_of(stack.top());
        // SAFETY: the stack is the caller's alone, has a page at least, and captures of more than a quarter of that are boxed by the caller
        // (`Fiber::build`), so that all of it lies above the guard page.
        unsafe {
            // What is a task's is laid out when a worker begins it; the numbers are 0 as long as nothing waits here (see `Control::end`).
            (&raw mut (*control).stack).write(stack);
            let place = place_of::<F>(control);
            place.write(captures);
            let top = place.cast::<u8>().map_addr(|address| address & !(STACK_ALIGN_BYTES - 1));
            (NonNull::new_unchecked(control), arch::begin(top, main, control.cast()))
        }
    }

    /// Takes the captures.
    ///
    /// # Safety
    /// They are of this type, and were not taken.
    pub(crate) unsafe fn captures<F>(control: NonNull<Self>) -> F {
        // SAFETY: the caller's promise.
        unsafe { place_of::<F>(control.as_ptr()).read() }
    }

    /// Where the captures stand.
    ///
    /// # Safety
    /// They are of this type, and were not taken.
    pub(crate) unsafe fn captures_of<F>(control: NonNull<Self>) -> NonNull<F> {
        // SAFETY: a stack is not at the end of the address space, nor at its beginning.
        unsafe { NonNull::new_unchecked(place_of::<F>(control.as_ptr())) }
    }

    /// The stack on which it stands.
    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Ends it; the stack is free then.
    ///
    /// # Safety
    /// Nobody runs on the stack or will, and nobody looks at the control block again.
    pub(crate) unsafe fn end(control: NonNull<Self>) {
        // SAFETY: the caller's promise: it is taken out whole before its memory is somebody else's.
        unsafe {
            let block = control.as_ref();
            block.birth.store(0, Ordering::Relaxed);
            block.task.wait.store(0, Ordering::Relaxed);
            drop((&raw const block.stack).read());
        }
    }
}

/// The address of a control block, which may go to other threads, and be looked at when its fiber is gone: see [`Task`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ControlAddress(pub(crate) *const Control);

impl ControlAddress {
    /// Of a task: it is the first of its control block.
    #[inline(always)]
    pub(crate) fn of(task: &Task) -> Self {
        Self(ptr::from_ref(task).cast())
    }

    /// The number that the task was started with; 0: there is none.
    pub(crate) fn birth(self) -> u64 {
        // SAFETY: it can be looked at for ever, and the number by any thread.
        unsafe { (*self.0).birth.load(Ordering::Relaxed) }
    }
}

// SAFETY: its worker's thread alone looks behind it, but for the number of the birth.
unsafe impl Send for ControlAddress {}
// SAFETY: as above.
unsafe impl Sync for ControlAddress {}

#[inline]
fn control_of(top: *mut u8) -> *mut Control {
    top.wrapping_sub(CONTROL_BYTES).map_addr(|address| address & !(align_of::<Control>() - 1)).cast()
}

#[inline]
fn place_of<F>(control: *mut Control) -> *mut F {
    let align = align_of::<F>().max(STACK_ALIGN_BYTES);
    control.cast::<u8>().wrapping_sub(size_of::<F>()).map_addr(|address| address & !(align - 1)).cast()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arch::Word;
    use std::rc::Rc;

    /// # Safety
    /// Nobody calls it.
    unsafe extern "sysv64" fn main(_: *mut u8, _: Word, _: *mut u8, _: usize, _: usize, _: usize) -> ! {
        std::process::abort()
    }

    #[repr(align(128))]
    struct Aligned(u8, Rc<()>);

    /// Nothing runs here: what stands at the top of a stack is looked at, also by Miri.
    #[test]
    fn captures_stand_below_the_control_block_and_are_taken_once() {
        let shared = Rc::new(());
        let stack = Stack::take(8 << 10, Some("laid out".into())).expect("there is memory");
        let top = stack.top();
        let (control, position) = Control::lay_out(stack, Aligned(7, shared.clone()), main);
        // SAFETY: they were laid out just now, and nobody runs on the stack.
        unsafe {
            let place = Control::captures_of::<Aligned>(control);
            assert_eq!(place.as_ptr() as usize % 128, 0);
            assert!(place.as_ptr().addr() < control.as_ptr().addr() && position.stack < top);
            let block = control.as_ref();
            assert_eq!((block.birth.load(Ordering::Relaxed), block.stack().name()), (0, Some("laid out")));
            let captures = Control::captures::<Aligned>(control);
            assert_eq!((captures.0, Rc::strong_count(&captures.1)), (7, 2));
            drop(captures);
            Control::end(control);
        }
        assert_eq!(Rc::strong_count(&shared), 1);
    }
}
