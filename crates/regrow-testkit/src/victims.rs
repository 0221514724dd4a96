//! The victims: small programs that check from inside that their world is fresh, run out of a pool in every flavour.
//!
//! `tests/victims/` has the programs and `manifest.toml`; its README says what a victim expects of its caller.
//!
//! ```text
//!  test process                    worker processes (the same binary), two at a time
//!  ────────────                    ─────────────────────────────────────────────────
//!  Manifest ──► Cases              stdin: one Job a line ──► Pool of the job's flavour
//!  Flavours ──► Jobs ─────────────────────────────────────► N runs of the case, each in a World of its own
//!  VictimTally ◄────────────────── stdout: one Report a line ◄── what differed, how the runs were made
//! ```
//!
//! Workers are processes, because a run inherits much of its world from the calling process as a whole: its
//! directory, mask, limits, ignored signals, group. A worker changes all of these from run to run, so that every run
//! follows one in another world. The test reports a worker that dies or hangs, with its case, and replaces it.
//!
//! Invariants:
//!
//! - The world of run `n` of a case is a function of the case's name and `n`: the same names repeat a failure.
//! - An `EXPECT_` variable tells a run what it has been given, or the caller checks that from outside.
//! - After each case the worker empties its pool, and nothing of it may be left: no child, no descriptor.

mod caller;
mod case;
mod error;
mod flavour;
mod fleet;
mod manifest;
mod report;
mod run;
mod tally;
mod world;

pub use case::run_case;
pub use error::VictimsError;
pub use flavour::Flavour;
pub use fleet::{Fleet, run_worker};
pub(crate) use manifest::signal_number;
pub use manifest::{Case, Ending, Manifest, StdoutRule};
pub use report::{Job, Report};
pub use tally::VictimTally;

use std::path::PathBuf;

/// The directory of the victims' sources and their manifest.
pub fn project_victims_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/victims")
}

/// The directory of the built victims: that of `make victims`, or what `REGROW_VICTIMS_DIR` names.
pub fn built_victims_dir() -> PathBuf {
    let dir = std::env::var_os("REGROW_VICTIMS_DIR")
        .map_or_else(|| project_victims_dir().join("build"), PathBuf::from);
    // A victim compares its own path with the one that the kernel tells.
    dir.canonicalize().unwrap_or(dir)
}
