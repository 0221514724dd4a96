//! Recycled runs of the corpus through one daemon, from 8 clients at once, are what plain exec gives: streams, status and
//! files.
//!
//! Half of the clients stay connected, the others are one command after the other, compared with `env` in its place. They
//! go through the entries from different places on, one of each kind side by side; the two argument lists of an entry take
//! turns. Each client is a process of its own, so that no other's descriptors are in the processes that it starts.
//!
//! `REGROW_CORPUS=text` keeps only the entries whose names contain the text, `REGROW_RUNS=n` sets how often each client
//! runs each entry.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

#[path = "corpus/commands.rs"]
mod commands;
#[path = "corpus/connected.rs"]
mod connected;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regrow_daemon::caller::spawn_message;
use regrow_daemon::place::Place;
use regrow_testkit::corpus::{
    ArgumentList, Corpus, PlainExec, Prover, Rounds, Spawner, Tally, Workshop, project_corpus_dir,
};
use regrow_testkit::summary::{self, Extent, Percent};
use serde::{Deserialize, Serialize};

use commands::{ByEnv, Commands};
use connected::Connected;
use service::Service;

/// How many clients there are.
const CLIENTS: usize = 8;
/// How many times each client runs each entry.
const RUNS: usize = 2;
/// The same where time does not matter.
const RUNS_LONG: usize = 3;
/// The same where all of it has run as root already.
const RUNS_AGAIN: usize = 1;
/// The greatest share of the entries that may have no recycled run. How many runs of the other entries find all bodies busy depends
/// on what else the machine does.
const MOST_NEVER_RECYCLED_PERCENT: usize = 5;
/// How often an entry is run before the clients come, until it is recycled.
const ATTEMPTS: usize = 200;
/// The variable that makes this test one of its own clients, and says which.
const CLIENT: &str = "REGROW_TEST_CLIENT";
/// The variable that names the daemon's folder.
const FOLDER: &str = "XDG_RUNTIME_DIR";

/// What of a run is its parent's, group's and session's is the daemon's: see "Through the daemon" in the guide's page of
/// differences.
const PARENTS: &str = r#"
    entry = []
    [environment]
    [normalisers]
    parent = { pattern = '^\(cut\) R \d+ \d+ \d+ ', with = "(cut) R PARENT GROUP SESSION " }
    group = { pattern = '^\d+ \d+ ', with = "GROUP SESSION " }
"#;

/// The corpus for runs by the daemon at this place. Plain runs have the variable too by which commands find it.
fn corpus(folder: &Path) -> Corpus {
    let mut corpus = Corpus::load(&project_corpus_dir()).unwrap();
    if let Ok(part) = std::env::var("REGROW_CORPUS") {
        corpus.retain(|entry| entry.name.contains(&part));
    }
    corpus.environment.insert(FOLDER.to_owned(), folder.to_str().unwrap().to_owned());
    corpus.normalisers.extend(Corpus::parse(PARENTS, folder).unwrap().normalisers);
    for entry in &mut corpus.entries {
        match entry.name.as_str() {
            "self-stat" => entry.normalise.extend(["parent".to_owned(), "group".to_owned()]),
            // A run leads its group, and so a session is begun by a fork, which nobody waits for unless asked to.
            "setsid" => {
                (entry.alt_signal, entry.alt_status) = (None, Some(0));
                entry.alt = ["setsid", "--wait", "true"].map(str::to_owned).to_vec();
            }
            _ => {}
        }
    }
    corpus
}

fn runs() -> usize {
    let asked = std::env::var("REGROW_RUNS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(match summary::extent() {
        Extent::Long => RUNS_LONG,
        Extent::Usual => RUNS,
        Extent::Again => RUNS_AGAIN,
    })
}

