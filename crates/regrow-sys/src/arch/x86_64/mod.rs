//! x86-64.

mod breakpoint;
mod call;
mod processor;
mod registers;
mod start;

pub use breakpoint::BREAKPOINTS;
pub(crate) use breakpoint::{set_breakpoint, take_fired_breakpoints};
pub use call::syscall;
pub(crate) use processor::EXTENDED_STATE;
pub use processor::ExtendedState;
pub use registers::TaskRegisters;
pub(crate) use registers::{float_state, set_first_argument};
pub use start::passed_to_libc;
