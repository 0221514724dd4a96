//! Runs that start where a front end has stopped itself (`docs/warm.md`). The front ends here are scripts: a language needs nothing
//! but a way to send itself a signal.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow::{Command, Creation, Feature, FeatureSet, Point, PointChoice, Policy, Pool, Strings, Warm};
use regrow_pool::policy::{Frequency, PoolSettings};

const SHELL: &str = "/bin/dash";
const PYTHON: &str = "/usr/bin/python3";
/// A body or a shell has the time to be ready.
const REST: Duration = Duration::from_millis(20);
/// How long something may take that is going to happen.
const LIMIT: Duration = Duration::from_secs(60);
/// What every script in Python begins with.
const IMPORTS: &str = "import mmap, os, signal, sys, threading, time\n";
/// How a script in Python stops itself.
const STOP: &str = "os.kill(os.getpid(), signal.SIGSTOP)\n";

/// A front end: an interpreter with a script.
fn front(script: &str, variables: &[&str]) -> Arc<Warm> {
    let mut args = Strings::new();
    args.push(&[b"-c"]).expect("no NUL");
    args.push(&[script.as_bytes()]).expect("no NUL");
    let variables = variables.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(Warm { args, variables, ..Warm::default() })
}

/// A command that says `plain` where it is not started in the image of its front end.
fn command(pool: &Pool, interpreter: &str, script: &str) -> Command {
    let mut command = pool.command(interpreter);
    let plain = if interpreter == PYTHON { "print('plain')" } else { "echo plain" };
    command.args(["-c", plain]).env_clear().env("NAME", "value").warm(front(script, &["NAME"]));
    command
}

/// A front end in Python that prepares itself, stops, and runs.
fn python(prepare: &str, run: &str) -> String {
    format!("{IMPORTS}{prepare}\n{STOP}{run}\nsys.stdout.flush()\nos._exit(0)\n")
}

fn output(command: &mut Command) -> (Creation, String) {
    let child = command.stdout(regrow::Stdio::piped()).spawn().expect("it starts");
    let creation = child.creation().clone();
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success(), "{creation}: {output:?}");
    (creation, String::from_utf8(output.stdout).expect("UTF-8"))
}

/// A run in the image of a front end.
fn warm_output(command: &mut Command) -> String {
    let (creation, output) = output(command);
    assert_eq!(creation.point(), Some(Point::Warm), "{creation}: {output}");
    output
}

fn prepared(pool: &Pool, interpreter: &str, script: &str) -> Command {
    let command = command(pool, interpreter, script);
    assert_eq!(pool.prepare(&command).expect("an image"), Point::Warm);
    command
}

