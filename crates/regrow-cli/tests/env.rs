//! `regrow env`: what runs below it has the same results, writes the same files, and is recycled.
//!
//! ```text
//!   given  a world with a daemon, folders for PATH and a state folder of its own
//!     same     scripts and builds, with and without: status, output, files; and how many runs were recycled
//!     selves   programs that look for themselves find themselves, and not the launcher
//!     folder   the launchers' folder: made, kept, brought up to date, refused
//! ```

#[path = "env/folder.rs"]
mod folder;
#[path = "env/given.rs"]
mod given;
#[path = "env/same.rs"]
mod same;
#[path = "env/selves.rs"]
mod selves;
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;
