//! The layers of the project, from the ground up, and which crate stands in which.
//!
//! ```text
//!  8  testkit         the tests' own; only a dev-dependency of others
//!  7  cli             front ends
//!  6  daemon          service
//!  5  regrow          the library people add
//!  4  engine          a shard
//!  3  pool, front     decisions
//!  2  body            mechanism
//!  1  image           mechanism            agent (inside a body)
//!  0  abi, sys        wire types; ground
//! ```
//!
//! A crate depends only on crates of a lower layer: never up, never sideways.

/// The crate that every other may use in its tests.
pub(crate) const TESTKIT: &str = "regrow-testkit";

/// Each crate with its layer.
const LAYERS: &[(&str, u8)] = &[
    ("regrow-abi", 0),
    ("regrow-sys", 0),
    ("regrow-agent", 1),
    ("regrow-image", 1),
    ("regrow-body", 2),
    ("regrow-front", 3),
    ("regrow-pool", 3),
    ("regrow-engine", 4),
    ("regrow", 5),
    ("regrow-daemon", 6),
    ("regrow-web", 6),
    ("regrow-cli", 7),
    (TESTKIT, 8),
];

/// The layer of a crate, or `None` for a crate that has none.
pub(crate) fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|&(_, layer)| layer)
}
