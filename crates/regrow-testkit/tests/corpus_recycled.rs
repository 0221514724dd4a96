//! Recycled runs of the corpus are what plain exec gives: streams, status and files, in verify mode.
//!
//! Each entry runs 10 times, its two argument lists taking turns, so that every run follows a different one.
//!
//! `REGROW_CORPUS=text` keeps only the entries whose names contain the text, `REGROW_RUNS=n` sets how often each runs.

use regrow::Pool;
use regrow_testkit::corpus::{Corpus, PlainExec, Prover, Rounds, Tally, project_corpus_dir};
use regrow_testkit::corpus_regrow::PoolSpawner;
use regrow_testkit::summary;

/// How many times each entry runs.
const RUNS: usize = 10;
/// The greatest share of the entries that may have no recycled run: a suite of runs by exec would prove nothing. How many runs of
/// the other entries find all bodies busy depends on what else the machine does.
const MOST_NEVER_RECYCLED_PERCENT: usize = 5;
/// How many entries run at a time: the test is meant for two processors.
const THREADS: usize = 2;

/// Proves every part of the corpus in a thread of its own, with a pool of its own.
fn prove(corpus: &Corpus, runs: usize) -> Tally {
    let mut whole = Tally::default();
    let parts: Vec<Corpus> = (0..THREADS).map(|part| corpus.part(part, THREADS)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts.iter().map(|part| scope.spawn(move || prove_part(part, runs))).collect();
        for thread in threads {
            whole.join(thread.join().expect("a thread that panicked has said why"));
        }
    });
    whole
}

fn prove_part(corpus: &Corpus, runs: usize) -> Tally {
    let root = tempfile::tempdir().expect("a temporary directory");
    let mut trial = PoolSpawner::new(Pool::builder().verify(true).build());
    let mut prover = Prover { plain: &mut PlainExec, trial: &mut trial, rounds: Rounds::same(runs) };
    prover.prove(corpus, root.path()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn recycled_runs_are_what_plain_exec_gives() {
    let mut corpus = Corpus::load(&project_corpus_dir()).unwrap_or_else(|e| panic!("{e}"));
    if let Ok(part) = std::env::var("REGROW_CORPUS") {
        corpus.retain(|entry| entry.name.contains(&part));
    }
    let asked = std::env::var("REGROW_RUNS").ok().and_then(|text| text.parse().ok());
    let runs = asked.unwrap_or(RUNS);
    let tally = prove(&corpus, runs);
    println!("{tally}");
    summary::add(&tally.sum()).expect("the summary can be written");
    assert!(tally.failures.is_empty(), "{tally}");
    assert_eq!(tally.runs, corpus.entries.len() * runs);
    let never = tally.by_exec().into_values().filter(|&count| count == runs).count();
    assert!(never * 100 <= corpus.entries.len() * MOST_NEVER_RECYCLED_PERCENT, "{never} entries: {tally}");
}
