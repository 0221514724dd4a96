//! `SIGKILL` of each process rung in each state: the handle says so, and nothing is left.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use regrow::work::{Died, Handle, Receiver, Sender, Weight, shared_channel, spawn};

use crate::Tests;
use crate::ends::{End, PROCESSES, await_gone, end, shell};

/// What a process does when it is killed.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
enum State {
    /// It has perhaps not begun.
    AtItsStart,
    /// It computes.
    Computing,
    /// It sleeps in the kernel.
    Sleeping,
    /// It waits for a value.
    Receiving,
    /// It waits for room.
    Sending,
    /// It sends as quickly as it can: the lock, the ring and the bell are in any state.
    InTheRing,
    /// It has started a process of its own.
    WithAChild,
}

const STATES: [State; 7] = [
    State::AtItsStart,
    State::Computing,
    State::Sleeping,
    State::Receiving,
    State::Sending,
    State::InTheRing,
    State::WithAChild,
];

#[regrow::fresh]
fn work(state: State, ready: Sender<u32>, values: Sender<u64>, none: Receiver<u64>) -> u64 {
    let told = || ready.send(std::process::id()).expect("somebody waits for it");
    match state {
        State::AtItsStart => end(End::Endless),
        State::Computing => {
            told();
            end(End::Endless)
        }
        State::Sleeping => {
            told();
            end(End::Sleep)
        }
        State::Receiving => {
            told();
            none.receive().unwrap_or(0)
        }
        State::Sending | State::InTheRing => {
            told();
            for number in 0.. {
                if values.send(number).is_err() {
                    return number;
                }
            }
            0
        }
        State::WithAChild => {
            #[allow(clippy::zombie_processes, reason = "this process is killed before it could wait")]
            let child = std::process::Command::new("sleep").arg("600").spawn().expect("a process");
            ready.send(child.id()).expect("somebody waits for it");
            end(End::Sleep)
        }
    }
}

fn a_process_that_is_killed_in_any_state_leaves_nothing() {
    let before = descriptors();
    for weight in PROCESSES {
        for state in STATES {
            for _ in 0..if matches!(state, State::InTheRing | State::AtItsStart) { 15 } else { 2 } {
                kill_in(weight, state);
            }
        }
    }
    let until = Instant::now() + Duration::from_secs(60);
    // Those of an earlier test may go meanwhile.
    while !descriptors().is_subset(&before) {
        assert!(Instant::now() < until, "descriptors are left: {:?}", descriptors());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn kill_in(weight: Weight, state: State) {
    let (ready, is_ready) = shared_channel(1).expect("a channel");
    let (values, receiver) = shared_channel(4).expect("a channel");
    let (nothing, none) = shared_channel::<u64>(1).expect("a channel");
    let work: Handle<u64> = spawn(weight, work::call(state, ready, values, none));
    let pid = work.id().expect("a process");
    let mut others = Vec::new();
    if !matches!(state, State::AtItsStart) {
        let told = is_ready.receive_within(Duration::from_secs(60)).expect("it begins");
        others.extend((told != pid).then_some(told));
    }
    let mut last = None;
    if matches!(state, State::InTheRing) {
        for _ in 0..300 {
            last = Some(receiver.receive_within(Duration::from_secs(60)).expect("a value"));
        }
    }
    work.kill().expect("killed");
    // What was sent is there, in order, and then the channel is closed, without anybody who joins.
    for number in receiver.iter() {
        assert_eq!(Some(number), last.map(|last| last + 1).or(Some(0)), "{weight}, {state:?}");
        last = Some(number);
    }
    let died = work.join().expect_err("it was killed");
    assert!(matches!(died, Died::Signal { signal: 9 }), "{weight}, {state:?}: {died}");
    await_gone(pid, false);
    for other in others {
        // What a process has started is its own; here it is ended by the test.
        let other =
            rustix::process::Pid::from_raw(i32::try_from(other).expect("a number")).expect("not zero");
        rustix::process::kill_process(other, rustix::process::Signal::KILL).expect("it lives");
    }
    drop(nothing);
}

fn a_program_that_is_killed_says_so() {
    let work = spawn(Weight::Program, shell("sleep 600"));
    let pid = work.id().expect("a process");
    work.kill().expect("killed");
    assert!(matches!(work.join(), Err(Died::Signal { signal: 9 })));
    await_gone(pid, false);
}

/// The descriptors of this process that are no keeper's.
fn descriptors() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("a folder").flatten();
    let target =
        |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok();
    let of_works = |name: &String| name.contains("regrow-work") || name.contains("regrow-channel");
    entries.filter_map(target).filter(of_works).collect()
}

pub(crate) fn tests() -> Tests {
    vec![
        ("killed_in_any_state_leaves_nothing", a_process_that_is_killed_in_any_state_leaves_nothing),
        ("killed_a_program_says_so", a_program_that_is_killed_says_so),
    ]
}
