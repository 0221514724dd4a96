//! The rules of the house that no other tool checks. A finding is fatal.
//!
//! ```text
//! arch         the words of a processor stand only in folders named `arch`
//! circles      no circle of modules inside a crate, none of Python files
//! figures      README.md and docs/evaluation.md have the tables that `cargo xtask gen` writes from bench/results
//! headers      each source file starts with a comment that says what it is for
//! index        crates/README.md is what `cargo xtask gen` writes
//! layering     a crate depends only on crates of a lower layer
//! length       no function over 70 lines, no file over 1,000, or 400 in a Python package
//! map          the map in ARCHITECTURE.md is what `cargo xtask gen` writes
//! names        no type name that others can see stands for two types of a crate
//! orphans      each Rust file of a crate is a module of it
//! promises     each promise (specification, guide) names a test that exists, or is marked open
//! safety       a SAFETY comment above each unsafe block and unsafe impl
//! targets      each fuzz target is named in fuzz/Cargo.toml, so that it is built
//! text         no trailing blanks, no forgotten markers, no machine's own paths
//! unsafe_code  no unsafe outside of three crates and the files that are listed with their reason
//! words        no function has a name that does not say what it does
//! ```

mod arch;
mod circles;
mod figures;
mod finding;
mod headers;
mod index;
mod layering;
mod length;
mod map;
mod names;
mod orphans;
mod promises;
mod safety;
mod targets;
mod text;
mod unsafe_code;
mod words;

use crate::gen_figures::PAGES;
use crate::repo::{Repo, RepoError, TextFile};
use crate::source::modules::Sources;
use crate::source::rust::RustSource;
use finding::Finding;

/// What a check of the whole tree gave.
#[derive(Debug)]
pub(crate) struct Report {
    /// How many files were read.
    pub(crate) files: usize,
    /// All that is wrong, in the order of the paths.
    pub(crate) findings: Vec<Finding>,
}

/// Checks the whole tree.
pub(crate) fn check(repo: &Repo) -> Result<Report, RepoError> {
    let files = repo.text_files()?;
    let mut findings: Vec<Finding> = PAGES.iter().filter_map(|page| figures::check(&files, page)).collect();
    let files: Vec<TextFile> = files.into_iter().filter(|file| is_ours(&file.path)).collect();
    let mut sources = Sources::new();
    for file in &files {
        findings.extend(headers::check(file));
        findings.extend(length::check_text(file));
        findings.extend(words::check_text(file));
        if !file.path.ends_with(".rs") {
            findings.extend(text::check(file, &[]));
            continue;
        }
        match RustSource::parse(&file.text) {
            Ok(source) => {
                findings.extend(check_rust(file, &source));
                sources.insert(&file.path, source);
            }
            Err(unreadable) => findings.push(Finding::new(&file.path, unreadable.line, unreadable.message)),
        }
    }
    findings.extend(circles::check(&files, &sources));
    findings.extend(names::check(&sources));
    findings.extend(orphans::check(&sources));
    findings.extend(unsafe_code::check(&sources));
    findings.extend(arch::check(&files));
    let packages = repo.packages()?;
    findings.extend(layering::check(&packages));
    findings.extend(index::check(&files, &packages));
    findings.extend(map::check(&files, &packages));
    findings.extend(promises::check(&files, |path| repo.exists(path)));
    findings.extend(targets::check(&files));
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(Report { files: files.len(), findings })
}

/// Checks what a Rust file shows by itself.
fn check_rust(file: &TextFile, source: &RustSource<'_>) -> Vec<Finding> {
    let mut findings = text::check(file, &source.literal_lines);
    findings.extend(length::check_rust(&file.path, source));
    findings.extend(safety::check(&file.path, source));
    findings.extend(words::check_rust(&file.path, source));
    findings
}

/// Whether the rules hold for a file: not for lock files, licence texts, raw results, and what programs are fed
/// with in tests.
fn is_ours(path: &str) -> bool {
    !(path.ends_with(".lock")
        || path.ends_with("go.sum")
        || path.starts_with("LICENSE-")
        || path.starts_with("fuzz/corpus/")
        || path.starts_with("tests/corpus/files/")
        || path.starts_with("bench/results/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_and_foreign_files_are_left_out() {
        assert!(is_ours("crates/regrow/src/lib.rs"));
        assert!(is_ours("docs/SPECIFICATION.md"));
        for path in
            ["Cargo.lock", "fuzz/Cargo.lock", "LICENSE-MIT", "fuzz/corpus/maps/1", "bench/results/a.json"]
        {
            assert!(!is_ours(path), "{path}");
        }
    }
}