/// Why there is no image of a front end.
fn refusal(interpreter: &str, script: &str) -> String {
    let pool = Pool::builder().point(PointChoice::Only(Point::Warm)).build();
    let mut command = command(&pool, interpreter, script);
    let error = pool.prepare(&command).expect_err("no image");
    let (creation, output) = output(&mut command);
    assert_eq!((creation.is_recycled(), output.as_str()), (false, "plain\n"), "{creation}");
    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[test]
fn an_order_says_what_is_to_be_run() {
    let script = "prepared=$((6 * 7)); kill -STOP $$; tr '\\0' '\\n' </dev/fd/63; echo prepared $prepared";
    let pool = Pool::new();
    let mut command = prepared(&pool, SHELL, script);
    for _ in 0..20 {
        let expected = "regrow 1 3 1 0\n/bin/dash\n-c\necho plain\nNAME=value\nprepared 42\n";
        assert_eq!(warm_output(&mut command), expected);
    }
}

#[test]
fn an_order_of_the_callers_own_is_passed_on() {
    let pool = Pool::new();
    let mut command = prepared(&pool, SHELL, "kill -STOP $$; cat </dev/fd/63");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("order");
    fs::write(&file, "whatever\n").expect("written");
    command.fd(fs::File::open(&file).expect("opened"), 63);
    assert_eq!(warm_output(&mut command), "whatever\n");
}

#[test]
fn a_run_is_a_process_of_its_own() {
    let run =
        "print(os.getpid(), os.getppid(), os.getcwd(), open('/proc/self/cmdline').read().split('\\0')[1:])";
    let pool = Pool::new();
    let mut command = prepared(&pool, PYTHON, &python("", run));
    command.current_dir("/usr");
    let mut pids = std::collections::HashSet::new();
    for _ in 0..10 {
        let child = command.stdout(regrow::Stdio::piped()).spawn().expect("it starts");
        let pid = child.id();
        let output = child.wait_with_output().expect("its end");
        let expected = format!("{pid} {} /usr ['-c', \"print('plain')\", '']\n", std::process::id());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        assert!(pids.insert(pid), "{pid} again");
    }
}

#[test]
fn handlers_of_a_front_end_are_those_of_its_runs() {
    let prepare = "caught = []\nsignal.signal(signal.SIGUSR1, lambda *_: caught.append(1))";
    let run = "os.kill(os.getpid(), signal.SIGUSR1)\nwhile not caught: pass\nprint('caught', len(caught))";
    let pool = Pool::new();
    let mut command = prepared(&pool, PYTHON, &python(prepare, run));
    for _ in 0..5 {
        assert_eq!(warm_output(&mut command), "caught 1\n");
    }
}

/// A shell is what is left of some body: also of one whose front end has handlers of its own, and ignores what its runs are to ignore.
#[test]
fn what_is_executed_in_a_shell_has_nothing_of_a_front_ends_signals() {
    let script =
        python("for number in (signal.SIGHUP, signal.SIGUSR2): signal.signal(number, signal.SIG_IGN)", "");
    let frequency = Frequency { window: 64, at_least: 32, review_every: u32::MAX };
    let settings =
        PoolSettings { frequency, again: u32::MAX, follows_percent: 101, ..PoolSettings::default() };
    let pool = Pool::builder().policy(Policy::Pool(settings)).point(PointChoice::Only(Point::Warm)).build();
    let mut often = command(&pool, PYTHON, &script);
    for _ in 0..50 {
        output(&mut often);
        std::thread::sleep(REST);
    }
    let by_exec = Pool::builder().recycle(false).build();
    let signals = |pool: &Pool| output(pool.command("grep").args(["^Sig[IC]", "/proc/self/status"])).1;
    let (expected, before) = (signals(&by_exec), pool.stats());
    let began = Instant::now();
    // A shell may not be ready yet.
    while pool.stats().in_shell < before.in_shell + 5 {
        assert!(began.elapsed() < LIMIT, "{:?}", pool.stats());
        assert_eq!(signals(&pool), expected);
        std::thread::sleep(REST);
    }
}

#[test]
fn threads_end_with_an_announced_fork() {
    let thread = "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()";
    let fork = "os.write(63, b'fork\\0')\nif os.fork(): os._exit(0)";
    let pool = Pool::new();
    let run = "print(len(os.listdir('/proc/self/task')))";
    let mut command = prepared(&pool, PYTHON, &python(&format!("{thread}\n{fork}"), run));
    for _ in 0..5 {
        assert_eq!(warm_output(&mut command), "1\n");
    }
    let reason = refusal(PYTHON, &python(thread, run));
    assert!(reason.contains("2 threads at the snapshot point"), "{reason}");
}

#[test]
fn what_no_run_would_have_is_refused() {
    for (script, reason) in [
        ("sleep 9 & kill -STOP $$; kill $!", "is still there when it stops"),
        ("cd /; kill -STOP $$", "changes its directory"),
        ("umask 7; kill -STOP $$", "changes its umask"),
        ("exec 9</dev/null; kill -STOP $$", "descriptors were opened"),
        ("read x <usr; kill -STOP $$", "depends on its directory"),
        ("exit 3", "ended during its preparation"),
        ("printf 'refuse no wish\\0' >>/dev/fd/63; exit 1", "no wish"),
    ] {
        let found = refusal(SHELL, script);
        assert!(found.contains(reason), "{script}: {found}");
    }
}

/// A command with a front end whose calls nobody looks at.
fn unfollowed(pool: &Pool, interpreter: &str, script: &str) -> Command {
    let mut command = command(pool, interpreter, script);
    command.warm(Arc::new(Warm { unfollowed: true, ..(*front(script, &["NAME"])).clone() }));
    command
}

/// Two stops of a script in Python: what comes before them is looked at by nobody.
fn unfollowed_python(prepare: &str, run: &str) -> String {
    python(&format!("{prepare}\n{STOP}"), run)
}

#[test]
fn an_unfollowed_image_is_of_no_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("setting");
    fs::write(&file, "first\n").expect("written");
    let script = format!("read x <{}; kill -STOP $$; kill -STOP $$; echo $x $NAME", file.display());
    let pool = Pool::new();
    let mut command = unfollowed(&pool, SHELL, &script);
    assert_eq!(pool.prepare(&command).expect("an image"), Point::Warm);
    fs::write(&file, "second\n").expect("written");
    std::thread::sleep(Duration::from_millis(30));
    for _ in 0..5 {
        assert_eq!(warm_output(&mut command), "first value\n");
    }
}

