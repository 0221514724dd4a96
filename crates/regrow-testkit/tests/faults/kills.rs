//! Keepers, seeds and armed processes that somebody kills; a caller that is killed; what becomes of them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command as StdCommand, Stdio as StdStdio};
use std::time::Duration;

use regrow::{Pool, Stdio};
use regrow_testkit::left::{self, Left};

use crate::scene::{As, END_LIMIT, Scene, eventually, kill, lives, prepare_sh, run_right, scene, with_pool};
use crate::trace;

pub(crate) fn scenes() -> Vec<Scene> {
    vec![
        scene("keepers-killed-while-armed", || with_pool(Pool::new(), while_armed)),
        scene("keepers-killed-while-a-run-goes-on", || with_pool(Pool::new(), while_running)),
        scene("keepers-killed-while-resetting", || with_pool(Pool::new(), while_resetting)),
        scene("keepers-killed-in-verify-mode", || {
            with_pool(Pool::builder().verify(true).build(), while_armed);
        }),
        scene("keepers-stopped", || with_pool(Pool::new(), stopped)),
        scene("stopped-and-continued", || with_pool(Pool::new(), stopped_and_continued)),
        scene("seed-killed", || with_pool(Pool::new(), seed_killed)),
        scene("seed-that-does-not-tell-of-a-body", || with_pool(Pool::new(), seed_does_not_tell)),
        scene("everything-killed-again-and-again", || with_pool(Pool::new(), again_and_again)),
        scene("caller-killed", caller_killed),
        scene("caller-killed-as-nobody", caller_killed).by(As::Nobody),
        scene("hold-a-pool", hold_a_pool),
    ]
}

/// The keepers of the bodies of the one program, and its seed.
fn keepers(pool: &Pool) -> (Vec<i32>, i32) {
    let mut all = pool.keepers();
    let seed = all.pop().expect("an image has a seed");
    (all, seed)
}

fn while_armed(pool: &Pool) {
    prepare_sh(pool);
    for round in 0..5 {
        keepers(pool).0.into_iter().for_each(kill);
        run_right(pool, &format!("round-{round}"));
        run_right(pool, &format!("after-{round}"));
    }
    let kept = pool.stats().total() - pool.stats().exec;
    assert!(kept >= 5, "bodies are made again: {:?}", pool.stats());
}

