//! What Regrow has and `std::process` has not: descriptors, attributes of a run, pools, waiting in a future.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use regrow::{Command, Creation, Fallback, Pool, PrepareError, Resource, Stdio, UNLIMITED};

/// How long something may take that is going to happen.
const LIMIT: Duration = Duration::from_secs(60);

fn text(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("output is text")
}

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// The numbers of the descriptors of a run. One that the shell has while it lists them is gone when it is read.
fn descriptors(command: &mut Command) -> Vec<String> {
    let script = "for f in /proc/$$/fd/*; do readlink $f >/dev/null && echo ${f##*/}; done; :";
    text(command.args(["-c", script])).lines().map(str::to_owned).collect()
}

#[test]
fn a_run_has_the_descriptors_it_was_given_and_no_others() {
    let leak = File::open("/etc/passwd").expect("a file");
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).expect("open over exec");
    assert_eq!(descriptors(&mut Command::new("sh")), ["0", "1", "2"]);
    let mut command = Command::new("sh");
    command
        .fd(File::open("/dev/null").expect("a device"), 20)
        .fd(File::open("/dev/null").expect("a device"), 4);
    let mut seen = descriptors(&mut command);
    seen.sort_unstable();
    assert_eq!(seen, ["0", "1", "2", "20", "4"]);
    assert_eq!(descriptors(Command::new("sh").stdin(Stdio::closed())), ["1", "2"]);
}

#[test]
fn a_given_descriptor_is_given_to_every_run_of_the_command() {
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let mut command = sh("echo $$ >&9");
    command.fd(writer, 9);
    let mut expected = String::new();
    for _ in 0..2 {
        let mut child = command.spawn().expect("the program starts");
        expected += &format!("{}\n", child.id());
        assert!(child.wait().expect("its status is there").success());
    }
    drop(command);
    let mut seen = String::new();
    reader.read_to_string(&mut seen).expect("text");
    assert_eq!(seen, expected);
}

#[test]
fn a_descriptor_under_three_takes_the_place_of_the_standard_one() {
    let mut command = Command::new("readlink");
    command.arg("/proc/self/fd/0").fd(File::open("/dev/zero").expect("a device"), 0);
    assert_eq!(text(&mut command), "/dev/zero\n");
    let bad = Command::new("true").fd(File::open("/dev/zero").expect("a device"), -1).spawn();
    assert_eq!(bad.expect_err("there is no such number").raw_os_error(), Some(9));
}

#[test]
fn session_mask_limits_and_niceness() {
    assert_eq!(text(sh("umask").umask(0o011)), "0011\n");
    assert_eq!(text(sh("cut -d' ' -f19 /proc/$$/stat").nice(11)), "11\n");
    let own =
        sh("set -- $(cut -d' ' -f5,6 /proc/$$/stat); test $1 = $$ && test $2 = $$").setsid(true).status();
    assert!(own.expect("the program starts").success());
    let mut command = sh("ulimit -c; ulimit -f; ulimit -v");
    command.limit(Resource::Core, 0, 0).limit(Resource::Fsize, UNLIMITED, UNLIMITED);
    command.limit(Resource::As, 1 << 20, UNLIMITED).limit(Resource::As, 1 << 30, 1 << 40);
    assert_eq!(text(&mut command), "0\nunlimited\n1048576\n");
    let bad = Command::new("true").limit(Resource::Nofile, 2, 1).spawn();
    assert_eq!(bad.expect_err("soft over hard").kind(), io::ErrorKind::InvalidInput);
}

/// Exec lays a process out by the limit of its stack.
#[test]
fn runs_with_another_stack_limit_have_an_image_of_it() {
    let pool = Pool::builder().build();
    for (limit, said) in [(4 << 20, "4096"), (64 << 20, "65536")] {
        let mut command = pool.command("sh");
        command.args(["-c", "ulimit -s; grep -c 'stack]' /proc/self/maps"]).limit(
            Resource::Stack,
            limit,
            limit,
        );
        let until = Instant::now() + LIMIT;
        while !matches!(command.complete().expect("the program starts").creation, Creation::Recycled { .. }) {
            assert!(
                Instant::now() < until,
                "no run with a stack of {limit} bytes is recycled: {:?}",
                pool.stats()
            );
        }
        assert_eq!(text(&mut command), format!("{said}\n1\n"));
    }
    assert_eq!(pool.stats().fallbacks.get("unsupported_request"), None);
}

