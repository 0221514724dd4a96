//! A caller that forks, drops things, ignores the end of its children, or is sent signals.

#![allow(unsafe_code, reason = "fork and signal dispositions, which no safe interface has")]

use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use regrow::{Creation, Pool, Stdio};
use regrow_testkit::left::Left;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::scene::{
    END_LIMIT, STATUS, Scene, assert_no_reason_but_busy, assert_right, eventually, prepare_sh, run_right,
    scene, with_pool,
};

/// `__WALL`: children whatever their exit signal.
const WALL: WaitOptions = WaitOptions::from_bits_retain(0x4000_0000);

pub(crate) fn scenes() -> Vec<Scene> {
    vec![
        scene("forked-copy-uses-the-pool", || with_pool(Pool::new(), forked_copy_uses)),
        // The thread that waits for futures stays, so that a descriptor is left.
        scene("forked-copy-asks-the-kernel-nothing", || with_pool(Pool::new(), forked_copy_asks_nothing)),
        scene("forked-copy-awaits", || forked_copy_awaits(&Pool::new())),
        scene("forked-copies-while-threads-spawn", || with_pool(Pool::new(), forked_among_threads)),
        scene("forked-copy-drops-the-pool", || with_pool(Pool::new(), forked_copy_drops)),
        scene("caller-ends-and-its-copy-goes-on", daemonizes),
        scene("pool-dropped-while-a-run-goes-on", || pool_goes(drop)),
        scene("pool-cleared-while-a-run-goes-on", || pool_goes(|pool| pool.clear())),
        scene("children-dropped-without-wait", || with_pool(Pool::new(), dropped_children)),
        scene("child-killed-by-its-caller", || with_pool(Pool::new(), killed_child)),
        scene("sigchld-ignored", || with_pool(Pool::new(), sigchld_ignored)),
        scene("caller-waits-for-any-child", || with_pool(Pool::new(), waits_for_any)),
        scene("caller-is-interrupted-all-the-time", interrupted),
        scene("signals-to-the-group", || with_pool(Pool::new(), signals_to_group)),
    ]
}

/// How long a forked copy may take before the kernel ends it, in seconds.
const COPY_LIMIT_S: u32 = 60;

/// Runs `act` in a forked copy of this process, which must end well.
fn in_fork(act: impl FnOnce()) {
    // SAFETY: the copy has this thread alone. What other threads were about to do, in the middle of a change and with a lock
    // held, is there in memory; the copy touches none of it but the pool, which is what the scenes prove, and the C library's
    // allocator, which is whole after a fork. It ends by `_exit` and never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: sets a timer of this process. A copy that waits for a lock for ever is killed by it.
        unsafe { libc::alarm(COPY_LIMIT_S) };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        // SAFETY: ends the copy.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    let pid = Pid::from_raw(pid).expect("there is memory for a copy");
    let (_, status) =
        rustix::process::waitpid(Some(pid), WaitOptions::empty()).expect("its end").expect("it is over");
    assert_eq!(status.exit_status(), Some(0), "the copy: {status:?}");
}

fn forked_copy_uses(pool: &Pool) {
    prepare_sh(pool);
    run_right(pool, "before");
    in_fork(|| {
        for round in 0..3 {
            let creation = run_right(pool, &format!("in-the-copy-{round}"));
            assert!(
                matches!(&creation, Creation::Exec { why } if why.name() == "caller_changed"),
                "{creation}"
            );
        }
    });
    for round in 0..4 {
        let creation = run_right(pool, &format!("after-{round}"));
        assert!(creation.is_recycled(), "{creation}");
    }
}

/// The pages that children of this process, which have ended, were given. What the kernel has is asked by a child.
fn pages_of_children() -> i64 {
    // SAFETY: a live structure, of which zeros are a value.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage), 0);
        usage.ru_minflt
    }
}

/// A copy keeps nothing, so there is nothing to know of the kernel: its use of the pool makes no process but the runs.
fn forked_copy_asks_nothing(pool: &Pool) {
    prepare_sh(pool);
    run_right(pool, "before");
    assert!(pages_of_children() > 0, "the pool of the original has asked, by a process of its own");
    in_fork(|| {
        assert_eq!(pool.stats().total(), 0);
        pool.clear();
        assert_eq!((pages_of_children(), pool.keepers().len()), (0, 0));
        let creation = run_right(pool, "in-the-copy");
        assert!(!creation.is_recycled() && pool.stats().total() == 1, "{creation}");
        assert!(pages_of_children() > 0, "those of the run are counted");
    });
    assert!(run_right(pool, "after").is_recycled());
}

