//! What the standard library's own tests check of its processes, checked of Regrow's: each scenario runs through `std::process` and
//! through Regrow, what is seen must be equal, and so many runs must have been in a body as the scenario says. `tests/like_std.rs` has
//! what was checked first.

#![allow(unsafe_code, reason = "`pre_exec`, `set_var` and signal masks are unsafe")]

/// Runs a scenario with the types of both, and compares what it gives. The first argument is the number of runs that are in a body
/// when the scenario is Regrow's.
///
/// The scenario is written once; `Command` and `Stdio` in it are those of `std::process` and then those of Regrow.
macro_rules! same {
    ($in_bodies:expr, $scenario:block) => {{
        let std_saw = {
            #[allow(unused_imports, reason = "not every scenario uses all of them")]
            use std::{os::unix::process::CommandExt, process::Command, process::Stdio};
            $scenario
        };
        let (regrow_saw, counts) = {
            #[allow(unused_imports, reason = "not every scenario uses all of them")]
            use {crate::recycled::Command, regrow::Stdio, regrow::os::unix::process::CommandExt};
            crate::recycled::counted(|| $scenario)
        };
        assert_eq!(regrow_saw, std_saw);
        assert_eq!(counts.in_bodies(), $in_bodies, "runs in a body: {counts:?}");
        std_saw
    }};
}

/// A command that makes this test's own program do what it is told (`own::DOES`).
macro_rules! own_program {
    ($what:expr) => {{
        let mut command = Command::new(std::env::current_exe().expect("it has a path"));
        command.args(crate::own::ARGS).env(crate::own::DOES, $what);
        command
    }};
}

mod attributes;
mod ends;
mod facts;
mod own;
mod recycled;
mod streams;
mod told;
