//! Fibers: functions that wait in the middle, on stacks of their own.
//!
//! How light can a process get? One without an address space, without a kernel's task, is a stack and a position on it: a *fiber*.
//!
//! ```
//! use regrow_fiber::{Fiber, State};
//!
//! let mut squares = Fiber::new(|suspender, mut number: u64| {
//!     while number != 0 {
//!         number = suspender.suspend(number * number);
//!     }
//!     "done"
//! })?;
//! assert_eq!(squares.resume(3), State::Yielded(9));
//! assert_eq!(squares.resume(4), State::Yielded(16));
//! assert_eq!(squares.resume(0), State::Returned("done"));
//! # Ok::<(), regrow_fiber::StackError>(())
//! ```
//!
//! ```text
//!   Fiber     a function on a stack of its own, with typed inputs and outputs
//!   stack     where stacks come from and go to; their guard pages; who has used one up
//!   control   what stands at the top of a fiber's stack
//!   arch      the switch from stack to stack
//! ```

mod arch;
mod control;
mod error;
mod fiber;
mod stack;

pub use error::StackError;
pub use fiber::{Builder, Fiber, State, Suspender};
pub use stack::{
    DEFAULT_STACK_BYTES, HOT_STACKS, LEAST_STACK_BYTES, MOST_STACK_BYTES, suggested_stack_bytes,
};
