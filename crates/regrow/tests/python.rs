//! Python out of warm images, on its own tests: what the standard library, numpy and pandas find of the interpreter that they run in is
//! what they find outside.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as StdCommand;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use regrow::{Command, Point, Pool, Stdio};

const PYTHON: &str = "/usr/bin/python3";
/// Runs tests and writes their outcomes.
const OUTCOMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/outcomes.py");

/// Modules of CPython's own tests, or classes of those that take long: processes, signals, threads, files, randomness, encryption.
const CPYTHON: &[&str] = &[
    "test_argparse",
    "test_atexit",
    "test_bisect",
    "test_builtin",
    "test_cmd_line_script",
    "test_contextlib",
    "test_decimal.PyUsabilityTest test_decimal.CUsabilityTest test_decimal.CContextAPItests",
    "test_fcntl",
    "test_fork1",
    "test_gc",
    "test_hashlib",
    "test_heapq",
    "test_io.CIOTest test_io.PyIOTest test_io.CTextIOWrapperTest test_io.CBufferedReaderTest",
    "test_itertools",
    "test_json",
    "test_mmap",
    "test_multiprocessing_main_handling.ForkCmdLineTest",
    "test_os",
    "test_pty",
    "test_random",
    "test_re",
    "test_runpy",
    "test_secrets",
    "test_select",
    "test_signal.PosixTests test_signal.WakeupFDTests test_signal.PendingSignalsTests test_signal.RaiseSignalTest",
    "test_ssl.BasicSocketTests test_ssl.ContextTests test_ssl.SSLErrorTests test_ssl.MemoryBIOTests",
    "test_struct",
    "test_subprocess.RunFuncTestCase test_subprocess.POSIXProcessTestCase",
    "test_sys",
    "test_tempfile",
    "test_thread",
    "test_threading.ThreadTests test_threading.ThreadJoinOnShutdown test_threading.EventTests",
    "test_uuid",
];

/// Prints the arguments that the kernel shows.
const ARGUMENTS: &str = "print(open('/proc/self/cmdline').read(), end='')";
/// Where Debian has packages.
const PACKAGES: &str = "/usr/lib/python3/dist-packages";
/// Files of numpy's and pandas' own tests.
const OF_PACKAGES: &[&str] = &[
    "numpy/random/tests/test_random.py",
    "numpy/random/tests/test_seed_sequence.py",
    "numpy/core/tests/test_errstate.py",
    "numpy/linalg/tests/test_regression.py",
    "pandas/tests/series/test_constructors.py",
    "pandas/tests/frame/test_query_eval.py",
    "pandas/tests/io/json/test_json_table_schema.py",
];

/// The outcomes of tests, one a line, and what they wrote to standard error.
fn outcomes(directory: &Path, run: impl FnOnce(&[PathBuf], &Path)) -> (String, String) {
    fs::create_dir(directory).expect("a directory of its own");
    let (output, errors) = (directory.join("outcomes"), directory.join("errors"));
    run(&[PathBuf::from(OUTCOMES), output.clone()], &errors);
    let text = fs::read_to_string(&output).unwrap_or_default();
    (text, fs::read_to_string(&errors).unwrap_or_default())
}

fn names(tests: &str) -> Vec<String> {
    tests.split(' ').map(|name| format!("test.{name}")).collect()
}

fn outside(directory: &Path, tests: &str) -> (String, String) {
    outcomes(directory, |script, errors| {
        let errors = fs::File::create(errors).expect("a file");
        let mut command = StdCommand::new(PYTHON);
        command.args(script).args(names(tests)).current_dir(directory);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).stderr(errors);
        command.status().expect("python3 is installed");
    })
}

fn recycled(pool: &Pool, directory: &Path, tests: &str) -> (String, String) {
    outcomes(directory, |script, errors| {
        let errors = fs::File::create(errors).expect("a file");
        let mut command = pool.command(PYTHON);
        command.args(script).args(names(tests)).current_dir(directory);
        let completed =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).complete().expect("it starts");
        assert_eq!(completed.creation.point(), Some(Point::Warm), "{tests}: {}", completed.creation);
    })
}

/// What is to be done for each of a list, by some threads.
fn in_parallel<T: Sync>(list: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(item) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}

fn warm_pool(command: impl Fn(&Pool) -> Command) -> Pool {
    let pool = Pool::new();
    assert_eq!(pool.prepare(&command(&pool)).expect("an image"), Point::Warm);
    pool
}

