//! The corpus: real Debian programs on real files, run two ways and compared.
//!
//! `tests/corpus/corpus.toml` lists the invocations, `tests/corpus/files/` holds their input, and
//! `tests/corpus/packages.txt` the Debian packages that they come from. Each entry has two argument lists of one
//! program, so that a recycled run always follows a different one.
//!
//! ```text
//!  manifest ──► Corpus ──► Entry ──► Invocation ──► Spawner ──► RunResult ─┐
//!                             │                                             ├─► Outcome ──► differences
//!                             └──► Workshop: a fresh work directory ──► Tree ┘
//! ```
//!
//! Invariants:
//!
//! - Every run of an entry happens in the same path, emptied and filled again from one template: a path in the
//!   output is no difference.
//! - The environment of a run is the one in the manifest, with `HOME` and `TMPDIR` in the work directory, and
//!   nothing of the test's own.
//! - The comparison covers everything: the two streams, the status, and each file, directory and link that the run
//!   left, with mode, link count and (when it was set on purpose) modification time.

mod compare;
mod descriptors;
mod error;
mod generate;
mod manifest;
mod prove;
mod run;
mod tree;
mod workshop;

pub use compare::{Difference, Outcome, Stream};
pub use error::{CorpusError, MissingProgram};
pub use generate::generate;
pub use manifest::{ArgumentList, Corpus, Entry, Expected, Normaliser};
pub use prove::{Failure, Prover, Rounds, Tally};
pub use run::{
    Gathered, Input, Invocation, Output, Pipes, PlainExec, RunResult, Running, Spawner, gather, run_command,
};
pub use tree::{Kind, Node, Tree};
pub use workshop::Workshop;

use std::path::PathBuf;

/// The directory of the project's own corpus: the manifest, the package list and the input files.
pub fn project_corpus_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus")
}

#[cfg(test)]
mod tests;
