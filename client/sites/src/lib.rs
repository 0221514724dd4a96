//! `libregrow_sites.so`: preloaded into a program, it tells the collector where the program creates children, what they execute, and how they end.
//!
//! ```text
//!   LD_PRELOAD=libregrow_sites.so REGROW_SITES=CHANNEL PROGRAM
//!
//!   fork, vfork, clone, posix_spawn, system, popen …   calls   the place (unwind, modules, script), its class, then the function itself
//!   execve and its family                              calls   the path, and a class that the path changes
//!   wait4 and its family, _exit                        calls   what was used
//!   the constructor, main, the destructor              begin   the image, and what it has used itself
//!                                                        └── records ──> channel (regrow_abi::sites)
//! ```
//!
//! Invariants:
//! - Every function does what the next library's function of its name does, with the same result and the same `errno`.
//! - No memory of the heap, no lock, no descriptor that stays open, no signal, no thread: a program may create a child anywhere, in a signal's
//!   handler too.
//! - Without a channel, or when nobody reads it, every call passes through.
//! - No code here may panic.

#![no_std]

mod arch;
mod begin;
mod caller;
mod calls;
mod create;
mod modules;
mod next;
mod schedule;
mod script;
mod state;
mod sys;
mod tell;
mod text;
mod unwind;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    arch::trap()
}
