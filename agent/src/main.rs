//! The agent: the only code of Regrow that runs inside a body.
//!
//! It is loaded into a program that stands at its snapshot point, and turns that process into the image's *seed*.
//! A seed never runs the program; it only makes bodies by `fork`. A body's first task is its *keeper*, which lives in
//! a loop: clone a process that shares its memory, sleep until that process has left the memory (by exit or by exec),
//! put the memory back, clone the next one.
//!
//! ```text
//!   seed ──fork──> keeper ──clone(VM)──> armed ──order──> the program's own code … exit or exec
//!                    ^                                                                 │
//!                    └──────── reset <── rung for by the engine, which waited <────────┘
//! ```
//!
//! A run can write to the keeper's memory, its stack among it. So the keeper sleeps in the sealed code, with all that it must know in
//! registers, and begins anew on an empty stack ([`sleep`]).
//!
//! Invariants: no libc, no thread-local storage, no writable statics, no relocations (the build checks it): all state
//! hangs from the two areas of `regrow-abi` and from [`state::Private`]. No code here may panic: a panic would be an
//! endless trap in the caller's child.

#![no_std]
#![no_main]

mod arch;
mod armed;
mod attributes;
mod keeper;
mod memory;
mod reset;
mod seed;
mod shell;
mod signals;
mod sleep;
mod state;
mod sys;

use regrow_abi::ImageHeader;

/// Where the tracer lets the stopped program go on: in the seed, on the agent's own stack.
///
/// # Safety
/// Called by nobody: the tracer sets the registers as for a call with the image's address.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.start")]
unsafe extern "C" fn agent_start(image: *const ImageHeader) -> ! {
    // SAFETY: the tracer passes the address at which it mapped the image memfd, read-only and sealed, in whose
    // header stand the addresses of the other two areas; they stay mapped as long as this process lives.
    let agent = unsafe { state::Agent::new(image) };
    seed::run(&agent)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(125)
}
