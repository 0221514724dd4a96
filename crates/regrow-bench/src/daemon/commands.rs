//! `regrow run -- PROG`, `env PROG` and PROG itself in turn, started by `posix_spawn` and in a shell's loop.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::own::{OwnDaemon, own_path};
use super::spawn::{check, percentiles, spawn};
use crate::error::{BenchError, check_recycled};
use crate::figure::Figure;
use crate::samples::{Samples, now_ns};

/// How many commands a shell's loop runs.
const LOOP: u32 = 20;

/// Measures commands that `posix_spawn` starts, and commands in a shell's loop.
pub(super) fn measure(daemon: &OwnDaemon, runs: u32) -> Result<Vec<Figure>, BenchError> {
    let own = own_path()?;
    let in_loop =
        |command: &str| format!("i=0; while [ $i -lt {LOOP} ]; do {command} || exit 1; i=$((i + 1)); done");
    let run_true = in_loop("\"$0\" run --no-tty -- /bin/true");
    let shell = |script: &str| daemon.command(Path::new("/bin/sh"), &["-c", script, &own.to_string_lossy()]);
    let ways = [
        daemon.command(&own, &["run", "--no-tty", "--", "/bin/true"])?,
        daemon.command(Path::new("/usr/bin/env"), &["/bin/true"])?,
        daemon.command(&own, &["run", "--no-tty", "--", "/usr/bin/perl", "-e", "1"])?,
        daemon.command(Path::new("/usr/bin/perl"), &["-e", "1"])?,
        shell(&run_true)?,
        shell(&in_loop("/usr/bin/env /bin/true"))?,
        shell(&in_loop("/bin/true"))?,
    ];
    for _ in 0..3 {
        for way in &ways {
            check(spawn(way)?)?;
            thread::sleep(Duration::from_millis(50));
        }
    }
    let before = daemon.recycled()?;
    let mut times = [(); 7].map(|()| Samples::default());
    for _ in 0..runs {
        for (way, times) in ways.iter().zip(&mut times) {
            thread::sleep(Duration::from_micros(100));
            let called_ns = now_ns();
            check(spawn(way)?)?;
            times.push(now_ns() - called_ns);
        }
    }
    let ordered = u64::from(runs) * u64::from(2 + LOOP);
    check_recycled("regrow run", (daemon.recycled()? - before).min(ordered), ordered)?;
    let [run_true, env_true, run_perl, perl, loops @ ..] = times.map(|times| percentiles(&times).p50);
    let [loop_run, loop_env, loop_true] = loops.map(|time| time / f64::from(LOOP));
    Ok(vec![
        Figure::at_least("regrow run -- /bin/true, against env /bin/true", env_true / run_true, 1.0, "times"),
        Figure::told("regrow run -- /bin/true, p50", run_true, "us"),
        Figure::told("env /bin/true, p50", env_true, "us"),
        Figure::at_least("regrow run -- perl -e 1, against perl -e 1", perl / run_perl, 1.0, "times"),
        Figure::told("regrow run -- perl -e 1, p50", run_perl, "us"),
        Figure::told("perl -e 1, p50", perl, "us"),
        Figure::at_least("in a shell loop: regrow run, against env", loop_env / loop_run, 1.0, "times"),
        Figure::told("in a shell loop: regrow run, against /bin/true itself", loop_true / loop_run, "times"),
        Figure::told("in a shell loop: regrow run -- /bin/true, each", loop_run, "us"),
        Figure::told("in a shell loop: /bin/true, each", loop_true, "us"),
    ])
}
