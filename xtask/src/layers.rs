//! The layers of the project, from the ground up, and which crate stands in which.
//!
//! ```text
//! 10  testkit, fuzz  beside the others: tests
//!  9  cli, python    interfaces
//!  8  bench          what the command measures
//!  7  daemon, web    service
//!  6  regrow         the library people add
//!  5  engine         a shard              memory-preload (at the edge)
//!  4  pool           decisions            memory-c (at the edge)
//!  3  body           mechanism            memory (a service of its own)     fiber (coroutines)
//!  2  image          mechanism            sync (locks)                      builtin (at the edge)           collect, machine, profile (around sites)
//!  1  front          mechanism            agent (inside a body)            client (at the edge)            sys (ground)
//!     sites          a model of its own
//!  0  abi            wire types
//! ```
//!
//! A crate depends only on crates of a lower layer: never up, never sideways.

use crate::repo::Package;
use std::cmp::Reverse;

/// The crate that every other may use in its tests.
pub(crate) const TESTKIT: &str = "regrow-testkit";

/// The layer of what only tests: no other crate depends on it, but for its own tests.
const BESIDE: u8 = 10;

/// Each crate with its layer.
const LAYERS: &[(&str, u8)] = &[
    ("regrow-abi", 0),
    ("regrow-agent", 1),
    ("regrow-client", 1),
    ("regrow-front", 1),
    ("regrow-macros", 1),
    ("regrow-sites", 1),
    ("regrow-sys", 1),
    ("regrow-sync", 2),
    ("regrow-fiber", 3),
    ("regrow-builtin", 2),
    ("regrow-collect", 2),
    ("regrow-image", 2),
    ("regrow-machine", 2),
    ("regrow-memory", 3),
    ("regrow-profile", 2),
    ("regrow-memory-c", 4),
    ("regrow-memory-preload", 5),
    ("regrow-body", 3),
    ("regrow-sites-library", 1),
    ("regrow-sites-preload", 3),
    ("regrow-pool", 4),
    ("regrow-engine", 5),
    ("regrow", 6),
    ("regrow-daemon", 7),
    ("regrow-web", 7),
    ("regrow-bench", 8),
    ("regrow-cli", 9),
    ("regrow-python", 9),
    ("regrow-fuzz", BESIDE),
    (TESTKIT, BESIDE),
];

/// The layer of a crate, or `None` for a crate that has none.
pub(crate) fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|&(_, layer)| layer)
}

/// Whether a crate is for tests and chores, beside the layers of what is shipped.
pub(crate) fn is_beside(name: &str) -> bool {
    layer(name).is_none_or(|layer| layer == BESIDE)
}

/// The crates, highest layer first; what has no layer comes last.
pub(crate) fn highest_first(packages: &[Package]) -> Vec<&Package> {
    let mut sorted: Vec<&Package> = packages.iter().collect();
    sorted.sort_by_key(|package| (Reverse(layer(&package.name)), package.name.clone()));
    sorted
}
