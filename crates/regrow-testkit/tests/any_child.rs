//! A program that has a pool, a handler of `SIGCHLD`, and a thread that waits for any child of the process, as older programs and some
//! libraries do. Runs are children like any other, so that thread takes statuses of theirs, as it would of `std::process`. Each status is
//! seen once and is right, whoever sees it; the pool goes on; and nothing is left.

#![allow(
    unsafe_code,
    reason = "a handler of a signal, and a wait for any child, which no safe interface has"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use regrow::{Child, Pool, Stdio};
use regrow_testkit::left::Left;

/// Runs of each thread that has the pool.
const RUNS: usize = 250;
/// Threads that have it.
const THREADS: usize = 3;
/// Children that are started without it.
const OWN: usize = 300;
/// How long what must come may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Of a hundred runs at least so many are in a body. A program that was just replaced is not.
const LEAST_IN_BODIES_PERCENT: usize = 40;

/// How often the handler was called.
static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_child(_: i32) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

fn handle_signal() {
    // SAFETY: the handler has the signature of a plain one, and changes an atomic alone.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_child as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Takes the status of any child, until there is nothing to take and `ends` says so.
fn take_any(ends: &AtomicBool) -> Ends {
    let mut taken = Vec::new();
    let mut last_round = false;
    loop {
        let mut status = 0;
        // SAFETY: a live word. Whoever else waits for a child of this process does so by its number, and reckons with this.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid > 0 {
            taken.push((pid.cast_unsigned(), status));
            continue;
        }
        if last_round {
            return taken;
        }
        last_round = ends.load(Ordering::SeqCst);
        std::thread::yield_now();
    }
}

/// Processes, and how each has ended or must have.
type Ends = Vec<(u32, i32)>;

/// What the threads have started.
#[derive(Default)]
struct Started {
    /// Without the pool.
    own: Mutex<Ends>,
    /// Runs whose status came to whoever has started them.
    told: Mutex<Ends>,
    /// Runs whose status was taken before.
    lost: Mutex<Ends>,
    in_bodies: AtomicUsize,
}

impl Started {
    fn start_own(&self) {
        for number in 0..OWN {
            let wanted = i32::try_from(number % 200).expect("it fits");
            let mut command = std::process::Command::new("sh");
            #[allow(clippy::zombie_processes, reason = "it is the other thread that waits for it")]
            let child = command.args(["-c", &format!("exit {wanted}")]).spawn().expect("it starts");
            self.own.lock().expect("no thread has panicked").push((child.id(), wanted << 8));
        }
    }

    /// Waits for a run, which ends so.
    fn expect_end(&self, mut child: Child, wanted: i32) {
        let is_in_body = !matches!(child.creation(), regrow::Creation::Exec { .. });
        self.in_bodies.fetch_add(usize::from(is_in_body), Ordering::SeqCst);
        let seen_by = match child.wait() {
            Ok(status) => {
                assert_eq!(status, ExitStatus::from_raw(wanted), "{}", child.creation());
                &self.told
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ECHILD), "{error}, {}", child.creation());
                &self.lost
            }
        };
        seen_by.lock().expect("no thread has panicked").push((child.id(), wanted));
    }

    fn run(&self, pool: &Pool, folder: &Path, thread: usize, number: usize) {
        match number % 5 {
            0 => {
                let wanted = i32::try_from(number % 250).expect("it fits");
                let mut command = pool.command("sh");
                let child = command.args(["-c", &format!("exit {wanted}")]).spawn().expect("it starts");
                self.expect_end(child, wanted << 8);
            }
            1 => {
                let mut child = pool.command("sleep").arg("600").spawn().expect("it starts");
                child.kill().expect("it lives");
                self.expect_end(child, libc::SIGKILL);
            }
            2 => {
                let mut command = pool.command("cat");
                let mut child =
                    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
                let mut to = child.stdin.take().expect("piped");
                to.write_all(&[b'x'; 5000]).expect("it reads");
                drop(to);
                self.expect_end(child, 0);
            }
            3 if number.is_multiple_of(4) => self.replaced(pool, folder, thread),
            _ => self.expect_end(pool.command("true").spawn().expect("it starts"), 0),
        }
    }

    /// A program that is new each time: images are made while somebody waits for any child.
    fn replaced(&self, pool: &Pool, folder: &Path, thread: usize) {
        let program = folder.join(format!("program-{thread}"));
        let new = program.with_extension("new");
        // By a run of the pool's: a child of this process would have the file open for writing.
        let mut command = pool.command("cp");
        let copies = command.args(["-f", "/bin/false"]).arg(&new).spawn().expect("it starts");
        self.expect_end(copies, 0);
        std::fs::rename(&new, &program).expect("it takes the name");
        pool.prepare(&pool.command(&program)).expect("it can be kept");
        for _ in 0..2 {
            let child = pool.command(&program).spawn().expect("it starts");
            self.expect_end(child, 1 << 8);
        }
    }
}