#[test]
fn what_only_exec_can_give_is_named() {
    let pool = Pool::builder().build();
    pool.prepare(&pool.command("true")).expect("it is kept");
    let mut command = pool.command("true");
    let null = || File::open("/dev/null").expect("a device");
    for number in 10..80 {
        command.fd(null(), number);
    }
    let completed = command.complete().expect("the program starts");
    assert!(completed.status.success());
    let why = "exec: only exec can give what is asked for: 73 descriptors, more than 64";
    assert_eq!(completed.creation.to_string(), why);
}

/// A command that tells its slice in nanoseconds, of a pool.
fn slice_teller(pool: &Pool) -> Command {
    let mut command = pool.command("perl");
    let script = "my $attr = \"\\0\" x 48; syscall($ARGV[0], 0, $attr, 48, 0) == 0 or die $!; \
                  print +(unpack 'LLQlLQQQ', $attr)[5], \"\\n\"";
    command.args(["-e", script, &libc::SYS_sched_getattr.to_string()]);
    command
}

/// Whether the kernel has slices that a process can choose.
fn has_slices() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's release");
    let mut numbers = release.split(['.', '-']).map_while(|word| word.trim().parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

#[test]
fn a_slice_is_the_runs_alone() {
    if !has_slices() {
        return;
    }
    for recycle in [true, false] {
        let pool = Pool::builder().recycle(recycle).build();
        if recycle {
            pool.prepare(&slice_teller(&pool)).expect("perl can be kept");
        }
        let told = |command: &mut Command| {
            let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
            assert_eq!(child.creation().is_recycled(), recycle, "{:?}", child.creation());
            let mut text = String::new();
            child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
            assert!(child.wait().expect("its end").success());
            text.trim().parse::<u64>().expect("a number")
        };
        let default = told(&mut slice_teller(&pool));
        assert_ne!(default, 7_000_000);
        assert_eq!(told(slice_teller(&pool).slice(Duration::from_millis(7)).nice(3)), 7_000_000);
        assert_eq!(told(&mut slice_teller(&pool)), default);
        assert_eq!(told(slice_teller(&pool).slice(Duration::ZERO)), 100_000);
        assert_eq!(told(slice_teller(&pool).slice(Duration::from_secs(1))), 100_000_000);
        assert_eq!(told(&mut slice_teller(&pool)), default);
    }
}

/// The process, its group and its session, of a line of `/proc/PID/stat`. One from outside of this PID namespace is 0
/// there, which is no `Pid`: where this is run by another namespace's session, it is that of every process here.
fn places(line: &str) -> [i32; 3] {
    let numbers: Vec<i32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    // The second word is the name, the third the state, the fourth the parent.
    [numbers[0], numbers[2], numbers[3]]
}

fn places_of_run(command: &mut Command) -> [i32; 3] {
    places(&text(command.arg("/proc/self/stat")))
}

/// Waits until a process of the pool waits for its order, and leads a session of its own.
fn await_armed(pool: &Pool) {
    let session =
        |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).map(|line| places(&line)[2]);
    let leads = |pid: i32| session(pid).is_ok_and(|session| session == pid);
    let is_armed = || {
        let keepers = pool.keepers();
        children().iter().any(|pid| leads(*pid) && pool.is_used_by(*pid) && !keepers.contains(pid))
    };
    let began = Instant::now();
    while !is_armed() {
        assert!(began.elapsed() < LIMIT, "no process waits");
        thread::sleep(Duration::from_millis(1));
    }
}

fn children() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("its threads").flatten();
    let texts = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    texts.flat_map(|text| text.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()).collect()
}

