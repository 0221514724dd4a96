//! Fresh processes: what a function sees there, and what not.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use regrow::work::{Builder, Died, Weight, run, spawn};
use regrow::{Point, Pool};

use crate::Tests;
use crate::ends::{End, end};

/// What the program has done before it was ready.
static INITIALISED: AtomicU64 = AtomicU64::new(0);
/// What functions count.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// What is renewed in each process.
static RENEWED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OWN_CALLS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) fn initialise() {
    // It draws hash keys, which no two processes may have in common.
    let table: HashMap<u32, u32> = (0..1000).map(|number| (number, number * number)).collect();
    INITIALISED.store(u64::from(table[&31]), Ordering::Relaxed);
}

pub(crate) fn renew() {
    RENEWED.fetch_add(1, Ordering::Relaxed);
}

/// What a function finds, and changes for whoever comes after it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Found {
    pid: u32,
    initialised: u64,
    calls: u64,
    own_calls: u64,
    renewed: u64,
    threads: usize,
    variables: Vec<String>,
    descriptors: Vec<i32>,
    hash: u64,
    block: usize,
}

#[regrow::fresh]
fn find() -> Found {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("a folder").flatten();
    let mut descriptors: Vec<i32> =
        descriptors.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    descriptors.sort_unstable();
    let found = Found {
        pid: std::process::id(),
        initialised: INITIALISED.load(Ordering::Relaxed),
        calls: CALLS.fetch_add(1, Ordering::Relaxed),
        own_calls: OWN_CALLS.replace(7),
        renewed: RENEWED.load(Ordering::Relaxed),
        threads: std::fs::read_dir("/proc/self/task").expect("a folder").count(),
        variables: variables(),
        descriptors,
        hash: RandomState::new().hash_one(1),
        block: leave_traces(),
    };
    std::hint::black_box(&found);
    found
}

/// The names of this process's variables.
fn variables() -> Vec<String> {
    let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    names.sort_unstable();
    names
}

/// Leaves a mark on the heap; how many marks were there.
fn leave_traces() -> usize {
    const MARK: u64 = 0x5eed_5eed_1234_5678;
    let mut marks = 0;
    for _ in 0..64 {
        let block: Vec<u64> = Vec::with_capacity(512);
        // What was there before is looked at as bytes of this process's own memory file.
        let address = block.as_ptr().addr() as u64;
        let mut bytes = vec![0; 4096];
        let memory = std::fs::File::open("/proc/self/mem").expect("own memory");
        std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, address).expect("mapped");
        marks += bytes.chunks_exact(8).filter(|word| *word == MARK.to_ne_bytes()).count();
        let mut block = block;
        block.resize(512, MARK);
        std::hint::black_box(&block);
        std::mem::forget(block);
    }
    marks
}

fn a_function_never_sees_an_earlier_call() {
    let mut hashes = HashSet::new();
    for _ in 0..200 {
        let found = run(Weight::Fresh, find::call()).expect("a result");
        let expected = Found {
            pid: found.pid,
            initialised: 961,
            calls: 0,
            own_calls: 0,
            renewed: 1,
            threads: 1,
            variables: variables(),
            descriptors: found.descriptors.clone(),
            hash: found.hash,
            block: 0,
        };
        assert_eq!(found, expected);
        assert!(found.pid != std::process::id());
        assert!(hashes.insert(found.hash), "the same hash keys twice");
        // Streams, the exchange, and the folder that is being looked at.
        assert!(found.descriptors.len() <= 5, "{:?}", found.descriptors);
    }
}

fn a_handle_says_that_its_process_was_recycled() {
    let mut recycled = 0;
    for _ in 0..50 {
        let work = spawn(Weight::Fresh, find::call());
        let creation = work.creation().expect("a process of the engine's");
        recycled += usize::from(creation.point() == Some(Point::Warm));
        let id = work.id();
        assert_eq!(Some(work.join().expect("a result").pid), id);
    }
    assert!(recycled >= 45, "{recycled} of 50 were recycled");
}

#[regrow::fresh]
fn add(one: u64, other: u64) -> u64 {
    one + other
}

#[regrow::fresh]
pub(crate) fn echo(bytes: Vec<u8>) -> Vec<u8> {
    bytes
}

fn arguments_and_results_of_all_sizes_arrive() {
    assert_eq!(add(2, 3), run(Weight::Fresh, add::call(2, 3)).expect("a sum"));
    for bytes in [0, 1, 4000, 4096, 70_000, 8 << 20] {
        let sent: Vec<u8> = (0..bytes).map(|byte: usize| u8::try_from(byte % 253).expect("small")).collect();
        for weight in [Weight::Step, Weight::Fiber, Weight::Thread, Weight::Fork, Weight::Fresh] {
            assert!(run(weight, echo::call(sent.clone())).expect("bytes") == sent, "{weight}, {bytes} bytes");
        }
    }
}

