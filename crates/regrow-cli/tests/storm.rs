//! Whatever is killed, and whenever: the daemon, keepers, seeds, processes of bodies and commands, at random, under the
//! load of 32 commands at a time. Every command that is not killed itself ends as it would without Regrow, or says that
//! its run was killed (137), or that the daemon is gone (125). Nothing is left behind.
//!
//! ```text
//!   first part      one daemon for all of it: everything but the daemon is killed; then it recycles as before, and has
//!                   no more memory, descriptors and children than at its beginning
//!   second part     the daemon is killed too; the commands start the next one
//! ```
//!
//! This process is where orphans go (`PR_SET_CHILD_SUBREAPER`), so that it finds whatever is left.
//!
//! `REGROW_STORM_KILLS=100000` makes it a long one, `REGROW_STORM_SEED=n` another one.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

#[path = "storm/commands.rs"]
mod commands;
#[path = "storm/killer.rs"]
mod killer;
#[path = "storm/nursery.rs"]
mod nursery;
#[path = "storm/random.rs"]
mod random;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use regrow_daemon::client::Client;
use regrow_daemon::wire::Question;
use regrow_sys::disable::FeatureSet;
use regrow_testkit::left::{self, Left};
use regrow_testkit::summary::{self, Percent};

use commands::{Job, Outcome};
use killer::{Kill, Kind};
use nursery::Nursery;
use random::Random;
use service::{LIMIT, Service, comes_about, eventually, lives};

/// Commands at a time.
const COMMANDS: usize = 32;
/// Processes that are killed. `make soak` kills many times as many.
const KILLS: usize = 300;
/// The mean time between two kills.
const PAUSE: Duration = Duration::from_millis(30);
/// How much the daemon's memory may grow by its allocator's whims.
const ALLOWANCE_KIB: u64 = 8 * 1024;
/// The seed of the random numbers where no other is asked for.
const SEED: u64 = 0x5eed_0003;

/// What all threads of the test share.
pub(crate) struct Storm {
    service: Service,
    nursery: Nursery,
    kills: Mutex<Vec<Kill>>,
    outcomes: Mutex<BTreeMap<Outcome, usize>>,
    failures: Mutex<Vec<String>>,
    longest: Mutex<(Duration, String)>,
    is_over: AtomicBool,
}

impl Storm {
    fn new() -> Storm {
        let service = Service::empty();
        fs::create_dir(service.folder().join("tmp")).unwrap();
        Storm {
            service,
            nursery: Nursery::new(),
            kills: Mutex::default(),
            outcomes: Mutex::default(),
            failures: Mutex::default(),
            longest: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Goes on until so many more have been killed, of these kinds.
    fn rage(&self, kills: usize, kinds: &[(Kind, u64)], random: &mut Random) {
        self.is_over.store(false, SeqCst);
        let seeds: Vec<u64> = (0..COMMANDS).map(|_| random.next()).collect();
        std::thread::scope(|scope| {
            for seed in seeds {
                scope.spawn(move || self.command_after_command(&mut Random::new(seed)));
            }
            let reaper = scope.spawn(|| self.reap_until_over());
            killer::kill(self, kills, kinds, random);
            self.is_over.store(true, SeqCst);
            reaper.join().unwrap();
        });
    }

    fn command_after_command(&self, random: &mut Random) {
        while !self.is_over.load(SeqCst) {
            let job = Job::any(random);
            let started = Instant::now();
            match commands::run(self, &job) {
                Ok(outcome) => *self.outcomes.lock().unwrap().entry(outcome).or_default() += 1,
                Err(failure) => self.failures.lock().unwrap().push(failure),
            }
            let mut longest = self.longest.lock().unwrap();
            if started.elapsed() > longest.0 {
                *longest = (started.elapsed(), format!("{:?}", job.args));
            }
        }
    }

    fn reap_until_over(&self) {
        while !self.is_over.load(SeqCst) {
            self.nursery.reap_orphans();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs one command of each sort until it is recycled again.
    fn recycles_everything(&self) {
        for job in Job::one_of_each() {
            let mut outcome = Outcome::Executed;
            eventually(&format!("{:?} is recycled", job.args), || {
                outcome = commands::run(self, &job).unwrap_or_else(|failure| panic!("{failure}"));
                outcome == Outcome::Recycled
            });
        }
    }

    /// Notes what is about to be killed.
    fn note(&self, kind: Kind, pid: i32) {
        self.kills.lock().unwrap().push(Kill { kind, pid, at: Instant::now() });
    }

    /// It was gone. False.
    fn forget_note(&self) -> bool {
        self.kills.lock().unwrap().pop();
        false
    }

    /// Fails when a command has ended as it must not.
    fn assert_right(&self) {
        let failures = self.failures.lock().unwrap();
        let first: Vec<&String> = failures.iter().take(5).collect();
        assert!(failures.is_empty(), "{} commands are wrong: {first:#?}", failures.len());
    }

    fn counts(&self) -> String {
        let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
        self.kills.lock().unwrap().iter().for_each(|kill| *kinds.entry(kill.kind).or_default() += 1);
        let outcomes = self.outcomes.lock().unwrap();
        let all: usize = outcomes.values().sum();
        let mut text = format!("{} kills (", kinds.values().sum::<usize>());
        for (index, (kind, count)) in kinds.iter().enumerate() {
            let _ = write!(text, "{}{count} {kind}", if index == 0 { "" } else { ", " });
        }
        let _ = write!(text, ") under {COMMANDS} commands at a time; {all} runs");
        for (outcome, count) in outcomes.iter() {
            let _ = write!(text, ", {count} {outcome}");
        }
        let kept = outcomes.get(&Outcome::Recycled).copied().unwrap_or(0);
        let _ = write!(text, "; {} recycled", Percent { part: kept, whole: all });
        text
    }
}

/// What a daemon has at a time when it serves nobody.
#[derive(Debug)]
struct Has {
    pid: i32,
    descriptors: usize,
    memory_kib: u64,
    threads: String,
}

impl Has {
    /// Has the daemon drop what it keeps, and looks when all of that is gone.
    fn after_clear(storm: &Storm) -> Has {
        let mut client = Client::connect(&storm.service.place()).unwrap();
        let pid = storm.service.daemon();
        let mut children = Vec::new();
        let cleared = || {
            client.clear().unwrap();
            children = left::children(pid.cast_unsigned()).unwrap();
            children.is_empty()
        };
        if !comes_about(cleared) {
            let status = client.ask(Question::Status).unwrap();
            let seen: Vec<String> = children.iter().map(|child| portrait(child)).collect();
            panic!("a daemon that serves nobody keeps {seen:#?} after it was cleared: {status}");
        }
        // Connections that were closed here are there until the daemon has seen it.
        eventually("the end of all other connections", || {
            let status: serde_json::Value =
                serde_json::from_str(&client.ask(Question::Status).unwrap()).unwrap();
            status["daemon"]["clients"] == 0
        });
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        let memory = field("RssAnon:");
        Has {
            pid,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            memory_kib: memory.trim_end_matches(" kB").parse().unwrap(),
            threads: field("Threads:"),
        }
    }
}

/// What the kernel tells of a process, for whoever reads that a test has failed.
fn portrait(pid: &str) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let wanted = ["State:", "PPid:", "Threads:", "SigPnd:", "ShdPnd:", "SigBlk:"];
    let status = read("status");
    let status: Vec<&str> =
        status.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name))).collect();
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let line = read("cmdline").replace('\0', " ");
    format!("{pid} {} {line} {status:?} in {} {}", exe.display(), read("wchan"), read("syscall"))
}

