//! The project's own chores.
//!
//! ```text
//! cargo xtask tidy    check the rules of the house that rustfmt and clippy do not know; fails on any finding
//! cargo xtask gen     write what is generated: crates/README.md, the map in ARCHITECTURE.md, the tables of figures
//! ```
//!
//! What tidy checks stands at the top of `tidy.rs`, each rule at the top of its own module.

mod gen_figures;
mod gen_index;
mod gen_map;
mod graph;
mod layers;
mod marks;
mod repo;
mod results;
mod source;
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

/// Writes all that is generated.
fn generate() -> Result<ExitCode, RepoError> {
    let repo = Repo::open()?;
    let (files, packages) = (repo.text_files()?, repo.packages()?);
    let generated = |what| RepoError::Generated { what };
    let mut pages = vec![
        (gen_index::PATH, gen_index::index(&packages)),
        (gen_map::PATH, gen_map::page(&files, &packages).map_err(generated)?),
    ];
    for path in gen_figures::PAGES {
        pages.push((path, gen_figures::page(&files, path).map_err(generated)?));
    }
    for (path, text) in pages {
        repo.write(path, &text)?;
        println!("gen: wrote {path}");
    }
    Ok(ExitCode::SUCCESS)
}