#[test]
fn a_pool_of_sessions_has_them_made_before_they_are_asked_for() {
    let pool = Pool::builder().sessions(true).build();
    pool.prepare(&pool.command("cat")).expect("cat can be kept");
    for _ in 0..5 {
        await_armed(&pool);
        let [process, group, session] = places_of_run(&mut pool.command("cat"));
        assert_eq!((group, session), (process, process));
    }
    let stats = pool.stats();
    assert_eq!((stats.recycled.main + stats.forked_body.main, stats.exec), (5, 0), "{stats:?}");
    // One that is to have none cannot be had from there.
    await_armed(&pool);
    let own = std::fs::read_to_string("/proc/self/stat").map(|line| places(&line)[2]).expect("a session");
    assert_eq!(places_of_run(pool.command("cat").setsid(false))[2], own);
    assert_eq!(pool.stats().exec, 1);
    await_armed(&pool);
    let [process, _, session] = places_of_run(pool.command("cat").setsid(true));
    assert_eq!((process, pool.stats().exec), (session, 1));
    assert!(!pool.is_used_by(rustix::process::getpid().as_raw_pid()));
}

/// The niceness of a process's session among others, where the kernel groups by sessions.
fn session_niceness(pid: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/autogroup")).ok()?;
    text.rsplit_once("nice ")?.1.trim().parse().ok()
}

#[test]
fn in_a_pool_of_sessions_runs_come_before_what_puts_back() {
    let pool = Pool::builder().sessions(true).build();
    pool.prepare(&pool.command("cat")).expect("cat can be kept");
    // A run has a session of its own. Whoever runs this may be in none that is a group.
    let read = pool.command("cat").arg("/proc/self/autogroup").output().expect("it starts");
    let groups = read.status.success() && read.stdout.ends_with(b" nice 0\n");
    let gives_way = |keeper: &i32| {
        let line = std::fs::read_to_string(format!("/proc/{keeper}/stat")).unwrap_or_default();
        let niceness = session_niceness(*keeper);
        line.contains(' ') && places(&line)[2] == *keeper && niceness == groups.then_some(5)
    };
    let file = if groups { "/proc/self/autogroup" } else { "/dev/null" };
    let began = Instant::now();
    while !pool.keepers().iter().any(gives_way) {
        assert!(began.elapsed() < LIMIT, "no keeper gives way");
        let text = text(pool.command("cat").arg(file));
        assert!(!groups || text.ends_with(" nice 0\n"), "{text}");
    }
    // Whoever looks for what runs have left in other sessions can ask.
    assert!(pool.keepers().iter().filter(|keeper| gives_way(keeper)).all(|keeper| pool.is_used_by(*keeper)));
    let stats = pool.stats();
    assert!(stats.recycled.main > 0 && stats.exec == 0, "{stats:?}");
}

#[test]
fn a_body_whose_run_is_over_is_waited_for() {
    const RECYCLED: u64 = 50;
    let pool = Pool::builder().max_bodies_per_program(1).sessions(true).build();
    pool.prepare(&pool.command("true")).expect("true can be kept");
    let began = Instant::now();
    // On a busy machine its keeper may have no processor for longer than is waited.
    while pool.stats().recycled.main < RECYCLED {
        assert!(began.elapsed() < LIMIT, "{:?}", pool.stats());
        assert!(pool.command("true").status().expect("it starts").success());
    }
    let stats = pool.stats();
    assert_eq!(stats.exec, stats.fallbacks.get("all_busy").copied().unwrap_or(0), "{stats:?}");
}

#[test]
fn a_start_may_be_busy_polled() {
    let pool = Pool::new();
    pool.prepare(&pool.command("cat")).expect("cat can be kept");
    for polls in [true, false, true] {
        let mut command = pool.command("cat");
        let mut child = command
            .arg("/proc/self/stat")
            .stdout(Stdio::piped())
            .busy_poll(polls)
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        child.stdout.take().expect("a pipe").read_to_string(&mut line).expect("a line");
        assert_eq!(places(&line)[0], child.id().cast_signed());
        assert!(child.wait().expect("its status is there").success());
    }
    let stats = pool.stats();
    assert_eq!((stats.recycled.main + stats.forked_body.main, stats.exec), (3, 0), "{stats:?}");
}

