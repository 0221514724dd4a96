//! Builtins of bash, one for each small program that is worth it: the shell has the daemon run the program over a connection of its own. No
//! process is forked, and nothing is executed.
//!
//! ```text
//!   enable -f FILE sed grep ...        bash finds sed_struct, grep_struct ... in this library (names.rs)
//!   sed -n 1p file                     the builtin ── order ──▶ daemon ──▶ ended: its status
//!                                           └── a terminal, no daemon, declined, too long ──▶ bash executes the program, as without
//! ```
//!
//! Invariants: of a failed attempt nothing has run. The shell has no descriptor more below 10, and none that a program inherits. No code here may
//! panic.

#![no_std]

mod bash;
mod connection;
mod names;
mod run;
