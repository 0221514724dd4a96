//! `libregrow_memory.so`: the C interface of the memory service, and for an unmodified program that preloads it the large part of its
//! memory: `LD_PRELOAD=libregrow_memory.so PROGRAM`.
//!
//! ```text
//!   malloc, calloc, realloc, memalign, …   a page and more ──> blocks by address (regrow-memory)
//!                                          less ────────────> the next library that has malloc
//!   mmap                                   private, anonymous, read and write, 64 KiB to 1 GiB, anywhere ──> blocks by address, zero
//!                                          all else ────────> the kernel
//!   munmap, mremap, mprotect, madvise, …   in the service's range: the block is told; outside: the kernel
//! ```
//!
//! - In a program that is linked with the library and does not preload it, all of them pass to the next library and the kernel.
//! - While the service works nothing calls `malloc`: its notes come from the kernel (`notes`), so that no lock of another allocator is
//!   waited for.
//! - What the program needs no more goes back to the kernel by a thread that is there only while there is something to give back (`keeper`,
//!   `alone`).
//! - Where the range is used up, or cannot be reserved, the next library and the kernel serve the program.
//! - A block that is freed twice, or an address of the range that is no block's, ends the program by abort, and standard error names it.
//!
//! Settings are variables of the environment: see [`settings`].

#![cfg_attr(test, allow(dead_code, reason = "tests of the crate itself do not take the C library's names"))]

mod alone;
mod calls;
mod counts;
mod errno;
mod heap;
mod keeper;
mod made;
mod maps;
mod moves;
mod next;
mod notes;
mod served;
pub mod settings;

pub use regrow_memory_c as interface;

/// What the service notes comes from the kernel.
#[cfg(not(test))]
#[global_allocator]
static NOTES: notes::Notes = notes::Notes;