fn while_running(pool: &Pool) {
    prepare_sh(pool);
    for round in 0..5 {
        let mut command = pool.command("sh");
        command.args(["-c", "read word; printf \"%s.\" \"$word\"; exit 7"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        assert!(child.creation().is_recycled(), "{}", child.creation());
        keepers(pool).0.into_iter().for_each(kill);
        let word = format!("round-{round}");
        let mut stdin = child.stdin.take().expect("a pipe");
        writeln!(stdin, "{word}").expect("the run reads");
        drop(stdin);
        let creation = child.creation().clone();
        crate::scene::assert_right(&child.wait_with_output().expect("its end"), &word, &creation);
        run_right(pool, "after");
    }
}

fn while_resetting(pool: &Pool) {
    prepare_sh(pool);
    for round in 0..100u64 {
        run_right(pool, &format!("round-{round}"));
        std::thread::sleep(Duration::from_micros(round * 5));
        keepers(pool).0.into_iter().for_each(kill);
    }
    run_right(pool, "last");
}

/// A stopped keeper does not answer, and the engine does not wait for it without end.
fn stopped(pool: &Pool) {
    prepare_sh(pool);
    for keeper in keepers(pool).0 {
        let keeper = rustix::process::Pid::from_raw(keeper).expect("a number of a process");
        rustix::process::kill_process(keeper, rustix::process::Signal::STOP).expect("it is ours");
    }
    for round in 0..4 {
        run_right(pool, &format!("round-{round}"));
    }
}

/// As a shell does with a job: everything that waits is stopped, whatever signals it blocks, and goes on.
fn stopped_and_continued(pool: &Pool) {
    use rustix::process::{Pid, Signal, kill_process};
    prepare_sh(pool);
    let before = pool.keepers();
    for round in 0..10 {
        let waiting = || -> Vec<Pid> {
            let children = left::children(std::process::id()).expect("/proc is there");
            children.iter().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
        };
        eventually("a seed, a keeper and a process wait", || waiting().len() >= 3);
        let waiting = waiting();
        for signal in [Signal::STOP, Signal::CONT] {
            // What had ended when it was listed is gone meanwhile.
            for &pid in &waiting {
                let _ = kill_process(pid, signal);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let creation = run_right(pool, &format!("round-{round}"));
        assert!(creation.is_recycled(), "{creation}");
        let now = pool.keepers();
        assert!(
            before.iter().all(|keeper| now.contains(keeper)),
            "they are there still: {before:?}, {now:?}"
        );
        let is_put_back = || pool.idle_keepers().len() == pool.keepers().len();
        eventually("the body is put back", is_put_back);
    }
}

fn seed_killed(pool: &Pool) {
    prepare_sh(pool);
    let (_, seed) = keepers(pool);
    kill(seed);
    run_right(pool, "without-a-seed");
    // Nobody can make further bodies; the present ones go on.
    let mut runs: Vec<_> = (0..6)
        .map(|_| {
            let mut command = pool.command("sh");
            command.args(["-c", "read word; exit 3"]).stdin(Stdio::piped());
            command.spawn().expect("it starts")
        })
        .collect();
    for run in &mut runs {
        drop(run.stdin.take());
        assert_eq!(run.wait().expect("its end").code(), Some(3), "{}", run.creation());
    }
    run_right(pool, "after");
    // Without seed and bodies an image is of no use: another one is made.
    pool.keepers().into_iter().for_each(kill);
    eventually("another image", || run_right(pool, "anew").is_recycled());
    assert_ne!(keepers(pool).1, seed);
}

/// A seed that makes a body and is stopped before it can tell of it: the engine kills it after a while, and the body ends as well.
fn seed_does_not_tell(pool: &Pool) {
    prepare_sh(pool);
    let (_, seed) = keepers(pool);
    let (to_main, from_tracer) = std::sync::mpsc::channel();
    let (end, until_end) = std::sync::mpsc::channel::<()>();
    let tracer = std::thread::spawn(move || {
        let seized = trace::seize(seed);
        to_main.send(seized).expect("it waits");
        let is_made = trace::stop_after(seed, libc::SYS_clone3);
        to_main.send(is_made).expect("it waits");
        // The seed goes on when its tracer is gone.
        let _ = until_end.recv();
    });
    assert!(from_tracer.recv().expect("the tracer is there"), "the seed can be traced");
    let mut runs = Vec::new();
    while from_tracer.try_recv().map_err(|_| ()) != Ok(true) {
        assert!(runs.len() < 20, "the seed is asked for a body: {:?}", pool.stats());
        let mut command = pool.command("sh");
        command.args(["-c", "read word; exit 3"]).stdin(Stdio::piped());
        runs.push(command.spawn().expect("it starts"));
    }
    for run in &mut runs {
        drop(run.stdin.take());
        assert_eq!(run.wait().expect("its end").code(), Some(3), "{}", run.creation());
    }
    assert!(pool.stats().fallbacks.contains_key("no_memory"), "{:?}", pool.stats());
    drop(end);
    tracer.join().expect("it has not panicked");
}

/// Seeds, keepers and armed processes in turn. The process that makes an image shares the memory of its caller: who
/// kills that kills the caller.
fn again_and_again(pool: &Pool) {
    let own = std::fs::read_link("/proc/self/exe").expect("/proc is there");
    for round in 0..60u64 {
        run_right(pool, &format!("round-{round}"));
        let mut children = left::children(std::process::id()).expect("/proc is there");
        children.retain(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe != own));
        let victim = children.get(usize::try_from(round).unwrap_or(0) % children.len().max(1));
        if let Some(pid) = victim.and_then(|pid| pid.parse().ok()) {
            kill(pid);
            // Who is killed while it gets its order is a run that was killed.
            eventually(&format!("the end of {pid}"), || !lives(pid));
        }
    }
}

/// Helper of the next scene: prepares a pool, tells of a run that goes on, and waits to be killed.
fn hold_a_pool() {
    if std::env::var_os("REGROW_HOLD").is_none() {
        return with_pool(Pool::new(), prepare_sh);
    }
    let pool = Pool::new();
    prepare_sh(&pool);
    run_right(&pool, "held");
    let run = pool.command("sh").args(["-c", "exec sleep 600"]).spawn().expect("it starts");
    println!("{} {:?}", run.id(), pool.keepers());
    std::thread::sleep(Duration::from_secs(600));
}

/// When the caller is killed, keepers, seeds and armed processes end by themselves. A run lives on, as it would after
/// exec.
fn caller_killed() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("it can be asked for");
    let before = Left::now().expect("/proc is there");
    let mut command = StdCommand::new(std::env::current_exe().expect("this program"));
    command.env("REGROW_SCENE", "hold-a-pool").env("REGROW_HOLD", "1").stdout(StdStdio::piped());
    let mut holder = command.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(holder.stdout.take().expect("a pipe")).read_line(&mut line).expect("it tells");
    let run: i32 = line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
    let children: Vec<i32> =
        left::children(holder.id()).expect("it lives").iter().filter_map(|pid| pid.parse().ok()).collect();
    // The process after the run, which has executed another program, may not be armed yet.
    assert!(children.len() >= 3, "seed, keeper and run: {children:?}");
    holder.kill().expect("it is ours");
    holder.wait().expect("its end");
    for pid in children.into_iter().filter(|&pid| pid != run) {
        eventually(&format!("the end of {pid} ({line})"), || !lives(pid));
    }
    assert!(lives(run), "the run goes on");
    kill(run);
    while rustix::process::wait(rustix::process::WaitOptions::from_bits_retain(0x4000_0000)).is_ok() {}
    assert_eq!(before.beside(END_LIMIT).expect("/proc is there"), None);
}