#[test]
fn what_no_run_would_have_is_refused_where_nobody_looks_at_the_calls() {
    let shell = |script: &str| (SHELL, format!("{script}; kill -STOP $$; kill -STOP $$"));
    let python = |prepare: &str| (PYTHON, unfollowed_python(prepare, "print('run')"));
    for ((interpreter, script), reason) in [
        (shell("sleep 9 & :"), "is still there when it stops"),
        (shell("cd /"), "changes its directory"),
        (shell("umask 7"), "changes its umask"),
        (shell("ulimit -n 60"), "changes its limits"),
        (shell("exec 9</dev/null"), "descriptors were opened"),
        (python("signal.setitimer(signal.ITIMER_PROF, 1000)"), "has a timer"),
        (python("signal.alarm(1000)"), "has a timer"),
        (python("os.nice(1)"), "changes its niceness"),
        (python("os.setpgid(0, 0)"), "changes its process group"),
        (python("os.sched_setaffinity(0, [0])"), "changes its processors"),
        (python("os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))"), "changes its scheduling"),
        (python("os.execv('/bin/true', ['true'])"), "executes another program"),
    ] {
        let pool = Pool::builder().point(PointChoice::Only(Point::Warm)).build();
        let command = unfollowed(&pool, interpreter, &script);
        let error = pool.prepare(&command).expect_err(reason);
        let found = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        assert!(found.contains(reason), "{script}: {found}");
    }
}

#[test]
fn an_unfollowed_front_end_may_have_threads_and_programs_that_have_ended() {
    let prepare = "os.system('true')\n\
                   done = threading.Thread(target=os.getpid)\ndone.start()\ndone.join()\n\
                   threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()";
    let fork = "os.write(63, b'fork\\0')\nif os.fork(): os._exit(0)";
    let script = python(&format!("{prepare}\n{STOP}{fork}"), "print(len(os.listdir('/proc/self/task')))");
    let pool = Pool::new();
    let mut command = unfollowed(&pool, PYTHON, &script);
    assert_eq!(pool.prepare(&command).expect("an image"), Point::Warm);
    for _ in 0..5 {
        assert_eq!(warm_output(&mut command), "1\n");
    }
}

#[test]
fn a_program_that_has_ended_may_have_been_started() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("setting");
    fs::write(&file, "first").expect("written");
    std::thread::sleep(Duration::from_millis(30));
    let script = format!("x=$(cat {}); kill -STOP $$; echo $x", file.display());
    let pool = Pool::new();
    let mut command = prepared(&pool, SHELL, &script);
    assert_eq!(warm_output(&mut command), "first\n");
    // What such a program has read the image depends on as well.
    fs::write(&file, "second").expect("written");
    assert_ne!(output(&mut command).0.point(), Some(Point::Warm));
}

#[test]
fn an_image_is_of_the_files_that_it_was_made_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, later) = (directory.path().join("setting"), directory.path().join("later"));
    let script = format!(
        "x=none; [ -e {later} ] && x=there; read y <{file}; kill -STOP $$; echo $x $y",
        file = file.display(),
        later = later.display()
    );
    let pool = Pool::new();
    let mut command = command(&pool, SHELL, &script);
    let put = |path: &Path, text: &str| {
        fs::write(path, text).expect("written");
        // What has just been written is not trusted for some milliseconds.
        std::thread::sleep(Duration::from_millis(30));
    };
    put(&file, "first\n");
    for (change, expected) in [
        (None, "none first\n"),
        (Some((&file, "second\n")), "none second\n"),
        (Some((&later, "")), "there second\n"),
    ] {
        if let Some((path, text)) = change {
            put(path, text);
            let (creation, _) = output(&mut command);
            assert_ne!(creation.point(), Some(Point::Warm), "{}: {creation}", path.display());
        }
        assert_eq!(pool.prepare(&command).expect("an image"), Point::Warm);
        assert_eq!(warm_output(&mut command), expected);
    }
}

#[test]
fn an_image_is_not_of_the_files_that_its_front_end_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("log");
    let script = format!(
        "[ -e {log} ]; echo begun >{log}; kill -STOP $$; read x <{log}; echo $x",
        log = file.display()
    );
    let pool = Pool::new();
    let mut command = prepared(&pool, SHELL, &script);
    for word in ["begun", "later"] {
        assert_eq!(warm_output(&mut command), format!("{word}\n"));
        fs::write(&file, "later\n").expect("written");
    }
}

