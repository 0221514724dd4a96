//! What is kept between runs is the policy's affair; what a run sees is not.

use std::process::Stdio as StdStdio;
use std::time::{Duration, Instant};

use regrow::{Policy, Pool, Stdio};
use regrow_pool::policy::{Frequency, PoolSettings};

/// A body or a shell has the time to be ready.
const REST: Duration = Duration::from_millis(3);
/// How long something may take that is going to happen.
const LIMIT: Duration = Duration::from_secs(60);

/// Everything of a process that a policy could change by mistake.
const FACTS: &str = "echo \"$0 $* $WORD\"; pwd; umask; ulimit -n; grep -E '^(Sig[PBIC]|Uid|Gid|Groups|CapEff|NoNewPrivs)' \
                     /proc/self/status; ls -l /proc/self/fd | wc -l; cat; exit 3";

fn facts(pool: &Pool) -> (Option<i32>, String) {
    let mut command = pool.command("sh");
    command.args(["-c", FACTS, "name", "one", "two words"]).env("WORD", "hello").current_dir("/usr");
    command.umask(0o027).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().expect("it starts");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
    )
}

/// How many page faults without I/O a program has had when it looks: `cat` reads its own status.
fn page_faults(pool: &Pool) -> (u64, bool) {
    let mut command = pool.command("cat");
    command.arg("/proc/self/stat").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().expect("it starts");
    let recycled = matches!(child.creation(), regrow::Creation::Recycled { .. });
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let (_, fields) = text.rsplit_once(") ").expect("a name");
    (fields.split(' ').nth(7).and_then(|field| field.parse().ok()).expect("a count"), recycled)
}

#[test]
fn the_first_run_in_a_body_finds_its_pages() {
    let (by_exec, _) = page_faults(&Pool::builder().recycle(false).build());
    let pool = Pool::new();
    pool.prepare(pool.command("cat").arg("/proc/self/stat")).expect("cat can be kept");
    let (first, recycled) = page_faults(&pool);
    assert!(recycled);
    assert!(first < by_exec / 2, "{first} page faults in the first run, {by_exec} by exec");
    let times = pool.last_times(LIMIT).expect("it was recycled");
    assert!(times.work.dropped > 0, "it has not needed all of them: {:?}", times.work);
}

/// A pool that keeps what runs often, and runs the rest in shells.
fn with_shells() -> Pool {
    let frequency = Frequency { window: 64, at_least: 32, review_every: u32::MAX };
    let settings =
        PoolSettings { frequency, again: u32::MAX, follows_percent: 101, ..PoolSettings::default() };
    let pool = Pool::builder().policy(Policy::Pool(settings)).build();
    for _ in 0..50 {
        assert!(pool.command("true").status().expect("it starts").success());
        std::thread::sleep(REST);
    }
    pool
}

#[test]
fn a_program_is_the_same_in_a_shell() {
    let (by_exec, pool) = (Pool::builder().recycle(false).build(), with_shells());
    let expected = facts(&by_exec);
    assert_eq!(expected.0, Some(3));
    let before = pool.stats();
    let (began, mut runs) = (Instant::now(), 0);
    // A shell may not be ready yet.
    while pool.stats().in_shell - before.in_shell < 10 {
        assert!(began.elapsed() < LIMIT, "{:?}", pool.stats());
        assert_eq!(facts(&pool), expected);
        std::thread::sleep(REST * 4);
        runs += 1;
    }
    let now = pool.stats();
    assert_eq!(now.exec - before.exec, runs, "sh runs too seldom to be kept: {now:?}");
    println!("kept: 10 of {runs} runs by exec were in a shell");
}

#[test]
fn what_cannot_be_executed_in_a_shell_has_the_error_of_exec() {
    let (pool, folder) = (with_shells(), tempfile::tempdir().expect("a folder"));
    let script = folder.path().join("no-interpreter");
    // Written by another process: what this one has open to be written, a child of another test has open as well for a while.
    let write = "echo '#!/nowhere/at/all' >\"$0\"; chmod 755 \"$0\"";
    let written = std::process::Command::new("sh").args(["-c", write]).arg(&script).status();
    assert!(written.expect("sh is there").success());
    for program in [script.as_path(), std::path::Path::new("/nowhere/at/all"), folder.path()] {
        let error = pool.command(program).spawn().expect_err("it cannot be executed");
        let std_error =
            std::process::Command::new(program).stdin(StdStdio::null()).spawn().expect_err("nor there");
        assert_eq!(error.raw_os_error(), std_error.raw_os_error(), "{}", program.display());
    }
    let long = "x".repeat(200_000);
    let std_error =
        std::process::Command::new("sh").args(["-c", &long]).spawn().expect_err("a string is too long");
    let error = pool.command("sh").args(["-c", &long]).spawn().expect_err("a string is too long");
    assert_eq!(error.raw_os_error(), std_error.raw_os_error());
}

