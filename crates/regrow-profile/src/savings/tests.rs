//! What recycled starts are said to save.

use super::*;
use regrow_sites::{Event, ProcessKey, Site, Usage};

const SHELL: ImageId = ImageId(1);
const TRUE: ImageId = ImageId(2);
const GCC: ImageId = ImageId(3);
const SUDO: ImageId = ImageId(4);
const CAT: ImageId = ImageId(5);

const BASE_US: f64 = 600.0;

/// A process of a shell that executes these programs, and what it has used.
fn process(pid: u32, programs: &[ImageId], usage: Usage) -> Vec<Event> {
    let key = ProcessKey { pid, created_us: u64::from(pid) };
    let parent = ProcessKey { pid: 1, created_us: 0 };
    let site = Site { image: SHELL, frames: [None; 3], script: None, child: None };
    let mut events = vec![Event::Created { time_us: key.created_us, process: key, parent, site }];
    for (number, &image) in (0..).zip(programs) {
        events.push(Event::Executed { time_us: 1000 + u64::from(pid) + number, process: key, image });
    }
    events.push(Event::Ended { time_us: 90_000, process: key, usage });
    events
}

fn usage(cpu_us: u64, life_us: u64, startup_us: Option<u64>) -> Usage {
    Usage { cpu_us, life_us, peak_kib: 0, startup_us }
}

fn savings() -> Savings<'static> {
    let basis = Basis { base_us: BASE_US, from: "a test".to_owned(), smallest_start_us: Some(300.0) };
    Savings::new(basis, |path| match path {
        "/sudo" => Verdict { refused: Some("the file has the set-user-ID bit".to_owned()), start_us: None },
        "/cat" => Verdict { refused: None, start_us: Some(350.0) },
        _ => Verdict::default(),
    })
}

/// What the processes of each site save, by their last program.
fn saved(events: impl IntoIterator<Item = Event>) -> HashMap<Option<ImageId>, Saved> {
    let mut profile = Profile::new();
    events.into_iter().for_each(|event| profile.take(event));
    for (image, path) in [(SHELL, "/sh"), (TRUE, "/true"), (GCC, "/gcc"), (SUDO, "/sudo"), (CAT, "/cat")] {
        profile.take(Event::Named { image, path: path.to_owned() });
    }
    profile.finish();
    let programs = savings().of(&profile);
    profile
        .sites()
        .map(|(_, key, totals)| (key.programs.final_one(), programs.of_site(key, totals)))
        .collect()
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= expected.abs() * 0.011, "{value} is not {expected}");
}

#[test]
fn a_start_saves_the_base_and_what_its_start_up_is_longer_than_the_quickest() {
    let quick = (2..4).flat_map(|pid| process(pid, &[TRUE], usage(2000, 9000, Some(200))));
    let slow = (4..9).flat_map(|pid| process(pid, &[GCC], usage(5000, 20_000, Some(1200))));
    let saved = saved(quick.chain(slow));
    near(saved[&Some(TRUE)].total_us, 2.0 * BASE_US);
    near(saved[&Some(GCC)].each_us, BASE_US + 1000.0);
    near(saved[&Some(GCC)].total_us, 5.0 * (BASE_US + 1000.0));
    assert_eq!((saved[&Some(GCC)].from, &saved[&Some(GCC)].refused), (SavedFrom::Measured, &None));
}

#[test]
fn a_start_up_that_waits_counts_with_its_processor_time_and_a_process_saves_no_more_than_it_lived() {
    let quick = process(2, &[TRUE], usage(2000, 9000, Some(200)));
    let waiting = process(3, &[GCC], usage(100, 900_000, Some(800_000)));
    let all = saved(quick.into_iter().chain(waiting));
    near(all[&Some(GCC)].total_us, BASE_US + 100.0);
    let short = saved(process(2, &[TRUE], usage(50, 90, Some(20))));
    near(short[&Some(TRUE)].total_us, 90.0);
}

#[test]
fn what_was_not_measured_is_the_daemons_and_else_the_base_alone() {
    let unknown = |pid, image| process(pid, &[image], usage(2000, 9000, None));
    let saved = saved([unknown(2, TRUE), unknown(3, CAT)].concat());
    near(saved[&Some(CAT)].total_us, BASE_US + 50.0);
    near(saved[&Some(TRUE)].total_us, BASE_US);
    assert_eq!((saved[&Some(CAT)].from, saved[&Some(TRUE)].from), (SavedFrom::Daemon, SavedFrom::BaseAlone));
}

#[test]
fn what_is_not_recycled_saves_nothing_and_says_why() {
    let refused = process(2, &[SUDO], usage(2000, 9000, Some(200)));
    let fork = process(3, &[], usage(2000, 9000, None));
    // A shell in between that is recycled, and what it executes in its place that is not.
    let behind_a_shell = process(4, &[SHELL, SUDO], usage(2000, 9000, Some(200)));
    let one = saved(refused.into_iter().chain(fork));
    assert_eq!(one[&Some(SUDO)].refused.as_deref(), Some("the file has the set-user-ID bit"));
    assert_eq!((one[&Some(SUDO)].total_us, one[&None].total_us), (0.0, 0.0));
    assert_eq!(one[&None].refused.as_deref(), Some("executes no program"));
    let chain = saved(behind_a_shell);
    near(chain[&Some(SUDO)].total_us, BASE_US);
    assert!(chain[&Some(SUDO)].refused.is_some());
}

#[test]
fn each_program_that_one_process_executes_counts() {
    let saved = saved(process(2, &[SHELL, CAT, CAT, TRUE], usage(2000, 9000, None)));
    near(saved[&Some(TRUE)].total_us, 4.0 * BASE_US);
}

#[test]
fn a_program_is_judged_once() {
    let asked = std::cell::Cell::new(0);
    let basis = Basis { base_us: BASE_US, from: String::new(), smallest_start_us: None };
    let savings = Savings::new(basis, |_| {
        asked.set(asked.get() + 1);
        Verdict::default()
    });
    let mut profile = Profile::new();
    process(2, &[TRUE], usage(1, 2, None)).into_iter().for_each(|event| profile.take(event));
    profile.take(Event::Named { image: TRUE, path: "/true".to_owned() });
    profile.finish();
    let _ = savings.of(&profile);
    let _ = savings.of(&profile);
    assert_eq!(asked.get(), 1);
}
