//! Front ends with a gate (`docs/warm.md`): their runs are woken before they have an order, and wait for it by a call of the agent's.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow::{Command, Point, PointChoice, Pool, Stdio, Strings, Warm};

const PYTHON: &str = "/usr/bin/python3";
/// A process has the time to prepare itself.
const REST: Duration = Duration::from_millis(50);
/// How long something may take that is going to happen.
const LIMIT: Duration = Duration::from_secs(60);

/// A front end in Python with a gate: what a run does before it has its order, and what then.
fn script(ahead: &str, run: &str) -> String {
    format!(
        "
import ctypes, os, signal, sys
gate = (ctypes.c_void_p * 2)()
os.write(63, b'gate %d\\0' % ctypes.addressof(gate))
os.kill(os.getpid(), signal.SIGSTOP)
{ahead}
ctypes.CFUNCTYPE(None, ctypes.c_void_p)(gate[0])(gate[1])
{run}
sys.stdout.flush()
os._exit(0)
"
    )
}

/// A command that says `plain` where it is not started in the image of this front end.
fn command(pool: &Pool, script: &str) -> Command {
    let mut args = Strings::new();
    args.push(&[b"-c"]).expect("no NUL");
    args.push(&[script.as_bytes()]).expect("no NUL");
    let mut command = pool.command(PYTHON);
    command.args(["-c", "print('plain')"]).env_clear().env("NAME", "value");
    command.warm(Arc::new(Warm { args, variables: Vec::new(), ..Warm::default() })).stdout(Stdio::piped());
    command
}

/// The same, with its image.
fn prepared(pool: &Pool, script: &str) -> Command {
    let command = command(pool, script);
    assert_eq!(pool.prepare(&command).expect("an image"), Point::Warm);
    command
}

fn warm_output(command: &mut Command) -> String {
    let child = command.spawn().expect("it starts");
    assert_eq!(child.creation().point(), Some(Point::Warm), "{}", child.creation());
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A folder for notes.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let notes = folder.path().join("notes");
    (folder, notes)
}

/// The children of this process.
fn children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").expect("its threads").flatten();
    let texts = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    texts.flat_map(|text| text.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()).collect()
}