/// The first part: one daemon.
fn without_killing_the_daemon(storm: &Storm, kills: usize, random: &mut Random) -> String {
    storm.recycles_everything();
    let before = Has::after_clear(storm);
    storm.rage(kills, killer::ALL_BUT_DAEMON, random);
    storm.assert_right();
    storm.recycles_everything();
    let after = Has::after_clear(storm);
    println!("the daemon before: {before:?}\nand after: {after:?}");
    assert_eq!(after.pid, before.pid, "the daemon is the same");
    assert_eq!(after.descriptors, before.descriptors, "{before:?} {after:?}");
    assert_eq!(after.threads, "1");
    assert!(after.memory_kib <= before.memory_kib + ALLOWANCE_KIB, "{before:?} {after:?}");
    format!("daemon of the first part: {} to {} KiB", before.memory_kib, after.memory_kib)
}

/// The names in the daemon's folder.
fn names(storm: &Storm) -> Vec<String> {
    let entries = fs::read_dir(storm.service.folder()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The groups below this process's own that a probe has made.
fn probe_groups() -> HashSet<OsString> {
    let kernel = regrow_sys::probe::Kernel::probe(&FeatureSet::EMPTY);
    let own = kernel.facts().cgroup.as_ref().map(|place| place.own.clone());
    let entries = own.and_then(|own| fs::read_dir(own).ok()).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("regrow-probe")).collect()
}

/// After the second part: the next command works, then one command stops everything.
fn nothing_is_left(storm: &Storm, before: &Left) {
    storm.recycles_everything();
    let temporary = fs::read_dir(storm.service.folder().join("tmp")).unwrap().count();
    assert_eq!(temporary, 0, "files that nobody removes");
    assert_eq!(names(storm), ["regrow.lock", "regrow.sock", "tmp"]);
    let daemon = storm.service.daemon();
    let stop = storm.service.regrow().arg("stop").output().unwrap();
    assert!(stop.status.success(), "{stop:?}");
    eventually("the end of the daemon", || !lives(daemon));
    let deadline = Instant::now() + LIMIT;
    let mut left = Some(String::new());
    while left.is_some() && Instant::now() < deadline {
        storm.nursery.reap_orphans();
        left = before.beside(Duration::from_millis(20)).unwrap();
    }
    assert_eq!(left, None, "is left behind");
    assert_eq!(names(storm), ["regrow.lock", "tmp"]);
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn whatever_is_killed_commands_are_right_and_nothing_is_left() {
    nursery::take_orphans();
    let seed = number("REGROW_STORM_SEED").unwrap_or(SEED);
    let asked = number("REGROW_STORM_KILLS").and_then(|kills| usize::try_from(kills).ok());
    let kills = asked.unwrap_or(KILLS);
    println!("seed {seed:#x}, {kills} kills");
    let mut random = Random::new(seed);
    let storm = Storm::new();
    let groups = probe_groups();
    let before = Left::now().unwrap();
    let memory = without_killing_the_daemon(&storm, kills / 2, &mut random);
    storm.rage(kills - kills / 2, killer::ALL, &mut random);
    storm.assert_right();
    nothing_is_left(&storm, &before);
    // What a daemon has left that was killed in its first moments, the next probe removes.
    eventually("no control group", || probe_groups().is_subset(&groups));
    let line = format!("storm: {}; {memory}; nothing left", storm.counts());
    println!("{line}\nthe longest: {:?}", storm.longest.lock().unwrap());
    summary::add(&line).unwrap();
    let outcomes = storm.outcomes.lock().unwrap();
    assert_eq!(storm.kills.lock().unwrap().len(), kills);
    assert!(outcomes.contains_key(&Outcome::Recycled), "{outcomes:?}");
}