/// A caller that daemonizes: a copy of it goes on, and has the caller's ends of all sockets. What the caller kept ends with it.
fn daemonizes() {
    let (mut told, tell) = std::io::pipe().expect("a pipe");
    let (stays, ends) = std::io::pipe().expect("a pipe");
    in_fork(|| {
        let pool = Pool::new();
        prepare_sh(&pool);
        run_right(&pool, "in-the-caller");
        let keepers = pool.keepers();
        assert!(!keepers.is_empty());
        let words: Vec<String> = keepers.iter().map(ToString::to_string).collect();
        (&tell).write_all(words.join(" ").as_bytes()).expect("written");
        // SAFETY: as in `in_fork`; the copy makes two system calls.
        if unsafe { libc::fork() } == 0 {
            // SAFETY: waits until the test closes its end, or its time is over; and ends the copy.
            unsafe {
                libc::alarm(COPY_LIMIT_S);
                libc::close(ends.as_raw_fd());
                libc::close(tell.as_raw_fd());
                libc::read(stays.as_raw_fd(), [0_u8; 1].as_mut_ptr().cast(), 1);
                libc::_exit(0);
            }
        }
        // It ends as a daemon's first process does, with nothing dropped.
        std::mem::forget(pool);
    });
    drop(tell);
    let mut text = String::new();
    told.read_to_string(&mut text).expect("numbers");
    let since = Instant::now();
    let lives = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    while let Some(pid) = text.split(' ').find(|&pid| lives(pid)) {
        assert!(since.elapsed() < END_LIMIT, "keeper {pid} outlives its pool");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(ends);
}

/// A waker that unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

/// A copy has none of the threads that wait for the futures of the original: it starts its own, and takes nothing from the
/// original's.
fn forked_copy_awaits(pool: &Pool) {
    prepare_sh(pool);
    let mut command = pool.command("sh");
    let mut child =
        command.args(["-c", "read word; exit 7"]).stdin(Stdio::piped()).spawn().expect("it starts");
    let stdin = child.stdin.take().expect("a pipe");
    let mut end = Box::pin(child.wait_async());
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    assert!(end.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    in_fork(|| {
        let mut own = pool.command("sh").args(["-c", "sleep 0.1; exit 7"]).spawn().expect("it starts");
        assert_eq!(block_on(own.wait_async()).expect("its end").code(), Some(7));
    });
    drop(stdin);
    assert_eq!(block_on(end).expect("its end").code(), Some(7));
}

/// Copies are forked while other threads are in the middle of a spawn, whatever locks they hold: a copy waits for none of them, and
/// nor does a copy of a copy.
fn forked_among_threads(pool: &Pool) {
    const COPIES: usize = 60;
    prepare_sh(pool);
    let is_over = AtomicBool::new(false);
    let began = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let spawner = || {
            while !is_over.load(Relaxed) {
                began.fetch_add(1, Relaxed);
                let status = pool.command("sh").args(["-c", "exit 7"]).status().expect("it starts");
                assert_eq!(status.code(), Some(7));
            }
        };
        let spawners = [scope.spawn(spawner), scope.spawn(spawner)];
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for copy in 0..COPIES {
                let before = began.load(Relaxed);
                in_fork(|| use_in_a_copy(pool, || in_fork(|| use_in_a_copy(pool, || ()))));
                // The next copy is forked in the middle of other spawns.
                while began.load(Relaxed) < before + 2 {
                    assert!(spawners.iter().all(|thread| !thread.is_finished()), "copy {copy}");
                    std::thread::yield_now();
                }
            }
        }));
        is_over.store(true, Relaxed);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
    let ended = Instant::now();
    while !run_right(pool, "after").is_recycled() {
        assert!(ended.elapsed() < END_LIMIT, "{:?}", pool.stats());
    }
}