/// Waits until a process of the pool that waits for its order has noted that it has prepared itself. The others are not woken ahead.
fn await_prepared(pool: &Pool, notes: &Path) {
    let until = Instant::now() + LIMIT;
    loop {
        let keepers = pool.keepers();
        let armed: Vec<i32> =
            children().into_iter().filter(|pid| pool.is_used_by(*pid) && !keepers.contains(pid)).collect();
        let text = fs::read_to_string(notes).unwrap_or_default();
        let noted: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        if armed.iter().any(|pid| noted.contains(pid)) {
            return;
        }
        assert!(Instant::now() < until, "{armed:?} {noted:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_run_prepares_itself_before_it_has_its_order() {
    let (_folder, notes) = folder();
    let ahead = format!("with open('{}', 'a') as notes: notes.write(f'{{os.getpid()}}\\n')", notes.display());
    let pool = Pool::new();
    let mut command = prepared(&pool, &script(&ahead, "print('right')"));
    let mut ready = 0;
    // On a machine that has other work the run may be another process than the one that is waited for.
    for _ in 0..50 {
        await_prepared(&pool, &notes);
        let before = fs::read_to_string(&notes).unwrap_or_default();
        let child = command.spawn().expect("it starts");
        assert_eq!(child.creation().point(), Some(Point::Warm), "{}", child.creation());
        ready += usize::from(before.lines().any(|line| line == child.id().to_string()));
        assert_eq!(child.wait_with_output().expect("its end").stdout, b"right\n");
        if ready == 5 {
            return;
        }
    }
    panic!("{ready} of 50 runs had prepared themselves before they were ordered");
}

#[test]
fn behind_the_gate_a_run_is_what_its_order_says() {
    let ahead = "before = os.getpid(), os.getcwd()";
    let run = "
order = open(63, 'rb').read()
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
environ = list(map(os.fsencode, open('/proc/self/environ').read().split('\\0')))[:1]
print(os.getpid() == before[0], os.getcwd(), order, blocked, environ, sorted(os.listdir('/proc/self/fd')), list(gate))";
    let pool = Pool::new();
    let mut command = prepared(&pool, &script(ahead, run));
    command.current_dir("/usr").umask(0o27);
    for round in 0..5 {
        let value = format!("{round}");
        command.env("ROUND", &value);
        let expected = format!(
            "True /usr b\"regrow 1 3 2 0\\n/usr/bin/python3\\x00-c\\x00print('plain')\\x00NAME=value\\x00ROUND={round}\\x00\" set() \
             [b'NAME=value'] ['0', '1', '2', '3'] [None, None]\n"
        );
        assert_eq!(warm_output(&mut command), expected);
    }
}

#[test]
fn what_is_written_ahead_is_not_in_the_next_run() {
    let ahead = "
secret = bytes(os.urandom(1)) * 300_000
held = [bytearray(1000) for _ in range(3000)]";
    let run = "print(len(held), secret == secret[:1] * 300_000)";
    let pool = Pool::builder().verify(true).build();
    let mut command = prepared(&pool, &script(ahead, run));
    for _ in 0..8 {
        assert_eq!(warm_output(&mut command), "3000 True\n");
    }
    let reports = pool.reports();
    assert!(reports.differences.is_empty() && reports.given_up.is_empty(), "{reports:?}");
    assert!(reports.compared >= 8, "{reports:?}");
}

#[test]
fn a_process_that_dies_before_its_order_costs_its_body_alone() {
    let (_folder, notes) = folder();
    let ahead = format!("if os.path.exists('{}'): os._exit(3)", notes.display());
    let pool = Pool::builder().verify(true).build();
    let mut command = prepared(&pool, &script(&ahead, "print('right')"));
    std::thread::sleep(REST);
    fs::write(&notes, "").expect("written");
    // The first one had prepared itself already. Those after it die, and the program is executed instead.
    let mut plain = 0;
    for round in 0..12 {
        let output = if round % 2 == 0 {
            command.output()
        } else {
            command.spawn().and_then(regrow::Child::wait_with_output)
        };
        let output = output.expect("it starts");
        assert!(output.status.success(), "{output:?}");
        assert!([&b"right\n"[..], b"plain\n"].contains(&&output.stdout[..]), "{output:?}");
        plain += usize::from(output.stdout == b"plain\n");
    }
    assert!(plain >= 6, "{plain} were executed");
    fs::remove_file(&notes).expect("removed");
    let until = Instant::now() + LIMIT;
    while command.output().expect("it starts").stdout != b"right\n" {
        assert!(Instant::now() < until, "it is recycled again: {:?}", pool.reports());
        std::thread::sleep(REST);
    }
}

#[test]
fn a_gate_is_two_words_of_the_front_ends_own() {
    let pool = Pool::builder().point(PointChoice::Only(Point::Warm)).build();
    for (record, why) in
        [("gate 4096", "its gate is at 1000"), ("gate 4097", "its gate is at 1001"), ("gate x", "gate x")]
    {
        let wrong =
            script("", "").replace("b'gate %d\\0' % ctypes.addressof(gate)", &format!("b'{record}\\0'"));
        let error = pool.prepare(&command(&pool, &wrong)).expect_err("no image");
        let text = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        assert!(text.contains(why), "{record}: {text}");
    }
}

/// Python's own front end: what each run renews is new, and none of a program's hooks runs before its process is its own.
#[test]
fn hooks_of_a_program_run_behind_the_gate() {
    let (folder, _notes) = folder();
    let module = "
import os
seen = []
os.register_at_fork(after_in_child=lambda: seen.append((os.getcwd(), os.fstat(1).st_ino)))
";
    fs::write(folder.path().join("hooked.py"), module).expect("written");
    let pool = Pool::builder().point(PointChoice::Only(Point::Warm)).build();
    let mut command = pool.command(PYTHON);
    let code = "import os, hooked; print(hooked.seen == [('/usr', os.fstat(1).st_ino)])";
    command.args(["-c", code]).preload(["hooked".to_owned()]).env("PYTHONPATH", folder.path());
    command.current_dir("/usr").stdout(Stdio::piped());
    assert_eq!(pool.prepare(&command).expect("an image"), Point::Warm);
    for _ in 0..3 {
        assert_eq!(warm_output(&mut command), "True\n");
    }
}