#[test]
fn a_pool_counts_what_it_creates() {
    let pool = Pool::builder().recycle(false).build();
    for _ in 0..3 {
        let mut child = pool.command("true").spawn().expect("the program starts");
        assert_eq!(child.creation(), &Creation::Exec { why: Fallback::RecyclingOff });
        assert!(child.wait().expect("its status is there").success());
    }
    pool.command("/nowhere").spawn().expect_err("there is no such program");
    let stats = pool.clone().stats();
    assert_eq!((stats.exec, stats.total()), (3, 3), "{stats:?}");
    assert_eq!(stats.fallbacks.get("recycling_off"), Some(&3));
    match pool.prepare(&pool.command("true")) {
        Err(PrepareError::NotRecycled { program, why }) => {
            assert_eq!((program.to_str(), why), (Some("true"), Fallback::RecyclingOff));
        }
        other => panic!("recycling is off, yet {other:?}"),
    }
    let nul = pool.prepare(&pool.command("a\0b")).expect_err("no program has such a name");
    assert!(matches!(nul, PrepareError::Program { .. }), "{nul:?}");
}

#[test]
fn a_pool_is_used_from_many_threads() {
    let pool = Pool::new();
    let threads = 4;
    thread::scope(|scope| {
        for number in 0..threads {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..5 {
                    let word = format!("{number}.{round}");
                    let output = pool.command("echo").arg(&word).output().expect("the program starts");
                    assert_eq!(output.stdout, format!("{word}\n").as_bytes());
                }
            });
        }
    });
    assert_eq!(pool.stats().total(), 5 * threads);
}

/// Polls a future on this thread to its end, and says how often.
fn block_on<F: Future>(future: F) -> (F::Output, usize) {
    struct Unpark(Thread, AtomicUsize);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.unpark();
        }
    }
    let unpark = Arc::new(Unpark(thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut future = pin!(future);
    let mut polls = 0;
    loop {
        polls += 1;
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return (output, polls);
        }
        while unpark.1.swap(0, Ordering::SeqCst) == 0 {
            thread::park();
        }
    }
}

#[test]
fn a_future_waits_for_the_end() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("the program starts");
    // Waiting closes the standard input, which ends the program.
    let (status, _) = block_on(child.wait_async());
    assert!(status.expect("its status is there").success());
    let (again, polls) = block_on(child.wait_async());
    assert!(again.expect("it is known").success());
    assert_eq!(polls, 1);
}

#[test]
fn a_future_is_woken_and_does_not_spin() {
    let (reader, writer) = io::pipe().expect("a pipe");
    let mut child = Command::new("cat").stdin(reader).spawn().expect("the program starts");
    let waiting = thread::spawn(move || block_on(child.wait_async()));
    assert!(!waiting.is_finished());
    drop(writer);
    let (status, polls) = waiting.join().expect("the thread does not panic");
    assert!(status.expect("its status is there").success());
    assert!(polls <= 2, "{polls} polls");
}

#[test]
fn a_dropped_future_leaves_the_process_alone() {
    let mut child = Command::new("sleep").arg("600").spawn().expect("the program starts");
    for _ in 0..3 {
        let mut waiting = pin!(child.wait_async());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
    }
    assert!(child.try_wait().expect("it can be asked").is_none());
    child.kill().expect("it runs");
    let (status, _) = block_on(child.wait_async());
    assert!(!status.expect("its status is there").success());
}

#[test]
fn a_future_waits_in_tokio() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let statuses = runtime.block_on(async {
        let (reader, writer) = io::pipe().expect("a pipe");
        let mut waits = Command::new("cat").stdin(reader).spawn().expect("the program starts");
        let waiting = tokio::spawn(async move { waits.wait_async().await });
        let mut first = Command::new("true").spawn().expect("the program starts");
        let first = first.wait_async().await;
        drop(writer);
        [first, waiting.await.expect("the task does not panic")]
    });
    for status in statuses {
        assert!(status.expect("its status is there").success());
    }
}

#[test]
fn the_pidfd_is_the_process() {
    let mut child = Command::new("true").spawn().expect("the program starts");
    let info = std::fs::read_to_string(format!(
        "/proc/self/fdinfo/{}",
        child.pidfd().expect("the child lives").as_raw_fd()
    ));
    let pid = format!("Pid:\t{}", child.id());
    assert!(info.expect("it is open").lines().any(|line| line == pid));
    child.wait().expect("its status is there");
}