/// Asks a copy's pool everything that takes a lock, and has it start a run.
fn use_in_a_copy(pool: &Pool, then: impl FnOnce()) {
    assert!(pool.keepers().is_empty() && pool.idle_keepers().is_empty(), "what is kept is the original's");
    assert!(!pool.is_used_by(1));
    let creation = run_right(pool, "in-the-copy");
    assert!(!creation.is_recycled(), "{creation}");
    assert_eq!(pool.stats().total(), 1);
    then();
    pool.set_budget(1 << 20);
    pool.clear();
}

/// A copy that ends in the ordinary way drops its copy of the pool, which must not end what the pool keeps. It lets go of what it has
/// inherited, unless another thread used the pool at the fork: the pool's own does so from time to time.
fn forked_copy_drops(pool: &Pool) {
    prepare_sh(pool);
    // The last is the seed; its bodies the policy may exchange for others.
    let seed = pool.keepers().pop();
    let has_let_go = || {
        let (mut told, tell) = std::io::pipe().expect("a pipe");
        let mut copy = Some(pool.clone());
        in_fork(|| {
            let held = || Left::now().expect("/proc is there").descriptors;
            assert!(held().iter().any(|name| name.contains("regrow")), "{:?}", held());
            pool.clear();
            if held().iter().all(|name| !name.contains("regrow") && !name.contains("pidfd")) {
                (&tell).write_all(b"closed").expect("written");
            }
            drop(copy.take());
        });
        drop(tell);
        let mut text = String::new();
        told.read_to_string(&mut text).expect("a word");
        text == "closed"
    };
    eventually("a copy that has cleared its pool has no descriptor of it", has_let_go);
    assert_eq!(pool.keepers().pop(), seed);
    for round in 0..4 {
        let creation = run_right(pool, &format!("after-{round}"));
        assert!(creation.is_recycled(), "{creation}");
    }
    assert_eq!(pool.keepers().pop(), seed, "it is there still");
    assert!(pool.reports().given_up.is_empty(), "{:?}", pool.reports());
}

/// A timer of the caller's own, whose handler breaks off every system call that waits: no image, no body and no child is lost by it.
fn interrupted() {
    extern "C" fn handle(_: i32) {}
    let every = |us: i64| libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: us },
        it_value: libc::timeval { tv_sec: 0, tv_usec: us },
    };
    // SAFETY: a handler that does nothing, of a signal that nobody else here uses; all other fields may be zero.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &every(300), std::ptr::null_mut());
    }
    let before = Left::now().expect("/proc is there");
    for round in 0..20 {
        let pool = Pool::new();
        prepare_sh(&pool);
        for run in 0..5 {
            let creation = run_right(&pool, &format!("round-{round}-{run}"));
            assert!(!matches!(creation, Creation::Exec { .. }), "{creation}");
        }
        pool.clear();
        let creation = run_right(&pool, "after");
        assert!(
            pool.stats().fallbacks.keys().all(|&why| why == "first_run"),
            "{creation}: {:?}",
            pool.stats()
        );
    }
    // SAFETY: ends the timer.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &every(0), std::ptr::null_mut()) };
    assert_eq!(before.beside(END_LIMIT).expect("/proc is there"), None);
}

