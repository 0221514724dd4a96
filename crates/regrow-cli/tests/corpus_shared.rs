//! Recycled runs of the corpus through one daemon, from 8 clients at once, are what plain exec gives: streams, status and
//! files.
//!
//! Half of the clients stay connected, the others are one command after the other. They go through the entries from
//! different places on, a client of each kind side by side; the two argument lists of an entry take turns.
//!
//! `REGROW_CORPUS=text` keeps only the entries whose names contain the text, `REGROW_RUNS=n` sets how often each client
//! runs each entry.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

#[path = "corpus/commands.rs"]
mod commands;
#[path = "corpus/connected.rs"]
mod connected;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use regrow_daemon::wire::Order;
use regrow_testkit::corpus::{
    ArgumentList, Corpus, PlainExec, Prover, Rounds, Spawner, Tally, Workshop, project_corpus_dir,
};
use regrow_testkit::summary;

use commands::{Commands, Remembering};
use connected::Connected;
use service::Service;

/// How many clients there are.
const CLIENTS: usize = 8;
/// How many times each client runs each entry.
const RUNS: usize = 4;
/// The same where all of it has run as root already.
const RUNS_AGAIN: usize = 2;
/// The least share of the runs that must not be by exec.
const LEAST_RECYCLED_PERCENT: usize = 95;
/// How many entries are run at a time before, so that their images are there.
const WARMERS: usize = 2;
/// How often each is run until it is recycled.
const ATTEMPTS: usize = 100;

/// What all clients need.
struct Trial<'a> {
    service: &'a Service,
    corpus: &'a Corpus,
    /// An order of this process, read while it has one thread.
    template: Order,
}

impl Trial<'_> {
    fn connected(&self) -> Connected {
        Connected::new(&self.service.place(), self.template.clone())
    }

    /// Has the daemon make all images.
    fn warm(&self) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..WARMERS {
                scope.spawn(|| self.warm_from(&next));
            }
        });
    }

    fn warm_from(&self, next: &AtomicUsize) {
        let root = tempfile::tempdir().unwrap();
        let workshop = Workshop::new(self.corpus, root.path());
        let mut spawner = self.connected();
        while let Some(entry) = self.corpus.entries.get(next.fetch_add(1, SeqCst)) {
            for _ in 0..ATTEMPTS {
                let outcome = workshop.run(entry, ArgumentList::Main, &mut spawner).unwrap();
                if outcome.result.fallback.is_none_or(|why| !is_on_its_way(&why)) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            workshop.clear(entry).unwrap();
        }
    }

    /// Proves the whole corpus as one of the clients.
    fn prove(&self, client: usize, runs: usize) -> Tally {
        let mut corpus = self.corpus.clone();
        // One of each kind begins at the same entry.
        let entries = corpus.entries.len();
        corpus.entries.rotate_left((client / 2) * entries / (CLIENTS / 2));
        let root = tempfile::tempdir().unwrap();
        let prove = |plain: &mut dyn Spawner, trial: &mut dyn Spawner| {
            Prover { plain, trial, rounds: Rounds::same(runs) }.prove(&corpus, root.path()).unwrap()
        };
        if client % 2 == 0 {
            return prove(&mut PlainExec, &mut self.connected());
        }
        let plain = Remembering::default();
        prove(&mut plain.clone(), &mut Commands::new(plain))
    }
}

/// Whether the next run may be recycled although this one was not.
fn is_on_its_way(why: &str) -> bool {
    ["first_run", "image_in_progress", "all_busy"].iter().any(|name| why.starts_with(name))
}

#[test]
fn runs_of_many_clients_are_what_plain_exec_gives() {
    let mut corpus = Corpus::load(&project_corpus_dir()).unwrap();
    if let Ok(part) = std::env::var("REGROW_CORPUS") {
        corpus.retain(|entry| entry.name.contains(&part));
    }
    let asked = std::env::var("REGROW_RUNS").ok().and_then(|text| text.parse().ok());
    let runs = asked.unwrap_or(if summary::is_repetition() { RUNS_AGAIN } else { RUNS });
    let template = regrow_daemon::client::order_of_caller("".as_ref(), &[""; 0]).unwrap();
    let service = Service::start();
    // By which commands find the daemon: plain runs have it too.
    let place = service.folder().to_str().unwrap().to_owned();
    corpus.environment.insert("XDG_RUNTIME_DIR".to_owned(), place);
    let trial = Trial { service: &service, corpus: &corpus, template };
    trial.warm();
    let mut tallies = Vec::new();
    std::thread::scope(|scope| {
        let trial = &trial;
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || trial.prove(client, runs))).collect();
        tallies.extend(clients.into_iter().map(|client| client.join().unwrap()));
    });
    let mut tally = Tally::default();
    tallies.into_iter().for_each(|part| tally.join(part));
    println!("{tally}");
    summary::add(&format!("{CLIENTS} clients of one daemon: {}", tally.sum())).unwrap();
    assert!(tally.failures.is_empty(), "{tally}");
    assert_eq!(tally.runs, corpus.entries.len() * runs * CLIENTS);
    let percent = tally.recycled_runs() * 100 / tally.runs.max(1);
    assert!(percent >= LEAST_RECYCLED_PERCENT, "only {percent} % of the runs were recycled");
}
