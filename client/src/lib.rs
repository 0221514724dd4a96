//! What the clients without a libc share: a launcher (`main.rs`) and the builtins of bash (`builtin/`).
//!
//! ```text
//!   place ──▶ connection ──▶ proof ──▶ order ──▶ daemon ──▶ message
//! ```
//!
//! Invariants: no libc, no memory but the stack. No code here may panic.

#![no_std]

pub mod arch;
pub mod buffer;
pub mod mark;
pub mod message;
pub mod order;
pub mod place;
pub mod proof;
pub mod sys;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    /// The exit status of a command that cannot run its program.
    const FAILED: i32 = 125;
    sys::exit(FAILED)
}
