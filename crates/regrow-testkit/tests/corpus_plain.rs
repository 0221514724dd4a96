//! The corpus itself is right: under plain exec every entry ends as its manifest says, and twice alike.
//!
//! A corpus that differs from itself could not tell a recycled run from a good one.
//!
//! `REGROW_CORPUS=text` keeps only the entries whose names contain the text.

use regrow_testkit::corpus::{Corpus, PlainExec, Prover, Rounds, project_corpus_dir};

/// The least number of entries that the corpus is to have.
const LEAST_ENTRIES: usize = 75;

#[test]
fn plain_runs_agree_with_the_manifest_and_with_each_other() {
    let mut corpus = Corpus::load(&project_corpus_dir()).unwrap_or_else(|e| panic!("{e}"));
    assert!(corpus.entries.len() >= LEAST_ENTRIES, "the corpus has {} entries", corpus.entries.len());
    if let Ok(part) = std::env::var("REGROW_CORPUS") {
        corpus.retain(|entry| entry.name.contains(&part));
    }
    let root = tempfile::tempdir().expect("a temporary directory");
    let rounds = Rounds::same(2);
    let mut prover = Prover { plain: &mut PlainExec, trial: &mut PlainExec, rounds };
    let tally = prover.prove(&corpus, root.path()).unwrap_or_else(|e| panic!("{e}"));
    println!("{tally}");
    assert!(tally.failures.is_empty(), "{tally}");
    assert_eq!(tally.runs, corpus.entries.len() * 2);
}