#[test]
fn cpythons_own_tests_end_as_outside() {
    let directory = tempfile::tempdir().expect("a directory");
    let pool = warm_pool(|pool| {
        let mut command = pool.command(PYTHON);
        command.arg(OUTCOMES);
        command
    });
    let failures = Mutex::new(Vec::new());
    let count = AtomicUsize::new(0);
    in_parallel(CPYTHON, |tests| {
        let name = tests.split(['.', ' ']).next().unwrap_or("tests");
        let in_turn = |attempt: usize| {
            let place = directory.path().join(format!("{name}-{attempt}"));
            fs::create_dir(&place).expect("a directory");
            (outside(&place.join("outside"), tests).0, recycled(&pool, &place.join("recycled"), tests))
        };
        let (mut expected, (mut found, mut errors)) = in_turn(0);
        if found != expected {
            // Some of CPython's tests wait for fractions of a second, and fail on a busy machine, outside as well.
            (expected, (found, errors)) = in_turn(1);
        }
        assert!(!expected.is_empty(), "{tests}: is libpython3-testsuite installed?");
        count.fetch_add(expected.lines().count(), Ordering::Relaxed);
        if found != expected {
            let expected: HashSet<&str> = expected.lines().collect();
            let other: Vec<&str> = found.lines().filter(|line| !expected.contains(line)).collect();
            failures.lock().expect("no panic").push(format!("{tests}: {other:#?}\n{errors}"));
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{} tests of {} modules, all as outside", count.into_inner(), CPYTHON.len());
}

/// The last line of what pytest prints, without its time.
fn summary(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let last = text.lines().rev().find(|line| line.contains(" passed")).unwrap_or("no summary");
    last.split(" in ").next().unwrap_or_default().to_owned()
}

#[test]
fn tests_of_numpy_and_pandas_end_as_outside() {
    let arguments = |file: &&str| {
        let cut = format!("--confcutdir={PACKAGES}");
        let own = ["-m", "pytest", "-q", "-p", "no:cacheprovider", &cut].map(str::to_owned);
        own.into_iter().chain([format!("{PACKAGES}/{file}")])
    };
    let directory = tempfile::tempdir().expect("a directory");
    let command = |pool: &Pool, file: &&str| {
        let mut command = pool.command(PYTHON);
        command.args(arguments(file)).preload(["numpy", "pandas"]).current_dir(directory.path());
        command
    };
    let pool = warm_pool(|pool| command(pool, &""));
    in_parallel(OF_PACKAGES, |file| {
        let outside = StdCommand::new(PYTHON).args(arguments(file)).current_dir(directory.path()).output();
        let outside = outside.expect("python3 is installed");
        let child =
            command(&pool, file).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        assert_eq!(child.creation().point(), Some(Point::Warm), "{file}: {}", child.creation());
        let output = child.wait_with_output().expect("its end");
        let (expected, found) = (summary(&outside.stdout), summary(&output.stdout));
        assert_ne!(expected, "no summary", "{file}: {}", String::from_utf8_lossy(&outside.stdout));
        assert_eq!(found, expected, "{file}: {}", String::from_utf8_lossy(&output.stdout));
    });
}

/// Prints what must never be the same twice.
const SECRETS: &str = "
import os, random, secrets, ssl, tempfile, uuid, numpy
print(random.random(), random.getrandbits(64))
print(os.urandom(16).hex())
print(uuid.uuid4())
print(uuid.uuid1().hex)
print(secrets.token_hex(16))
print(next(tempfile._get_candidate_names()))
print(numpy.random.random(), numpy.random.default_rng().random())
print(ssl.RAND_bytes(16).hex())
";

#[test]
fn no_secret_of_ten_thousand_runs_is_the_same_twice() {
    // So many where time does not matter, as in `make soak`.
    let count: u64 = if std::env::var_os("REGROW_LONG").is_some() { 10_000 } else { 2_500 };
    let pool = warm_pool(secrets);
    let seen = Mutex::new(HashSet::new());
    let runs: Vec<u64> = (0..count).collect();
    let lines = SECRETS.lines().filter(|line| line.starts_with("print")).count();
    in_parallel(&runs, |run| {
        let child = secrets(&pool).stdout(Stdio::piped()).spawn().expect("it starts");
        let creation = child.creation().clone();
        let output = child.wait_with_output().expect("its end");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.lines().count() == lines, "{creation}: {text}");
        let mut seen = seen.lock().expect("no panic");
        for (number, line) in text.lines().enumerate() {
            assert!(seen.insert(format!("{number} {line}")), "run {run}, {creation}: {line} again");
        }
    });
    let stats = pool.stats();
    let warm = stats.recycled.warm + stats.forked_body.warm;
    assert!(warm * 100 >= count * 95, "{stats:?}");
}

fn secrets(pool: &Pool) -> Command {
    let mut command = pool.command(PYTHON);
    command.args(["-c", SECRETS]).preload(["random", "secrets", "ssl", "tempfile", "uuid", "numpy"]);
    command
}

fn printed(command: &mut Command, is_warm: bool) -> String {
    let child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    assert_eq!(child.creation().point() == Some(Point::Warm), is_warm, "{}", child.creation());
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Prepares the command's image and gives what a run in it prints.
fn printed_warm(pool: &Pool, command: &mut Command) -> String {
    // What has just been written is not trusted for some milliseconds: the kernel's stamps are as coarse.
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(pool.prepare(command).expect("an image"), Point::Warm);
    printed(command, true)
}

#[test]
fn a_module_that_is_edited_is_imported_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    let (first, second) = (directory.path().join("first"), directory.path().join("second"));
    for place in [&first, &second] {
        fs::create_dir(place).expect("a directory");
    }
    let module = second.join("working_copy.py");
    fs::write(&module, "version = 1\n").expect("written");
    let pool = Pool::new();
    let mut command = pool.command(PYTHON);
    command.args(["-c", "import working_copy; print(working_copy.version)"]).preload(["working_copy"]);
    command.env("PYTHONPATH", format!("{}:{}", first.display(), second.display()));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    assert_eq!(printed_warm(&pool, &mut command), "1");
    // Of another length: Python tells a source from its compiled form by time and size.
    fs::write(&module, "version = 200\n").expect("written");
    assert_eq!(printed(&mut command, false), "200");
    assert_eq!(printed_warm(&pool, &mut command), "200");
    // One that stands before it in the path.
    fs::write(first.join("working_copy.py"), "version = 'earlier'\n").expect("written");
    assert_eq!(printed(&mut command, false), "earlier");
    assert_eq!(printed_warm(&pool, &mut command), "earlier");
}

/// A module that cannot be loaded is tried again after a while. The runs meanwhile are told as the first ones.
#[test]
fn every_run_is_told_what_could_not_be_loaded_ahead() {
    let pool = Pool::new();
    let mut command = pool.command(PYTHON);
    command.args(["-c", "pass"]).preload(["nosuchmod"]);
    let point = pool.prepare(&command).expect("the image of an interpreter without it");
    assert_ne!(point, Point::Warm);
    for pause in [0, 250, 0, 500, 0] {
        std::thread::sleep(Duration::from_millis(pause));
        let mut child = command.spawn().expect("it starts");
        let told = child.not_loaded().map(str::to_owned);
        assert!(child.wait().expect("its end").success());
        assert!(told.as_ref().is_some_and(|why| why.contains("nosuchmod")), "{told:?} after {pause} ms");
    }
    assert_eq!(pool.stats().exec, 0);
}

/// `ps` shows the interpreter's name, not the source of the front end that has prepared it.
#[test]
fn the_processes_of_an_image_do_not_show_their_source() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let script = folder.path().join("script.pl");
    fs::write(&script, "open F, '/proc/self/cmdline'; print <F>;").expect("a script");
    // As old as an image needs it.
    std::thread::sleep(Duration::from_millis(30));
    let script = script.to_str().expect("text");
    for program in [&[PYTHON, "-c", ARGUMENTS][..], &["/usr/bin/perl", script]] {
        let command = |pool: &Pool| {
            let mut command = pool.command(program[0]);
            command.args(&program[1..]).preload(["perl:strict"]);
            command
        };
        let pool = warm_pool(command);
        let keepers = pool.keepers();
        assert!(keepers.len() > 1, "a seed and a keeper: {keepers:?}");
        for keeper in keepers {
            let shown = fs::read(format!("/proc/{keeper}/cmdline")).expect("it lives");
            assert_eq!(String::from_utf8_lossy(&shown), format!("{}\0", program[0]));
        }
        assert_eq!(printed(&mut command(&pool), true), program.join("\0") + "\0", "a run shows its own");
    }
}

#[test]
fn an_image_is_of_one_preload_one_interpreter_one_environment() {
    let directory = tempfile::tempdir().expect("a directory");
    let venv = directory.path().join("venv");
    let made = StdCommand::new(PYTHON).args(["-m", "venv", "--without-pip"]).arg(&venv).status();
    assert!(made.expect("python3-venv is installed").success());
    let own = venv.join("bin/python3");
    let script = "import sys; print(sys.prefix, *(name in sys.modules for name in ('json', 'decimal')))";
    let pool = Pool::new();
    let inside = venv.display().to_string();
    for _ in 0..2 {
        for (program, preload, expected) in [
            (Path::new(PYTHON), &["json"][..], "/usr True False".to_owned()),
            (Path::new(PYTHON), &["decimal"][..], "/usr False True".to_owned()),
            (Path::new(PYTHON), &[][..], "/usr False False".to_owned()),
            (&own, &["json"][..], format!("{inside} True False")),
        ] {
            let mut command = pool.command(program);
            command.args(["-c", script]).preload(preload.iter().copied());
            assert_eq!(printed_warm(&pool, &mut command), expected);
        }
    }
}
