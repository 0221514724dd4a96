//! A launcher against the program that it stands for, in a shell's loop, in turn.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::own::{OwnDaemon, own_path};
use super::spawn::{check, percentiles, spawn};
use crate::error::{BenchError, check_recycled};
use crate::figure::Figure;
use crate::samples::{Samples, now_ns};
use crate::system::native::PosixSpawn;

/// Where launchers look for their programs: those that are compared, and no others of their names.
pub(super) const PATH: &str = "/usr/bin:/bin";
/// How many commands a shell's loop runs. The shell's own start is in their time: a hundredth of it in each.
const LOOP: u32 = 100;
/// How many loops of each side there are before those that count.
const WARMUP: u32 = 4;

/// A program, its arguments as a shell reads them, and how many times as quick its launcher is to be.
struct Case {
    program: &'static str,
    args: &'static str,
    at_least: f64,
}

const CASES: [Case; 4] = [
    Case { program: "/bin/true", args: "", at_least: 1.8 },
    Case { program: "/usr/bin/git", args: "--version", at_least: 2.2 },
    Case { program: "/usr/bin/perl", args: "-e 1", at_least: 1.5 },
    Case { program: "/usr/bin/python3", args: "-c pass", at_least: 6.0 },
];

/// Measures every program that is there.
pub(super) fn measure(daemon: &OwnDaemon, runs: u32) -> Result<Vec<Figure>, BenchError> {
    let folder = tempfile::tempdir().map_err(BenchError::system("there is no folder for launchers"))?;
    let mut figures = Vec::new();
    for case in CASES.iter().filter(|case| Path::new(case.program).exists()) {
        figures.extend(compare(daemon, folder.path(), case, runs)?);
    }
    Ok(figures)
}

fn compare(daemon: &OwnDaemon, folder: &Path, case: &Case, runs: u32) -> Result<[Figure; 3], BenchError> {
    let launcher = link(folder, case.program)?;
    let by = |program: &Path| looped(daemon, program, case.args);
    let ways = [by(Path::new(case.program))?, by(&launcher)?];
    same_output(case.program, &ways_by_shell(daemon, [Path::new(case.program), &launcher], case))?;
    let [plain, launched] = in_turn(daemon, &ways, (runs, LOOP), 1)?;
    let name = format!("{} {}", case.program, case.args);
    let name = name.trim_end();
    Ok([
        Figure::at_least(
            &format!("in a shell loop: launcher of {name}, against the program"),
            plain / launched,
            case.at_least,
            "times",
        ),
        Figure::told(&format!("in a shell loop: launcher of {name}, each"), launched, "us"),
        Figure::told(&format!("in a shell loop: {name}, each"), plain, "us"),
    ])
}

/// Has each of some loops, of so many commands, run in turn so many times; of these, so many have the daemon run their commands. The median of each,
/// for one command.
pub(super) fn in_turn<const N: usize>(
    daemon: &OwnDaemon,
    ways: &[PosixSpawn; N],
    (runs, commands): (u32, u32),
    by_daemon: u64,
) -> Result<[f64; N], BenchError> {
    for _ in 0..WARMUP {
        for way in ways {
            check(spawn(way)?)?;
            thread::sleep(Duration::from_millis(50));
        }
    }
    let before = daemon.recycled()?;
    let mut times = std::array::from_fn::<_, N, _>(|_| Samples::default());
    for _ in 0..runs {
        for (way, times) in ways.iter().zip(&mut times) {
            let called_ns = now_ns();
            check(spawn(way)?)?;
            times.push(now_ns() - called_ns);
        }
    }
    check_recycled(
        "a shell's loop",
        daemon.recycled()? - before,
        u64::from(runs) * u64::from(commands) * by_daemon,
    )?;
    Ok(times.map(|times| percentiles(&times).p50 / f64::from(commands)))
}

/// Makes the launcher of a program.
pub(super) fn link(folder: &Path, program: &str) -> Result<PathBuf, BenchError> {
    let name = Path::new(program).file_name().unwrap_or_default();
    let mut command = Command::new(own_path()?);
    command.args(["link", "--dir"]).arg(folder).arg(name).env("PATH", PATH).stderr(Stdio::null());
    let status = command.status().map_err(BenchError::system("a launcher cannot be made"))?;
    check(status)?;
    Ok(folder.join(name))
}

/// A shell that runs a program in a loop, with its output to nowhere.
fn looped(daemon: &OwnDaemon, program: &Path, args: &str) -> Result<PosixSpawn, BenchError> {
    let script = format!(
        "PATH={PATH}; i=0; while [ $i -lt {LOOP} ]; do \"$0\" {args} >/dev/null || exit 1; i=$((i + 1)); done"
    );
    shell(daemon, "/bin/sh", &["-c", &script, &program.to_string_lossy()])
}

/// A shell with these words. Where there is a terminal it is in a session of its own: programs would be executed there.
pub(super) fn shell(daemon: &OwnDaemon, shell: &str, words: &[&str]) -> Result<PosixSpawn, BenchError> {
    if File::open("/dev/tty").is_ok() {
        return daemon.command(Path::new("/usr/bin/setsid"), &[&["--wait", shell], words].concat());
    }
    daemon.command(Path::new(shell), words)
}

/// What program and launcher write.
fn ways_by_shell(daemon: &OwnDaemon, programs: [&Path; 2], case: &Case) -> [Option<Vec<u8>>; 2] {
    programs.map(|program| {
        let mut command = Command::new("/usr/bin/setsid");
        command.arg("--wait").arg(program).args(case.args.split_ascii_whitespace());
        command.env("XDG_RUNTIME_DIR", daemon.place.folder()).env("PATH", PATH).stdin(Stdio::null());
        command.output().ok().filter(|output| output.status.success()).map(|output| output.stdout)
    })
}

fn same_output(program: &str, outputs: &[Option<Vec<u8>>; 2]) -> Result<(), BenchError> {
    if outputs[0].is_some() && outputs[0] == outputs[1] {
        return Ok(());
    }
    let what = "its launcher does not write what it does".to_owned();
    Err(BenchError::WrongRun { program: program.to_owned(), what })
}
