//! The project's own chores.
//!
//! ```text
//! cargo xtask tidy    check the rules of the house that rustfmt and clippy do not know; fails on any finding
//! cargo xtask gen     write what is generated: crates/README.md
//! ```
//!
//! What tidy checks stands at the top of `tidy.rs`, each rule at the top of its own module.

mod gen_index;
mod layers;
mod repo;
mod tidy;

use repo::{Repo, RepoError};
use std::process::ExitCode;

/// How the two chores are asked for.
const USAGE: &str = "usage: cargo xtask tidy | gen";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let outcome = match (args.next().as_deref(), args.next()) {
        (Some("tidy"), None) => tidy(),
        (Some("gen"), None) => generate(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::from(2)
    })
}

/// Prints each finding and fails if there is one.
fn tidy() -> Result<ExitCode, RepoError> {
    let repo = Repo::open()?;
    let report = tidy::check(&repo)?;
    for finding in &report.findings {
        eprintln!("{finding}");
    }
    if report.findings.is_empty() {
        println!("tidy: {} files, nothing to say", report.files);
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {} findings in {} files", report.findings.len(), report.files);
    Ok(ExitCode::FAILURE)
}

/// Writes the crate index.
fn generate() -> Result<ExitCode, RepoError> {
    let repo = Repo::open()?;
    repo.write(gen_index::PATH, &gen_index::index(&repo.workspace_packages()?))?;
    println!("gen: wrote {}", gen_index::PATH);
    Ok(ExitCode::SUCCESS)
}