#[test]
fn an_image_is_of_the_variables_that_were_read() {
    // Of variables that are not reported the front end is given none.
    let script = "printf 'env READ\\0' >>/dev/fd/63; seen=\"$READ/$OTHER/$NAME\"; kill -STOP $$; echo $seen";
    let pool = Pool::builder().point(PointChoice::Only(Point::Warm)).build();
    let mut command = command(&pool, SHELL, script);
    command.env("OTHER", "x");
    for (value, expected) in [("1", "1//value\n"), ("2", "2//value\n"), ("1", "1//value\n")] {
        command.env("READ", value);
        assert_eq!(pool.prepare(&command).expect("an image"), Point::Warm);
        assert_eq!(warm_output(&mut command), expected);
    }
    command.env("OTHER", "y");
    assert_eq!(warm_output(&mut command), "1//value\n");
}

/// Prepares 32 MiB, of which a run changes some, drops some and unmaps some, having looked whether all is as it was prepared.
const LARGE: &str = "
size = 32 << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = b'x' * size
other = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
other[:] = b'y' * len(other)
";
const CHANGE: &str = "
assert memory.find(b'z') == -1 and memory.find(b'\\0') == -1 and memory[:1] == b'x'
assert other[:] == b'y' * len(other)
for page in range(100):
    memory[page * 81920] = ord('z')
memory.madvise(mmap.MADV_DONTNEED, 8 << 20, 1 << 20)
other.close()
extra = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
extra[:] = b'w' * len(extra)
print('right')
";

#[test]
fn a_large_image_is_put_back_page_for_page() {
    let untracked = FeatureSet::from_iter([Feature::UffdWpAsync]);
    let unscanned = FeatureSet::from_iter([Feature::PagemapScan]);
    let plain = FeatureSet::default();
    for (disabled, trusts) in
        [(plain, false), (plain, true), (untracked, false), (untracked, true), (unscanned, false)]
    {
        let pool = Pool::builder().verify(true).trusts_runs(trusts).disable(disabled).build();
        let mut command = prepared(&pool, PYTHON, &python(LARGE, CHANGE));
        for _ in 0..4 {
            assert_eq!(warm_output(&mut command), "right\n");
        }
        let reports = pool.reports();
        assert!(reports.differences.is_empty() && reports.given_up.is_empty(), "{reports:?}");
        assert!(reports.compared >= 4, "{reports:?}");
    }
}

#[test]
fn a_reset_looks_at_what_a_run_has_written_alone() {
    let untracked = FeatureSet::from_iter([Feature::UffdWpAsync]);
    let write = "for page in range(100): memory[page * 81920] = 122\nprint('right')";
    let compared = |disabled: FeatureSet, trusts: bool| {
        // One body: of several the last run's may be one too many, and gone.
        let builder = Pool::builder().timed(true).trusts_runs(trusts);
        let pool = builder.disable(disabled).max_bodies_per_program(1).build();
        let mut command = prepared(&pool, PYTHON, &python(LARGE, write));
        let mut compared = 0;
        for _ in 0..3 {
            assert_eq!(warm_output(&mut command), "right\n");
            compared = pool.last_times(LIMIT).expect("it was recycled").work.compared;
        }
        compared
    };
    let all = compared(untracked, false);
    for trusts in [false, true] {
        let tracked = compared(FeatureSet::default(), trusts);
        assert!((100..1000).contains(&tracked), "{tracked} pages were compared");
    }
    assert!(all > 8192, "{all} pages were compared");
}

#[test]
fn what_a_trusted_run_has_dropped_is_not_looked_at_page_by_page() {
    let prepare =
        format!("{LARGE}\nspare = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n");
    let drop = "assert spare[:4096] == bytes(4096)\nspare.madvise(mmap.MADV_DONTNEED)\nprint('right')";
    let pool = Pool::builder().trusts_runs(true).timed(true).max_bodies_per_program(1).build();
    let mut command = prepared(&pool, PYTHON, &python(&prepare, drop));
    for _ in 0..4 {
        assert_eq!(warm_output(&mut command), "right\n");
        let work = pool.last_times(LIMIT).expect("it was recycled").work;
        assert!(work.compared + work.zeroed + work.dropped < 2000, "{work:?}");
    }
}

