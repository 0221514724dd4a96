//! The attacks: small programs that do to their address space, their keeper or themselves what no reset expects, and what must
//! come of it.
//!
//! `tests/hostile/` has the programs and `manifest.toml`, whose top explains what may come of an attack. A pool in production
//! settings runs them; nothing compares its bodies but the next run itself, and at the end the observer from outside.
//!
//! ```text
//!  test process             a process for each attack and each way (the same binary)
//!  ────────────             ───────────────────────────────────────────────────────
//!  Manifest ──► Jobs ─────► probe by exec ─ probe ─ probe ─ ATTACK ─ probes, while what it left lives ─ probes ─ observer
//!                                 │           └─── first ────────────────┴── each equals it ──────────────┘
//!  tally ◄──── Aftermath ◄──────────┴── above "--" the first equals it
//! ```
//!
//! Invariants:
//!
//! - An attack begins exactly once, and another child of the caller outlives it.
//! - A probe that is made by exec proves nothing: it is made again, until one is made in a body.

mod ground;
mod job;
mod manifest;
mod probes;

pub use ground::{EndedRun, Ground, Made, Start};
pub use job::{Aftermath, play};
pub use manifest::{Attack, AttackError, Attacks, Way};

use std::path::PathBuf;

/// The directory of the attacks' sources and their manifest.
pub fn project_attacks_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile")
}

/// The directory of the built attacks: that of `make victims`, or what `REGROW_ATTACKS_DIR` names.
pub fn built_attacks_dir() -> PathBuf {
    let dir = std::env::var_os("REGROW_ATTACKS_DIR")
        .map_or_else(|| project_attacks_dir().join("build"), PathBuf::from);
    dir.canonicalize().unwrap_or(dir)
}
