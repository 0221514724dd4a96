//! x86-64.

mod breakpoint;
mod call;
mod processor;
mod registers;
mod start;
mod thread;

pub use breakpoint::BREAKPOINTS;
pub(crate) use breakpoint::{set_breakpoint, take_fired_breakpoints};
pub(crate) use call::thread_storage;
pub use call::{has_shadow_stack, syscall, thread_pointer};
pub(crate) use processor::EXTENDED_STATE;
pub use processor::ExtendedState;
pub use registers::TaskRegisters;
pub(crate) use registers::{float_state, set_first_argument};
pub use start::passed_to_libc;
pub(crate) use thread::{Start, end_thread, start_thread};