#[test]
fn a_guard_page_costs_a_trusted_run_its_body_and_no_more() {
    const INSTALL: u32 = 102;
    let change = format!(
        "
assert memory[:4096] == b'x' * 4096
try: memory.madvise({INSTALL}, 0, 4096)
except OSError: pass
print('right')"
    );
    let pool = Pool::builder().trusts_runs(true).build();
    let mut command = prepared(&pool, PYTHON, &python(LARGE, &change));
    for _ in 0..4 {
        assert_eq!(warm_output(&mut command), "right\n");
    }
}

#[test]
fn pages_that_were_written_once_are_looked_at_in_every_reset() {
    // The first run writes many pages, the later ones few.
    let directory = tempfile::tempdir().expect("a directory");
    let mark = directory.path().join("mark");
    let write = format!(
        "
assert memory.find(b'z') == -1
pages = 10 if os.path.exists('{mark}') else 5000
open('{mark}', 'w').close()
for page in range(pages):
    memory[page * 4096] = ord('z')
print('right')",
        mark = mark.display()
    );
    let pool = Pool::builder().verify(true).timed(true).max_bodies_per_program(1).build();
    let mut command = prepared(&pool, PYTHON, &python(LARGE, &write));
    let mut compared = Vec::new();
    for _ in 0..4 {
        assert_eq!(warm_output(&mut command), "right\n");
        let times = pool.last_times(LIMIT).expect("it was recycled");
        compared.push(times.work.compared);
    }
    assert!(compared.iter().all(|pages| (5000..5500).contains(pages)), "{compared:?}");
    let reports = pool.reports();
    assert!(reports.differences.is_empty() && reports.given_up.is_empty(), "{reports:?}");
}

/// Of a trusted run too, until some resets later they are protected again. A run that writes them once more leaves nothing either.
#[test]
fn pages_that_trusted_runs_write_no_more_are_not_looked_at_for_ever() {
    let directory = tempfile::tempdir().expect("a directory");
    let mark = directory.path().join("mark");
    let write = format!(
        "
assert memory.find(b'z') == -1
for page in range(10 if os.path.exists('{mark}') else 5000):
    memory[page * 4096] = ord('z')
print('right')",
        mark = mark.display()
    );
    let pool = Pool::builder().trusts_runs(true).timed(true).max_bodies_per_program(1).build();
    let mut command = prepared(&pool, PYTHON, &python(LARGE, &write));
    let mut compared = |runs: u32| {
        let mut last = 0;
        for _ in 0..runs {
            assert_eq!(warm_output(&mut command), "right\n");
            // The next run finds the body put back.
            last = pool.last_times(LIMIT).expect("it was recycled").work.compared;
        }
        last
    };
    for _ in 0..2 {
        assert!((5000..6000).contains(&compared(1)), "they were written");
        fs::write(&mark, "").expect("a file");
        assert!((5000..6000).contains(&compared(1)), "they are looked at");
        let later = compared(70);
        assert!((10..1000).contains(&later), "{later} pages are looked at");
        fs::remove_file(&mark).expect("a file");
    }
}

/// The image memfds that the seeds and bodies of a pool have mapped: the inode of each, and the bytes that it holds.
fn stores_of(pool: &Pool) -> Vec<(u64, u64)> {
    let inode_of = |pid: i32| {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        // A shell has none.
        let line = maps.lines().find(|line| line.contains("memfd:regrow-image"))?;
        line.split_whitespace().nth(4)?.parse().ok()
    };
    let bytes_of = |inode: u64| {
        // Whoever keeps the image has it open.
        let own = fs::read_dir("/proc/self/fd").expect("a folder").flatten();
        let mut files = own.filter_map(|entry| fs::metadata(entry.path()).ok());
        files.find(|file| file.ino() == inode).map_or(0, |file| file.blocks() * 512)
    };
    let inodes = pool.keepers().into_iter().filter_map(inode_of);
    inodes.map(|inode| (inode, bytes_of(inode))).collect()
}

/// A front end with a large image, whose runs write and drop the pages that the file `mark` says, after a look at all pages.
fn writes_what_it_is_told(mark: &Path) -> String {
    let run = format!(
        "
assert zlib.crc32(memory) == right, 'another run has written'
first, last, dropped = map(int, open('{mark}').read().split())
for page in range(first, last): memory[page * 4096 + page % 4096] = ord('z')
if dropped: memory.madvise(mmap.MADV_DONTNEED, last * 4096, dropped * 4096)
print('right')",
        mark = mark.display()
    );
    let prepare = "
import zlib
memory = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = b'x' * len(memory)
right = zlib.crc32(memory)";
    python(prepare, &run)
}