#[test]
fn every_policy_runs_what_it_is_asked_to() {
    for name in ["none", "recycle", "recycle-one", "pool", "adaptive"] {
        let pool = Pool::builder().policy(name.parse().expect("it is a policy")).build();
        let kept = || pool.stats().recycled.total() + pool.stats().forked_body.total();
        let (began, mut round) = (Instant::now(), 0);
        // How soon a body is there depends on the policy and on what else the machine does.
        while round < 60 || (name != "none" && kept() < 40) {
            assert!(began.elapsed() < LIMIT, "{name}: {:?}", pool.stats());
            let word = format!("{name}-{round}");
            let output = pool.command("echo").arg(&word).output().expect("it starts");
            assert_eq!(output.stdout, format!("{word}\n").as_bytes());
            if round % 7 == 0 {
                assert_eq!(
                    pool.command("sh").args(["-c", "exit 7"]).status().expect("it starts").code(),
                    Some(7)
                );
            }
            std::thread::sleep(REST);
            round += 1;
        }
        println!("{name}: {:?}", pool.stats());
        if name == "none" {
            assert_eq!((kept(), pool.idle_keepers().len()), (0, 0));
        }
    }
}

/// Within the new budget in a second, and every run is right.
#[test]
fn a_budget_that_is_lowered_is_kept_to() {
    let pool = Pool::new();
    for program in ["true", "sh", "cat", "ls", "env"] {
        pool.prepare(&pool.command(program)).expect("it can be kept");
    }
    assert!(pool.idle_keepers().len() >= 10, "five images with a body each");
    let mut child = pool
        .command("sh")
        .args(["-c", "read word; exit 5"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    assert!(child.creation().is_recycled(), "{}", child.creation());
    let lowered = Instant::now();
    pool.set_budget(1);
    while !pool.idle_keepers().is_empty() && lowered.elapsed() < LIMIT {
        assert!(pool.command("true").status().expect("it starts").success());
    }
    assert_eq!(pool.idle_keepers(), [], "nothing may be kept");
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("its end").code(), Some(5), "a run that is under way goes on");
    println!("kept: a budget lowered to nothing was kept to after {:?}", lowered.elapsed());
    pool.set_budget(1 << 30);
    assert!(pool.command("true").status().expect("it starts").success());
    pool.prepare(&pool.command("true")).expect("it can be kept again");
}

/// Holds a lease on the file, has another process open it for writing, and says what came of it, and whether the lease was heard of.
const OPEN_UNDER_LEASE: &str = "
import errno, fcntl, os, signal, sys
heard = []
signal.signal(signal.SIGIO, lambda *_: heard.append(1))
lease = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_RDLCK)
child = os.fork()
if child == 0:
    try:
        os.close(os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        os._exit(error.errno)
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(errno.errorcode.get(status, status), 'heard' if heard else 'silent')
";

fn open_under_lease(program: &std::path::Path) -> String {
    let mut command = std::process::Command::new("/usr/bin/python3");
    let output = command.args(["-c", OPEN_UNDER_LEASE]).arg(program).output().expect("Python starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

#[test]
fn a_kept_program_cannot_be_overwritten_and_nobody_hears_of_the_attempt() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let (program, new) = (folder.path().join("program"), folder.path().join("new"));
    // Written by another process: a child of this one, started meanwhile by another test, would have the file open.
    let copy = |from: &str, to: &std::path::Path| {
        let copied = std::process::Command::new("cp").arg(from).arg(to).output().expect("cp starts");
        (copied.status.success(), String::from_utf8_lossy(&copied.stderr).into_owned())
    };
    assert!(copy("/bin/true", &program).0 && copy("/bin/false", &new).0);
    assert_eq!(open_under_lease(&program), "EAGAIN heard", "a lease is heard of where no image is kept");
    let pool = Pool::new();
    pool.prepare(&pool.command(&program)).expect("it can be kept");
    let run = || {
        let completed = pool.command(&program).complete().expect("it starts");
        (completed.status.success(), completed.creation.how().to_owned())
    };
    assert_eq!(run(), (true, "recycled".to_owned()));
    let (copied, error) = copy("/bin/false", &program);
    assert!(!copied && error.contains("Text file busy"), "{error}");
    assert_eq!(open_under_lease(&program), "ETXTBSY silent");
    // A file that takes its name is another program.
    std::fs::rename(&new, &program).expect("it takes the name");
    assert!(!run().0);
    pool.prepare(&pool.command(&program)).expect("it can be kept");
    assert_eq!(run(), (false, "recycled".to_owned()));
    pool.clear();
    // What held it has been killed, and ends in a moment.
    let began = Instant::now();
    while !copy("/bin/true", &program).0 {
        assert!(began.elapsed() < LIMIT, "it is still busy");
    }
    assert!(run().0);
}

#[test]
fn a_program_that_is_run_as_soon_as_it_is_written_has_one_first_run() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let pool = Pool::new();
    for number in 0..20 {
        let program = folder.path().join(number.to_string());
        let copied = std::process::Command::new("cp").arg("/bin/true").arg(&program).status();
        assert!(copied.expect("cp starts").success());
        let began = Instant::now();
        let mut reasons = Vec::new();
        loop {
            let completed = pool.command(&program).complete().expect("it starts");
            assert!(completed.status.success());
            let Some(why) = completed.creation.fallback() else { break };
            reasons.push(why.name());
            assert!(began.elapsed() < LIMIT, "{reasons:?}");
        }
        reasons.retain(|&why| why != "image_in_progress");
        assert_eq!(reasons, ["first_run"], "program {number}");
    }
}
