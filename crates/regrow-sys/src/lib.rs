//! Raw system calls, the maps reader and the kernel probe.

pub mod accounts;
mod arch;
pub mod bare_thread;
pub mod barrier;
mod blocked_signals;
pub mod caller;
pub mod child;
pub mod disable;
pub mod ended;
pub mod environ;
pub mod exec;
pub mod fault;
pub mod follow;
pub mod helper;
pub mod maps;
pub mod own_folder;
pub mod pages;
pub mod peer;
pub mod pressure;
pub mod probe;
pub mod ptrace;
pub mod raw;
pub mod room;
pub mod scheduling;
pub mod search;
pub mod strings;