/// Has an image give its pages back: calls it until all its bodies have a smaller store.
fn have_pages_given_back(pool: &Pool, command: &mut Command) {
    let (inode, bytes) = stores_of(pool)[0];
    assert!(bytes > 8 << 20, "{bytes}");
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < LIMIT, "the image keeps its pages");
        assert_eq!(warm_output(command), "right\n");
        let _put_back = pool.last_times(LIMIT);
        let stores = stores_of(pool);
        if stores.len() > 1 && stores.iter().all(|store| store.0 != inode) {
            assert!(stores.iter().all(|store| (1..4 << 20).contains(&store.1)), "{stores:?}");
            return;
        }
    }
}

#[test]
fn pages_that_were_given_back_and_are_written_are_put_back() {
    for (verify, trusts) in [(false, true), (false, false), (true, true), (true, false)] {
        let directory = tempfile::tempdir().expect("a directory");
        let mark = directory.path().join("mark");
        let tell = |what: &str| fs::write(&mark, what).expect("a file");
        tell("0 10 0");
        let pool =
            Pool::builder().verify(verify).trusts_runs(trusts).timed(true).max_bodies_per_program(1).build();
        let mut command = prepared(&pool, PYTHON, &writes_what_it_is_told(&mark));
        have_pages_given_back(&pool, &mut command);
        for (what, pages) in [("300 1000 0", 700), ("0 10 0", 10), ("1000 1200 400", 200), ("2000 2001 0", 1)]
        {
            tell(what);
            assert_eq!(warm_output(&mut command), "right\n");
            let work = pool.last_times(LIMIT).expect("it was recycled").work;
            assert!(work.copied >= pages, "{what}: {work:?}");
        }
        assert_eq!(warm_output(&mut command), "right\n");
        let reports = pool.reports();
        assert!(reports.differences.is_empty() && reports.given_up.is_empty(), "{reports:?}");
        assert!(!verify || reports.compared > 32, "{reports:?}");
    }
}

#[test]
fn a_body_whose_pages_went_with_the_seed_is_given_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let mark = directory.path().join("mark");
    fs::write(&mark, "0 10 0").expect("a file");
    let pool = Pool::builder().trusts_runs(true).max_bodies_per_program(1).build();
    let mut command = prepared(&pool, PYTHON, &writes_what_it_is_told(&mark));
    have_pages_given_back(&pool, &mut command);
    let seed = *pool.keepers().last().expect("seeds come last");
    let pid = rustix::process::Pid::from_raw(seed).expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives");
    let mut warm_runs = 0;
    // What is in the store needs no seed.
    for _ in 0..3 {
        assert_eq!(warm_output(&mut command), "right\n");
    }
    assert!(pool.reports().given_up.is_empty());
    fs::write(&mark, "500 501 0").expect("a file");
    let began = Instant::now();
    // A run costs its body; the last one's makes way for another image, and exec is the way meanwhile.
    while Path::new(&format!("/proc/{seed}")).exists() || warm_runs < 3 {
        assert!(began.elapsed() < LIMIT, "the image is not made anew");
        let (creation, output) = output(&mut command);
        let is_warm = creation.point() == Some(Point::Warm);
        assert_eq!(output, if is_warm { "right\n" } else { "plain\n" });
        warm_runs = if is_warm { warm_runs + 1 } else { 0 };
    }
    let reports = pool.reports();
    assert!(reports.given_up.keys().eq(&["seed"]) && reports.given_up["seed"] < 4, "{reports:?}");
}

#[test]
fn the_front_end_of_the_documentation_works() {
    const PAGE: &str = include_str!("../../../docs/warm.md");
    let script =
        PAGE.split("```bash\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let pool = Pool::new();
    let mut command = pool.command("/bin/bash");
    command.args(["-c", "echo plain", "word", "two words"]).env("NAME", "somebody").warm(front(script, &[]));
    assert_eq!(pool.prepare(&command).expect("an image"), Point::Warm);
    let shells = fs::read_to_string("/etc/shells").expect("a file").lines().count();
    for name in ["somebody", "somebody else"] {
        let expected = format!("{shells} shells for {name}: -c echo plain word two words\n");
        assert_eq!(warm_output(command.env("NAME", name)), expected);
    }
}
