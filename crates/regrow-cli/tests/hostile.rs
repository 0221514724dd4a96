//! Hostile clients: whatever they send, hold, or leave unread, the daemon serves the others, and takes no more than its
//! limits allow. When they have gone, it is as before.
//!
//! `REGROW_ATTACK=text` keeps the attacks whose names contain the text.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

#[path = "hostile/crowd.rs"]
mod crowd;
#[path = "hostile/files.rs"]
mod files;
#[path = "hostile/hanging.rs"]
mod hanging;
#[path = "hostile/line.rs"]
mod line;
#[path = "hostile/messages.rs"]
mod messages;
#[path = "storm/random.rs"]
mod random;
#[path = "hostile/siege.rs"]
mod siege;

use std::process::Stdio;
use std::sync::atomic::Ordering::SeqCst;

use regrow_daemon::client::Client;
use regrow_testkit::summary::{self, Percent};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use hanging::Hanging;
use line::Line;
use random::Random;
use service::{Service, eventually, text};
use siege::{Siege, Taken};

/// The limits that the daemon is given, so that they can be reached.
const MAX_RUNS: usize = 24;
/// The most clients, the daemon's own limit.
const MAX_CLIENTS: usize = 512;
/// Descriptors that the daemon has beside one for each client: for 256 images with their bodies, and for runs.
const OTHER_DESCRIPTORS: usize = 2200;
/// Its children: for each image a seed and two bodies of two processes, further bodies, and runs.
const CHILDREN: usize = 1600;
/// How much memory hostile clients may make it take.
const MOST_MEMORY_KIB: usize = 64 * 1024;
/// How much more it may keep when they are gone, by its allocator's whims.
const ALLOWANCE_KIB: usize = 12 * 1024;

/// An attack. Returns what it has done, in words.
type Attack = fn(&Siege, &mut Random) -> String;

const ATTACKS: &[(&str, Attack)] = &[
    ("garbage", messages::garbage),
    ("mutated", messages::mutated),
    ("halves", messages::halves),
    ("lengths_that_lie", messages::lengths_that_lie),
    ("as_large_as_can_be", messages::as_large_as_can_be),
    ("descriptors", messages::descriptors),
    ("strange_tickets", messages::strange_tickets),
    ("strange_programs", crowd::strange_programs),
    ("unread", crowd::unread),
    ("unread_runs", crowd::unread_runs),
    ("orders_and_closes", crowd::orders_and_closes),
    ("all_runs", crowd::all_runs),
    ("many_programs", crowd::many_programs),
    ("long_names", crowd::long_names),
    ("connections", crowd::connections),
];

#[test]
fn hostile_clients_hinder_nobody() {
    more_descriptors();
    let (max_runs, max_clients) = (MAX_RUNS.to_string(), MAX_CLIENTS.to_string());
    let siege = Siege::new(&["--max-runs", &max_runs, "--max-bodies", "32", "--max-clients", &max_clients]);
    siege.service.warm(&["sh"]);
    let before = siege.rest();
    let mut done = Vec::new();
    let wanted = std::env::var("REGROW_ATTACK").unwrap_or_default();
    let attacks: Vec<(&str, Attack)> =
        ATTACKS.iter().copied().filter(|(name, _)| name.contains(&wanted)).collect();
    let most = siege.lay(|| {
        let idle = crowd::idle(&siege);
        for (number, (_, attack)) in (1..).zip(&attacks) {
            let words = attack(&siege, &mut Random::new(number));
            println!("{words}");
            done.push(words);
            siege.others_are_served();
        }
        done.push(all_at_once(&siege, &attacks));
        done.push(idle.end());
    });
    let after = siege.rest();
    siege.service.warm(&["sh"]);
    let line = format!("hostile clients: {}; {}", done.join(", "), told(&siege, before, most, after));
    println!("{line}");
    summary::add(&line).unwrap();
    assert!(most.descriptors <= MAX_CLIENTS + OTHER_DESCRIPTORS, "{most:?}");
    assert!(most.children <= CHILDREN, "{most:?}");
    assert!(most.memory_kib <= before.memory_kib + MOST_MEMORY_KIB, "{most:?}");
    assert_eq!(after.descriptors, before.descriptors, "{before:?} {after:?}");
    assert!(after.memory_kib <= before.memory_kib + ALLOWANCE_KIB, "{before:?} {after:?}");
    assert_eq!(siege.service.daemon(), siege.daemon, "it is the same daemon");
}