/// Has the daemon make the images of all entries.
fn warm(corpus: &Corpus, place: &Place) {
    let root = tempfile::tempdir().unwrap();
    let workshop = Workshop::new(corpus, root.path());
    let mut spawner = connected(place);
    for entry in &corpus.entries {
        for _ in 0..ATTEMPTS {
            let outcome = workshop.run(entry, ArgumentList::Main, &mut spawner).unwrap();
            let why = outcome.result.fallback.unwrap_or_default();
            if !["first_run", "image_in_progress"].iter().any(|name| why.starts_with(name)) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        workshop.clear(entry).unwrap();
    }
}

/// A client that asks for what the standard library would start: it makes `SIGPIPE`, which its own programs ignore, default.
fn connected(place: &Place) -> Connected {
    let mut message = spawn_message("".as_ref(), &[""; 0]).unwrap();
    let ignored = message.task.ignored_signals().unwrap();
    message.task.set_ignored_signals(ignored & !(1 << (libc::SIGPIPE - 1)));
    Connected::new(place, message)
}

/// What a client has counted.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Counted {
    runs: usize,
    kept: usize,
    how: BTreeMap<String, usize>,
    fallbacks: BTreeMap<String, usize>,
    /// Runs by exec, by the entry.
    by_exec: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Counted {
    fn of(tally: &Tally) -> Counted {
        let fallbacks =
            tally.fallbacks.iter().map(|((entry, why), &count)| (format!("{entry}: {why}"), count));
        Counted {
            runs: tally.runs,
            kept: tally.recycled_runs(),
            how: tally.how.clone(),
            fallbacks: fallbacks.collect(),
            by_exec: tally.by_exec(),
            failures: tally.failures.iter().map(ToString::to_string).collect(),
        }
    }

    fn join(&mut self, other: Counted) {
        self.runs += other.runs;
        self.kept += other.kept;
        other.how.into_iter().for_each(|(how, count)| *self.how.entry(how).or_default() += count);
        other.fallbacks.into_iter().for_each(|(why, count)| *self.fallbacks.entry(why).or_default() += count);
        other.by_exec.into_iter().for_each(|(entry, count)| *self.by_exec.entry(entry).or_default() += count);
        self.failures.extend(other.failures);
    }
}

/// Proves the whole corpus as one of the clients.
fn be_client(client: usize, folder: &Path) {
    let mut corpus = corpus(folder);
    // One of each kind begins at the same entry.
    let entries = corpus.entries.len();
    corpus.entries.rotate_left((client / 2) * entries / (CLIENTS / 2));
    let root = tempfile::tempdir().unwrap();
    let prove = |plain: &mut dyn Spawner, trial: &mut dyn Spawner| {
        Prover { plain, trial, rounds: Rounds::same(runs()) }.prove(&corpus, root.path()).unwrap()
    };
    let tally = if client.is_multiple_of(2) {
        let place = Place::at(folder.to_owned(), rustix::process::geteuid().as_raw()).unwrap();
        prove(&mut PlainExec, &mut connected(&place))
    } else {
        prove(&mut ByEnv, &mut Commands)
    };
    std::fs::write(counted_by(folder, client), serde_json::to_vec(&Counted::of(&tally)).unwrap()).unwrap();
}

/// Where a client leaves what it has counted.
fn counted_by(folder: &Path, client: usize) -> PathBuf {
    folder.join(format!("client-{client}.json"))
}

/// This test once more, as a client.
fn start_client(folder: &Path, client: usize) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "runs_of_many_clients_are_what_plain_exec_gives", "--nocapture"]);
    command.env(CLIENT, client.to_string()).env(FOLDER, folder).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn runs_of_many_clients_are_what_plain_exec_gives() {
    if let Ok(client) = std::env::var(CLIENT) {
        let folder = std::env::var_os(FOLDER).unwrap();
        return be_client(client.parse().unwrap(), Path::new(&folder));
    }
    let service = Service::start();
    let folder = service.folder();
    let corpus = corpus(folder);
    warm(&corpus, &service.place());
    let clients: Vec<_> = (0..CLIENTS).map(|client| start_client(folder, client)).collect();
    let mut all = Counted::default();
    for (number, mut client) in clients.into_iter().enumerate() {
        assert!(client.wait().unwrap().success(), "client {number}");
        let counted = std::fs::read(counted_by(folder, number)).unwrap();
        all.join(serde_json::from_slice(&counted).unwrap());
    }
    println!("{:#?}\n{:#?}", all.how, all.fallbacks);
    let kept = Percent { part: all.kept, whole: all.runs };
    let line = format!(
        "corpus: {} entries by {CLIENTS} clients of one daemon, {} runs: {} kept, {} by exec ({kept} not by exec); {} failures",
        corpus.entries.len(),
        all.runs,
        all.kept,
        all.runs - all.kept,
        all.failures.len()
    );
    println!("{line}");
    summary::add(&line).unwrap();
    assert!(all.failures.is_empty(), "{}", all.failures.join("\n"));
    assert_eq!(all.runs, corpus.entries.len() * runs() * CLIENTS);
    let never = all.by_exec.values().filter(|&&count| count == runs() * CLIENTS).count();
    assert!(
        never * 100 <= corpus.entries.len() * MOST_NEVER_RECYCLED_PERCENT,
        "{never} entries: {:#?}",
        all.fallbacks
    );
}
