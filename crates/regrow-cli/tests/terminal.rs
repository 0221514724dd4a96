//! `regrow run` in a terminal: programs that own it are what they are without Regrow, screen by screen, and `--no-tty`, by which
//! a run is the daemon's although there is a terminal.
//!
//! Nothing waits for a time to pass: each step waits for what is to be on the screen, and gives up after a minute.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

#[path = "terminal/no_tty.rs"]
mod no_tty;
#[path = "terminal/pair.rs"]
mod pair;
#[path = "terminal/programs.rs"]
mod programs;
#[path = "terminal/pty.rs"]
mod pty;
#[path = "terminal/shells.rs"]
mod shells;