/// A daemon that may have few descriptors serves, with clients that take all of them.
#[test]
fn a_daemon_without_descriptors_makes_room() {
    const DESCRIPTORS: usize = 100;
    more_descriptors();
    let service = Service::empty();
    let script = format!("ulimit -n {DESCRIPTORS}; exec \"$@\"");
    let mut daemon = service.plain("sh");
    daemon.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_regrow"), "daemon", "--idle", "120"]);
    let mut daemon = daemon.stderr(Stdio::null()).spawn().unwrap();
    eventually("the daemon's socket", || Client::connect(&service.place()).is_ok());
    let mut right = 0;
    for round in 0..5 {
        let lines: Vec<Line> = (0..3 * DESCRIPTORS).map(|_| Line::to(&service)).collect();
        eventually("service of the latest", || {
            lines.last().is_some_and(Line::is_served) || Line::to(&service).is_served()
        });
        for program in ["sh", "bash", "dash"] {
            let output =
                service.regrow().args(["run", program, "-c", "echo $PPID; exit 6"]).output().unwrap();
            assert_eq!(
                (output.status.code(), text(&output.stderr)),
                (Some(6), String::new()),
                "round {round}"
            );
            right += 1;
        }
    }
    println!("{right} runs beside {} connections, {DESCRIPTORS} descriptors", 3 * DESCRIPTORS);
    service.warm(&["sh"]);
    assert!(service.regrow().arg("stop").status().unwrap().success());
    assert!(daemon.wait().unwrap().success());
}

/// A file system that never answers the daemon hinders nobody: not where it has a program, a folder of `PATH`, or the working directory,
/// not when a file of it is closed, and not when it is mounted over what the daemon keeps. Needs root, who can mount, and FUSE.
#[test]
fn a_file_system_that_does_not_answer_hinders_nobody() {
    more_descriptors();
    let siege = Siege::new(&["--max-bodies", "32"]);
    let folder = siege.service.folder().join("hanging");
    std::fs::create_dir(&folder).unwrap();
    let Some(hanging) = Hanging::mount(&folder, siege.daemon) else {
        println!("left out: it needs root, and FUSE");
        return;
    };
    siege.service.warm(&["sh"]);
    let before = siege.rest();
    let words = std::cell::RefCell::new(Vec::new());
    siege.lay(|| {
        let stage = files::Stage { siege: &siege, hanging: &hanging, folder: &folder };
        for attack in files::ATTACKS {
            let done = attack(&stage);
            println!("{done}; {} requests of the daemon wait", hanging.waiting());
            words.borrow_mut().push(done);
            siege.others_are_served();
        }
        drop(hanging);
    });
    let after = siege.rest();
    let line = format!(
        "a hanging file system: {}; {}",
        words.into_inner().join(", "),
        told(&siege, before, before, after)
    );
    println!("{line}");
    summary::add(&line).unwrap();
    assert_eq!(after.descriptors, before.descriptors, "{before:?} {after:?}");
    assert_eq!(siege.service.daemon(), siege.daemon, "it is the same daemon");
}

/// Every attack, each in a thread.
fn all_at_once(siege: &Siege, attacks: &[(&str, Attack)]) -> String {
    std::thread::scope(|scope| {
        let attacks: Vec<_> = (100..)
            .zip(attacks)
            .map(|(number, (_, attack))| scope.spawn(move || attack(siege, &mut Random::new(number))))
            .collect();
        attacks.into_iter().for_each(|attack| drop(attack.join().unwrap()));
    });
    siege.others_are_served();
    "all of that at once".to_owned()
}

fn told(siege: &Siege, before: Taken, most: Taken, after: Taken) -> String {
    let load = |count: &std::sync::atomic::AtomicUsize| count.load(SeqCst);
    let served = [&siege.connected, &siege.commands];
    let runs: usize = served.iter().map(|served| load(&served.runs)).sum();
    let recycled = served.iter().map(|served| load(&served.recycled)).sum();
    format!(
        "meanwhile {runs} runs of others, all right, {} recycled; memory of the daemon {} KiB, at most {}, at last {}; \
         descriptors {}, {}, {}",
        Percent { part: recycled, whole: runs },
        before.memory_kib,
        most.memory_kib,
        after.memory_kib,
        before.descriptors,
        most.descriptors,
        after.descriptors
    )
}

/// This process holds both ends of much.
fn more_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}