/// The engine compares each body with its image, from outside, by other code than the one that has put it back.
fn what_calls_leave_is_put_back_byte_for_byte() {
    let pool = Pool::builder().verify(true).build();
    let verified = Builder::new(Weight::Fresh).pool(&pool);
    assert_eq!(verified.prepare().expect("an image"), Point::Warm);
    for round in 0..20_usize {
        assert_eq!(verified.run(find::call()).expect("a result").calls, 0);
        assert_eq!(verified.run(echo::call(vec![7; round * 9000])).expect("bytes").len(), round * 9000);
        assert!(verified.run(end::call(End::Panic)).is_err());
        assert!(verified.run(end::call(End::Exit(3))).is_err());
        let limited = verified.clone().memory_limit(16 << 20);
        assert!(limited.run(end::call(End::UseMemory(64 << 20))).is_err());
    }
    let (reports, stats) = (pool.reports(), pool.stats());
    assert!(reports.differences.is_empty() && reports.given_up.is_empty(), "{reports:?}");
    assert!(stats.recycled.warm >= 90 && reports.compared >= 80, "{stats:?}, {} compared", reports.compared);
}

/// Says that its result is larger than any memory.
#[regrow::fresh]
fn boast() -> Vec<u8> {
    let files = std::fs::read_dir("/proc/self/fd").expect("a folder").flatten();
    for entry in files {
        let is_exchange = std::fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:regrow-work"));
        if is_exchange {
            let file = std::fs::OpenOptions::new().write(true).open(entry.path()).expect("its file");
            // Whatever stands before: the tag of a result, and a length.
            let lie = [1, 0, 0, 0, 0, 0, 1, 0, 0];
            std::os::unix::fs::FileExt::write_all_at(&file, &lie, 24).expect("written");
            file.set_len(1 << 42).expect("it has holes");
        }
    }
    std::process::exit(0)
}

fn nobody_finds_room_for_a_result_that_is_none() {
    let died = run(Weight::Fresh, boast::call()).expect_err("it is a lie");
    assert!(matches!(&died, Died::Lost(why) if why.contains("too large")), "{died}");
    let died = Builder::new(Weight::Fresh).memory_limit(1 << 20).run(echo_much::call(4 << 20));
    assert!(matches!(died, Err(Died::MemoryLimit { .. } | Died::Lost(_))), "{died:?}");
}

#[regrow::fresh]
fn echo_much(bytes: usize) -> Vec<u8> {
    vec![7; bytes]
}

fn many_at_once_have_each_their_own() {
    let works: Vec<_> =
        (0..24_u64).map(|number| (number, spawn(Weight::Fresh, add::call(number, 1000)))).collect();
    for (number, work) in works {
        assert_eq!(work.join().expect("a sum"), number + 1000);
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for number in 0..50 {
                    assert_eq!(
                        run(Weight::Fresh, add::call(number, thread)).expect("a sum"),
                        number + thread
                    );
                }
            });
        }
    });
}

fn within_a_task_others_run_meanwhile() {
    #[allow(clippy::items_after_statements, reason = "what the test counts")]
    static TURNS: AtomicU64 = AtomicU64::new(0);
    let turns = regrow_fiber::Runtime::with_workers(1)
        .run(|| {
            let other = regrow_fiber::spawn_here(|| {
                loop {
                    TURNS.fetch_add(1, Ordering::Relaxed);
                    regrow_fiber::sleep(Duration::from_millis(1));
                }
            });
            let slow = Builder::new(Weight::Fresh).run(nap::call(500)).expect("an end");
            other.cancel();
            (slow, TURNS.load(Ordering::Relaxed))
        })
        .expect("a runtime");
    assert!(turns.1 > 5, "{turns:?}");
}

#[regrow::fresh]
pub(crate) fn nap(milliseconds: u64) -> u64 {
    std::thread::sleep(Duration::from_millis(milliseconds));
    milliseconds
}

fn what_does_not_fit_is_told() {
    let died = run(Weight::Fresh, || 5).expect_err("a closure has no name in another process");
    assert!(matches!(died, Died::NotStarted { weight: Weight::Fresh, .. }), "{died}");
    assert!(died.to_string().contains("a closure runs as a step"), "{died}");
    let died = run(Weight::Program, add::call(1, 2)).expect_err("no program");
    assert!(died.to_string().contains("a call runs as anything but a program"), "{died}");
    let died = run(Weight::Thread, regrow::Command::new("true")).expect_err("no thread");
    assert!(died.to_string().contains("a command runs as a program"), "{died}");
}

pub(crate) fn tests() -> Tests {
    vec![
        ("fresh_a_function_never_sees_an_earlier_call", a_function_never_sees_an_earlier_call),
        ("fresh_a_handle_says_that_its_process_was_recycled", a_handle_says_that_its_process_was_recycled),
        ("fresh_arguments_and_results_of_all_sizes_arrive", arguments_and_results_of_all_sizes_arrive),
        ("fresh_what_calls_leave_is_put_back_byte_for_byte", what_calls_leave_is_put_back_byte_for_byte),
        ("fresh_nobody_finds_room_for_a_result_that_is_none", nobody_finds_room_for_a_result_that_is_none),
        ("fresh_many_at_once_have_each_their_own", many_at_once_have_each_their_own),
        ("fresh_within_a_task_others_run_meanwhile", within_a_task_others_run_meanwhile),
        ("fresh_what_does_not_fit_is_told", what_does_not_fit_is_told),
    ]
}
