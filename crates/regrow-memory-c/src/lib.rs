//! The memory service for C programs: functions, hooks for jemalloc, and the header `include/regrow_memory.h`.
//!
//! ```text
//!   status   what a call has come to, and its text
//!   service  made, looked at, destroyed
//!   client   blocks by address, from all threads
//!   hooks    an arena of jemalloc has its extents from a client
//! ```
//!
//! The header is generated from these files; a test says when it is not. The same functions stand in `libregrow_memory.so`
//! (`regrow-memory-preload`) and in the static library of this crate.

mod client;
mod hooks;
mod service;
mod status;

pub use client::{
    RegrowMemoryClient, RegrowMemoryMode, regrow_memory_alloc, regrow_memory_alloc_zeroed,
    regrow_memory_client_destroy, regrow_memory_client_new, regrow_memory_contains, regrow_memory_free,
    regrow_memory_free_or_abort, regrow_memory_size, regrow_memory_trim,
};
pub use hooks::{RegrowMemoryHooks, regrow_memory_hooks_destroy, regrow_memory_hooks_new};
pub use service::{
    RegrowMemoryOptions, RegrowMemoryService, RegrowMemoryState, regrow_memory_service_destroy,
    regrow_memory_service_give_back, regrow_memory_service_new, regrow_memory_service_start_keeper,
    regrow_memory_service_state,
};
pub use status::{RegrowMemoryStatus, regrow_memory_status_text};
