//! How works end: with a result, by a panic, a signal, an exit, a limit, a deadline, a cancellation.

#![allow(unsafe_code, reason = "a work is to crash")]

use std::time::{Duration, Instant};

use regrow::Command;
use regrow::work::{Builder, Died, Weight, run, spawn};
use regrow_fiber::steps;

use crate::Tests;

/// A way to end without a result.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) enum End {
    Panic,
    Abort,
    WildAddress,
    Exit(i32),
    UseMemory(usize),
    Stack,
    Endless,
    Sleep,
}

/// Ends so.
#[regrow::fresh]
pub(crate) fn end(how: End) -> u64 {
    match how {
        End::Panic => panic!("as it was asked for: {}", 5),
        End::Abort => std::process::abort(),
        End::WildAddress => wild(),
        End::Exit(code) => std::process::exit(code),
        End::UseMemory(bytes) => {
            let block = vec![1_u8; bytes];
            block.iter().map(|&byte| u64::from(byte)).sum()
        }
        End::Stack => deep(1),
        End::Endless => loop {
            std::hint::spin_loop();
        },
        End::Sleep => loop {
            std::thread::sleep(Duration::from_secs(60));
        },
    }
}

fn wild() -> u64 {
    // SAFETY: none: nothing is mapped there, and the process is to crash.
    unsafe { std::ptr::with_exposed_provenance::<u64>(8).read_volatile() }
}

#[allow(unconditional_recursion, reason = "it is to use its stack up")]
fn deep(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    deep(depth + 1) + frame[5]
}

/// The rungs that have a process for a function of this program.
pub(crate) const PROCESSES: [Weight; 2] = [Weight::Fork, Weight::Fresh];

fn each_weight_gives_its_result() {
    for weight in [Weight::Step, Weight::Fiber, Weight::Thread, Weight::Fork] {
        let text = String::from("captured");
        let work = spawn(weight, move || (text.len(), text));
        assert_eq!((work.weight(), work.id().is_some()), (weight, weight >= Weight::Fork));
        assert_eq!(work.join().expect("a result"), (8, "captured".to_owned()));
    }
    let output = run(Weight::Program, {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        command
    });
    let output = output.expect("its output");
    assert_eq!(
        (output.stdout, output.stderr, output.status.code()),
        (b"out\n".to_vec(), b"err\n".to_vec(), Some(3))
    );
}

fn within_a_runtime_too() {
    let sum = regrow_fiber::Runtime::new().run(|| {
        let works: Vec<_> = [Weight::Step, Weight::Fiber, Weight::Thread, Weight::Fork, Weight::Fresh]
            .into_iter()
            .map(|weight| spawn(weight, crate::fresh::nap::call(3)))
            .collect();
        works.into_iter().map(|work| work.join().expect("a result")).sum::<u64>()
    });
    assert_eq!(sum.expect("a runtime"), 15);
}

steps! {
    /// Counts down.
    struct Countdown { left: u32 } -> u32 {
        Down(this) => { if this.left == 0 { Done(7) } else { this.left -= 1; Next(Down) } }
    }
}

fn a_state_machine_is_a_work_of_each_weight() {
    for weight in [Weight::Step, Weight::Fiber, Weight::Thread, Weight::Fork] {
        assert_eq!(run(weight, regrow::work::Steps(Countdown::new(100))).expect("a result"), 7);
    }
}

fn a_panic_has_its_words() {
    for weight in [Weight::Step, Weight::Fiber, Weight::Thread, Weight::Fork, Weight::Fresh] {
        let died = run(weight, end::call(End::Panic)).expect_err("it has panicked");
        assert!(
            matches!(&died, Died::Panicked { message } if message == "as it was asked for: 5"),
            "{weight}: {died}"
        );
    }
}

fn a_crash_is_the_processs_own() {
    for weight in PROCESSES {
        for (how, signals) in [(End::Abort, &[6][..]), (End::WildAddress, &[11]), (End::Stack, &[6, 11])] {
            let died = run(weight, end::call(how)).expect_err("it has crashed");
            assert!(
                matches!(died, Died::Signal { signal } if signals.contains(&signal)),
                "{weight}, {how:?}: {died}"
            );
        }
        let died = run(weight, end::call(End::Exit(9))).expect_err("it has no result");
        assert!(matches!(died, Died::Exited { code: 9 }), "{weight}: {died}");
    }
    let died = run(Weight::Program, shell("kill -SEGV $$")).expect_err("it has crashed");
    assert!(matches!(died, Died::Signal { signal: 11 }), "{died}");
}

/// A shell that does this.
pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn who_needs_too_much_memory_is_told_of() {
    const LIMIT: u64 = 32 << 20;
    for weight in PROCESSES {
        let limited = Builder::new(weight).memory_limit(LIMIT);
        let died = limited.run(end::call(End::UseMemory(64 << 20))).expect_err("too much");
        assert!(matches!(died, Died::MemoryLimit { bytes: LIMIT }), "{weight}: {died}");
        assert_eq!(limited.run(end::call(End::UseMemory(8 << 20))).expect("enough"), 8 << 20);
        // An abort for another reason is no want of memory.
        let died = limited.run(end::call(End::Abort)).expect_err("it has crashed");
        assert!(matches!(died, Died::Signal { signal: 6 }), "{weight}: {died}");
    }
}

