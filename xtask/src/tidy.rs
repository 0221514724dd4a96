//! The rules of the house that no other tool checks. A finding is fatal.
//!
//! ```text
//! headers     each source file starts with a comment that says what it is for
//! length      no function over 70 lines, no file over 1,000
//! text        no trailing blanks, no forgotten markers, no machine's own paths
//! safety      a SAFETY comment above each unsafe block and unsafe impl
//! layering    a crate depends only on crates of a lower layer
//! index       crates/README.md is what `cargo xtask gen` writes
//! promises    each promise (specification, guide) names a test that exists, or is marked open
//! targets     each fuzz target is named in fuzz/Cargo.toml, so that it is built
//! ```

mod headers;
mod index;
mod layering;
mod length;
mod promises;
mod rust_source;
mod safety;
mod targets;
mod text;

use crate::repo::{Repo, RepoError, TextFile};
use rust_source::RustSource;
use std::fmt;

/// One broken rule at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path from the root of the repository.
    path: String,
    /// Line, from 1.
    line: usize,
    /// What is wrong, and what to do.
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.message)
    }
}

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
    let files: Vec<TextFile> = repo.text_files()?.into_iter().filter(|file| is_ours(&file.path)).collect();
    let mut findings = Vec::new();
    for file in &files {
        check_file(file, &mut findings);
    }
    findings.extend(layering::check(&repo.workspace_packages()?));
    if repo.exists("agent/Cargo.toml") {
        findings.extend(layering::check(&repo.packages("agent/Cargo.toml")?));
    }
    findings.extend(index::check(&files, &repo.workspace_packages()?));
    findings.extend(promises::check(&files, |path| repo.exists(path)));
    findings.extend(targets::check(&files));
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(Report { files: files.len(), findings })
}

/// Checks what a file shows by itself.
fn check_file(file: &TextFile, findings: &mut Vec<Finding>) {
    findings.extend(headers::check(file));
    findings.extend(length::check_text(file));
    if !file.path.ends_with(".rs") {
        findings.extend(text::check(file, &[]));
        return;
    }
    match RustSource::parse(&file.text) {
        Ok(source) => {
            findings.extend(text::check(file, &source.literal_lines));
            findings.extend(length::check_rust(&file.path, &source));
            findings.extend(safety::check(&file.path, &source));
        }
        Err(unreadable) => findings.push(Finding::new(&file.path, unreadable.line, unreadable.message)),
    }
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

/// A file for the unit tests of the rules.
#[cfg(test)]
fn file(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_owned(), text: text.to_owned() }
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

    #[test]
    fn finding_prints_as_a_place_an_editor_can_open() {
        assert_eq!(Finding::new("a/b.rs", 7, "too long").to_string(), "a/b.rs:7: too long");
    }
}
