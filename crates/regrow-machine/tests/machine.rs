//! The kernel tells each creation of known programs, once, at the right place, with the processor time that it counts itself; beside
//! whatever else the machine does.
//!
//! It needs the right to load BPF programs: without it, cases that do are skipped, and the last line says how many.
//! `cargo test --test machine -- TEXT` runs the cases whose names contain the text.

#[path = "machine/accounts.rs"]
mod accounts;
#[path = "machine/case.rs"]
mod case;
#[path = "machine/ends.rs"]
mod ends;
#[path = "machine/interpreted.rs"]
mod interpreted;
#[path = "machine/many.rs"]
mod many;
#[path = "machine/object.rs"]
mod object;
#[path = "machine/places.rs"]
mod places;
#[path = "machine/program.rs"]
mod program;
#[path = "machine/seen.rs"]
mod seen;
#[path = "machine/worlds.rs"]
mod worlds;

use std::process::ExitCode;

use case::Case;

/// All cases.
const CASES: &[&[Case]] = &[
    object::CASES,
    places::CASES,
    interpreted::CASES,
    worlds::CASES,
    accounts::CASES,
    many::CASES,
    ends::CASES,
];

fn main() -> ExitCode {
    if let Some(role) = std::env::var_os(ends::ROLE) {
        return ends::play(&role);
    }
    case::run(CASES)
}