fn a_deadline_ends_what_can_be_ended() {
    let limit = Duration::from_millis(80);
    for how in [End::Endless, End::Sleep] {
        for weight in PROCESSES {
            let timed = Builder::new(weight).deadline(limit);
            for died in [
                timed.run(end::call(how)).expect_err("late"),
                timed.spawn(end::call(how)).join().expect_err("late"),
            ] {
                assert!(matches!(died, Died::TimedOut(time) if time == limit), "{weight}, {how:?}: {died}");
            }
        }
    }
    let waits =
        Builder::new(Weight::Fiber).deadline(limit).spawn(|| regrow_fiber::sleep(Duration::from_secs(600)));
    assert!(matches!(waits.join(), Err(Died::TimedOut(_))));
    let died = Builder::new(Weight::Program).deadline(limit).run(shell("sleep 600")).expect_err("late");
    assert!(matches!(died, Died::TimedOut(_)), "{died}");
    // What is done in time is done.
    for weight in PROCESSES {
        let timed = Builder::new(weight).deadline(Duration::from_secs(600));
        assert_eq!(timed.run(crate::fresh::nap::call(1)).expect("in time"), 1);
        assert_eq!(timed.spawn(crate::fresh::nap::call(1)).join().expect("in time"), 1);
    }
}

fn a_deadline_needs_nobody_who_waits() {
    for weight in PROCESSES {
        let work = Builder::new(weight).deadline(Duration::from_millis(50)).spawn(end::call(End::Endless));
        let pid = work.id().expect("a process");
        await_gone(pid, true);
        assert!(matches!(work.join(), Err(Died::TimedOut(_))));
    }
}

fn a_handle_comes_back_when_the_time_is_over() {
    const NAP_MS: u64 = 1500;
    let start = |weight| spawn(weight, crate::fresh::nap::call(NAP_MS));
    let works = [Weight::Fiber, Weight::Thread, Weight::Fork, Weight::Fresh].map(start);
    let works = works.map(|work| work.join_within(Duration::from_millis(5)).expect_err("it goes on"));
    let works = works.map(|work| work.join_within(Duration::from_millis(5)).expect_err("it goes on"));
    for work in works {
        assert_eq!(work.join_within(Duration::from_secs(600)).expect("an end").expect("a result"), NAP_MS);
    }
}

fn what_is_cancelled_says_so() {
    for weight in PROCESSES {
        let work = spawn(weight, end::call(End::Endless));
        work.cancel();
        assert!(matches!(work.join(), Err(Died::Cancelled)));
    }
    let work = spawn(Weight::Program, shell("sleep 600"));
    work.cancel();
    assert!(matches!(work.join(), Err(Died::Cancelled)));
    let work = spawn(Weight::Fiber, || regrow_fiber::sleep(Duration::from_secs(600)));
    work.cancel();
    assert!(matches!(work.join(), Err(Died::Cancelled)));
    let work = spawn(Weight::Thread, || {
        while !regrow::work::is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        "has seen it".to_owned()
    });
    assert!(work.kill().is_err());
    work.cancel();
    assert_eq!(work.join().expect("it ends itself"), "has seen it");
}

fn nothing_is_left_of_what_nobody_waits_for() {
    let mut pids = Vec::new();
    for weight in PROCESSES {
        for time in [0, 30] {
            pids.extend(spawn(weight, crate::fresh::nap::call(time)).id());
        }
        let work = spawn(weight, end::call(End::Abort));
        pids.extend(work.id());
    }
    assert_eq!(pids.len(), 6);
    for pid in pids {
        await_gone(pid, false);
    }
}

/// Waits until there is no process of this number, or one that has ended and waits to be waited for.
pub(crate) fn await_gone(pid: u32, or_ended: bool) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Err(_) => return,
            Ok(line) if or_ended && line.contains(") Z ") => return,
            // The number may be another one's by now, which is no child of this process.
            Ok(line) if !line.contains(&format!(" {} ", std::process::id())) => return,
            Ok(line) => assert!(Instant::now() < until, "{line}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn tests() -> Tests {
    vec![
        ("ends_each_weight_gives_its_result", each_weight_gives_its_result),
        ("ends_within_a_runtime_too", within_a_runtime_too),
        ("ends_a_state_machine_is_a_work_of_each_weight", a_state_machine_is_a_work_of_each_weight),
        ("ends_a_panic_has_its_words", a_panic_has_its_words),
        ("ends_a_crash_is_the_processs_own", a_crash_is_the_processs_own),
        ("ends_who_needs_too_much_memory_is_told_of", who_needs_too_much_memory_is_told_of),
        ("ends_a_deadline_ends_what_can_be_ended", a_deadline_ends_what_can_be_ended),
        ("ends_a_deadline_needs_nobody_who_waits", a_deadline_needs_nobody_who_waits),
        ("ends_a_handle_comes_back_when_the_time_is_over", a_handle_comes_back_when_the_time_is_over),
        ("ends_what_is_cancelled_says_so", what_is_cancelled_says_so),
        ("ends_nothing_is_left_of_what_nobody_waits_for", nothing_is_left_of_what_nobody_waits_for),
    ]
}