fn pool_goes(end: impl FnOnce(Pool)) {
    let before = Left::now().expect("/proc is there");
    let pool = Pool::new();
    prepare_sh(&pool);
    let start = || {
        let mut command = pool.command("sh");
        command.args(["-c", "read word; printf '%s.' \"$word\"; exit 7"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        child.expect("it starts")
    };
    let mut runs = [start(), start(), start()];
    assert!(runs.iter().all(|run| run.creation().is_recycled()));
    end(pool);
    for run in &mut runs {
        assert!(run.try_wait().expect("it can be asked").is_none(), "the run goes on");
    }
    for mut run in runs {
        let creation = run.creation().clone();
        let mut stdin = run.stdin.take().expect("a pipe");
        stdin.write_all(b"alone\n").expect("it reads");
        drop(stdin);
        assert_right(&run.wait_with_output().expect("its end"), "alone", &creation);
    }
    assert_eq!(before.beside(END_LIMIT).expect("/proc is there"), None);
}

fn reap_all() {
    while rustix::process::wait(WALL).is_ok() {}
}

/// Nobody waits for them: they stay in the system's table as they do after exec, and their bodies are used again.
fn dropped_children(pool: &Pool) {
    prepare_sh(pool);
    for round in 0..30 {
        let child = pool.command("sh").args(["-c", "exit 7"]).spawn().expect("it starts");
        drop(child);
        if round % 5 == 4 {
            run_right(pool, &format!("round-{round}"));
        }
    }
    eventually("a recycled run", || run_right(pool, "after").is_recycled());
    assert_no_reason_but_busy(pool);
    pool.clear();
    reap_all();
}

fn killed_child(pool: &Pool) {
    prepare_sh(pool);
    for _ in 0..20 {
        let mut child = pool.command("sh").args(["-c", "while :; do :; done"]).spawn().expect("it starts");
        assert!(child.creation().is_recycled(), "{}", child.creation());
        child.kill().expect("it is ours");
        let status = child.wait().expect("its end");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
        run_right(pool, "after");
    }
}

fn set_disposition(signal: i32, disposition: libc::sighandler_t) {
    // SAFETY: the dispositions that are set are no functions, or one that does nothing.
    unsafe { libc::signal(signal, disposition) };
}

extern "C" fn nothing(_: libc::c_int) {}

/// The kernel takes the status of a child that its parent does not want to hear of. Keepers are such children too.
fn sigchld_ignored(pool: &Pool) {
    prepare_sh(pool);
    set_disposition(libc::SIGCHLD, libc::SIG_IGN);
    pool.refresh();
    for round in 0..10 {
        let mut command = pool.command("sh");
        command.args(["-c", "printf '%s.' \"$1\"; exit 7", "sh", "unheard"]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut text = String::new();
        let mut stdout = child.stdout.take().expect("a pipe");
        std::io::Read::read_to_string(&mut stdout, &mut text).expect("it writes");
        assert_eq!(text, "unheard.", "round {round}");
        match child.wait() {
            Ok(status) => assert_eq!(status.code(), Some(STATUS)),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ECHILD), "{error}"),
        }
    }
    let ignores = ["-c", "grep SigIgn /proc/self/status"];
    let recycled = pool.command("sh").args(ignores).output();
    let recycled = recycled.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if let Ok(recycled) = recycled {
        assert!(recycled.contains("0000000000010000"), "{recycled}");
    }
    set_disposition(libc::SIGCHLD, libc::SIG_DFL);
    pool.refresh();
    run_right(pool, "heard");
}

/// A caller with a reaper of its own takes the status of every child that it can: neither keepers nor runs are lost.
fn waits_for_any(pool: &Pool) {
    prepare_sh(pool);
    for round in 0..10 {
        let word = format!("round-{round}");
        let mut command = pool.command("sh");
        command.args(["-c", "printf '%s.' \"$1\"; exit 7", "sh", &word]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().expect("a pipe"), &mut text)
            .expect("it writes");
        assert_eq!(text, format!("{word}."));
        std::thread::sleep(Duration::from_millis(1));
        while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        match child.wait() {
            Ok(status) => assert_eq!(status.code(), Some(STATUS)),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ECHILD), "{error}"),
        }
    }
    run_right(pool, "after");
}

/// Keys of the terminal reach the whole group. Waiting processes are in it, and the next run must not be hit.
fn signals_to_group(pool: &Pool) {
    let signals =
        [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::TSTP, Signal::WINCH];
    prepare_sh(pool);
    for signal in signals {
        set_disposition(signal.as_raw(), nothing as *const () as libc::sighandler_t);
        pool.refresh();
        for round in 0..3 {
            rustix::process::kill_current_process_group(signal).expect("it is ours");
            let creation = run_right(pool, &format!("{signal:?}-{round}"));
            assert!(creation.is_recycled(), "{signal:?}: {creation}");
        }
        set_disposition(signal.as_raw(), libc::SIG_DFL);
    }
    // Pending signals, mask and dispositions of the next run are those of exec.
    let status = ["-c", "grep -E 'SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt' /proc/self/status"];
    pool.refresh();
    rustix::process::kill_current_process_group(Signal::CONT).expect("it is ours");
    let output = pool.command("sh").args(status).output().expect("it starts");
    let plain =
        Pool::builder().recycle(false).build().command("sh").args(status).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&plain.stdout));
}