/// Takes these out of all, each as often as it is there. Gives those that are not there.
fn take_out(all: &mut BTreeMap<(u32, i32), usize>, these: &[(u32, i32)]) -> Ends {
    let is_missing = |one: &(u32, i32)| match all.get_mut(one) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    these.iter().copied().filter(is_missing).collect()
}

/// Runs all threads beside one that waits for any child; gives what that one has taken.
fn run_all(started: &Started, pool: &Pool, folder: &Path) -> Ends {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| take_any(&ends));
        let mut threads = vec![scope.spawn(|| started.start_own())];
        for thread in 0..THREADS {
            let runs = move || (0..RUNS).for_each(|number| started.run(pool, folder, thread, number));
            threads.push(scope.spawn(runs));
        }
        let threads: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let all_taken = await_own(started);
        ends.store(true, Ordering::SeqCst);
        let taken = waiter.join().expect("the thread does not panic");
        threads.into_iter().for_each(|ended| ended.expect("the thread does not panic"));
        assert!(all_taken, "a child of its own is not taken");
        taken
    })
}

/// Waits until every child that was started without the pool has been taken.
fn await_own(started: &Started) -> bool {
    let end = Instant::now() + LIMIT;
    let own = started.own.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let own: BTreeSet<String> = own.iter().map(|(pid, _)| pid.to_string()).collect();
    while Left::now().expect("/proc is there").children.iter().any(|child| own.contains(child)) {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// When nobody waits for any child any more, each run's status comes to whoever has started it.
fn runs_are_as_ever(pool: &Pool) {
    let before = pool.stats();
    for _ in 0..20 {
        let mut child = pool.command("true").spawn().expect("it starts");
        assert!(child.wait().expect("nobody else takes it").success());
    }
    let now = pool.stats();
    assert!(now.recycled.total() > before.recycled.total(), "{now:?}");
}

#[test]
fn each_status_is_seen_once_beside_a_wait_for_any_child() {
    handle_signal();
    let before = Left::now().expect("/proc is there");
    let folder = tempfile::tempdir().expect("temporary directory");
    let pool = Pool::new();
    for program in ["sh", "sleep", "cat", "cp", "true"] {
        pool.prepare(&pool.command(program)).expect("it can be kept");
    }
    let started = Started::default();
    let taken = run_all(&started, &pool, folder.path());
    let [own, told, lost] = [started.own, started.told, started.lost]
        .map(|ends| ends.into_inner().expect("no thread has panicked"));
    let stats = pool.stats();
    println!("own {}, told {}, lost {}, taken {}: {stats:?}", own.len(), told.len(), lost.len(), taken.len());

    let mut rest = BTreeMap::new();
    taken.iter().for_each(|one| *rest.entry(*one).or_insert(0) += 1);
    assert_eq!(take_out(&mut rest, &own), [], "each child of its own is seen, with its status");
    assert_eq!(take_out(&mut rest, &lost), [], "each status that its run's owner has not got, another has");
    let twice = take_out(&mut rest.clone(), &told).len();
    assert_eq!(twice, told.len(), "none that the owner has got");
    // What remains are processes of the pool: seeds, keepers, and processes that waited for an order. None ended by itself.
    let ended: Vec<_> = rest.iter().filter(|&(_, &count)| count > 0).map(|(&one, _)| one).collect();
    assert!(ended.iter().all(|&(pid, _)| !pool.is_used_by(pid.cast_signed())), "{ended:?}");

    let in_bodies = started.in_bodies.into_inner();
    let all = usize::try_from(stats.total()).expect("it fits");
    assert_eq!(told.len() + lost.len(), all);
    assert!(all >= RUNS * THREADS && own.len() == OWN, "{stats:?}");
    assert!(in_bodies * 100 >= all * LEAST_IN_BODIES_PERCENT, "{stats:?}");
    assert!(SIGNALS.load(Ordering::SeqCst) > 0, "the handler is called for them");
    runs_are_as_ever(&pool);
    drop(pool);
    assert_eq!(before.beside(LIMIT).expect("/proc is there"), None, "is left of the pool");
}
