//! The pool's policies on the recorded traces with real processes, and the papers' second experiment.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use regrow::{Pool, Stdio};
use regrow_pool::policy::Choice;
use regrow_pool::sim::Report;

use super::figure::Figure;
use crate::error::CliError;
use crate::replay::{Replayed, replay_both};

/// The traces, by their names in the folder.
const TRACES: [&str; 4] = ["web-1000", "make-1000", "git-1000", "python-1000"];
const EXISTING: [usize; 4] = [1, 5, 10, 20];
const BUDGET_BYTES: u64 = 1 << 30;
/// Programs of the second experiment.
const PROGRAMS: usize = 50;
/// How often each policy does the second experiment; the median counts.
const TIMES: usize = 5;
/// Real totals differ from machine load: a policy is beyond the front when another is better by more than this.
const NOISE: f64 = 0.05;

/// Measures all figures. `folder` holds the traces.
pub(super) fn measure(folder: &Path) -> Result<Vec<Figure>, CliError> {
    let mut figures = Vec::new();
    for name in TRACES {
        let replayed = replay_both(&folder.join(format!("{name}.csv")), &EXISTING, BUDGET_BYTES)?;
        figures.extend(of_trace(name, &replayed));
        if name == TRACES[0] {
            figures.extend(of_web(&replayed));
        }
    }
    figures.extend(fifty_programs()?);
    figures.extend(lowered_budget()?);
    Ok(figures)
}

fn real<'a>(replayed: &'a Replayed, policy: &str, existing: usize) -> Option<&'a Report> {
    let found = replayed.real.iter().find(|(number, report)| *number == existing && report.policy == policy);
    found.map(|(_, report)| report)
}

/// How much less one is than another, in percent.
fn percent_less(one: f64, other: f64) -> f64 {
    (1.0 - one / other.max(f64::MIN_POSITIVE)) * 100.0
}

/// Of every trace: whether another policy is better in time and memory, and how far the simulator is off.
fn of_trace(name: &str, replayed: &Replayed) -> Vec<Figure> {
    let mut dominated = 0.0;
    let mut farthest: f64 = 0.0;
    for (number, report) in &replayed.real {
        let own = report.end();
        if report.policy == "adaptive" {
            let others =
                replayed.real.iter().filter(|(other, report)| other == number && report.policy != "adaptive");
            let beaten = others.map(|(_, other)| other.end()).any(|other| {
                #[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
                let (own_bytes, other_bytes) = (own.mean_kept_bytes as f64, other.mean_kept_bytes as f64);
                other.time_us < own.time_us * (1.0 - NOISE) && other_bytes <= own_bytes
                    || other.time_us <= own.time_us && other_bytes < own_bytes * (1.0 - NOISE)
            });
            dominated += f64::from(u8::from(beaten));
        }
        let simulated = replayed
            .simulated
            .iter()
            .find(|(other, simulated)| other == number && simulated.policy == report.policy);
        if let Some((_, simulated)) = simulated {
            farthest = farthest.max((simulated.end().time_us / own.time_us - 1.0).abs() * 100.0);
        }
    }
    vec![
        Figure::at_most(
            &format!("{name}: numbers of processes at which another policy beats adaptive"),
            dominated,
            0.0,
            "of 4",
        ),
        Figure::at_most(&format!("{name}: simulated time against real, farthest"), farthest, 25.0, "%"),
    ]
}

/// What the issue of the pool asks of the web trace.
fn of_web(replayed: &Replayed) -> Vec<Figure> {
    let mut figures = Vec::new();
    for existing in EXISTING {
        let Some((none, pool)) = real(replayed, "none", existing).zip(real(replayed, "pool", existing))
        else {
            continue;
        };
        let less = percent_less(pool.end().time_us, none.end().time_us);
        figures.push(Figure::at_least(
            &format!("web, {existing} existing: pool takes less time than none"),
            less,
            80.0,
            "%",
        ));
        if let Some(adaptive) = real(replayed, "adaptive", existing) {
            let end = adaptive.end();
            let share = 100.0 * f64::from(u32::try_from(end.in_body).unwrap_or(0))
                / f64::from(u32::try_from(end.creations).unwrap_or(1));
            let name = format!("web, {existing} existing: adaptive serves from a ready body");
            figures.push(Figure::at_least(&name, share, 90.0, "%"));
        }
    }
    if let Some((one, all)) = real(replayed, "recycle-one", 20).zip(real(replayed, "recycle", 20)) {
        #[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
        let share = one.end().kept_bytes as f64 / (all.end().kept_bytes as f64).max(1.0) * 100.0;
        figures.push(Figure::at_most(
            "web, 20 existing: recycle-one holds of what recycle holds",
            share,
            50.0,
            "%",
        ));
        let slower = one.end().time_us / all.end().time_us;
        figures.push(Figure::at_most(
            "web, 20 existing: time of recycle-one against recycle",
            slower,
            1.0,
            "times",
        ));
    }
    figures
}

/// 50 programs of 4 to 200 KiB of text, data and zeroed memory each, started once: with nothing, with recycling, and with
/// a pool that was told of them.
fn fifty_programs() -> Result<Vec<Figure>, CliError> {
    let folder = tempfile::tempdir().map_err(CliError::system("a folder for the programs"))?;
    let programs: Vec<std::path::PathBuf> = (0..PROGRAMS)
        .map(|number| compile(folder.path(), number))
        .collect::<io::Result<_>>()
        .map_err(CliError::system("cc"))?;
    let total = |policy: Choice, recycle: bool, named: bool| -> Result<f64, CliError> {
        let mut totals = Vec::new();
        for _ in 0..TIMES {
            let pool =
                Pool::builder().policy(policy.clone()).recycle(recycle).budget_bytes(BUDGET_BYTES).build();
            totals.push(start_each(&pool, &programs, named)?);
        }
        totals.sort_by(f64::total_cmp);
        Ok(totals[TIMES / 2])
    };
    let none = total(Choice::None, false, false)?;
    let recycle = total("recycle".parse().unwrap_or_default(), true, false)?;
    let pool = total("pool".parse().unwrap_or_default(), true, true)?;
    Ok(vec![
        Figure::told("50 programs, each once: none", none / 1e3, "ms"),
        Figure::told("50 programs, each once: recycle", recycle / 1e3, "ms"),
        Figure::told("50 programs, each once: pool", pool / 1e3, "ms"),
        Figure::at_least("50 programs: pool takes less than none", percent_less(pool, none), 80.0, "%"),
        Figure::at_least("50 programs: pool takes less than recycle", percent_less(pool, recycle), 70.0, "%"),
    ])
}

/// A program that touches its text, data and zeroed memory, as much as `number` says.
fn compile(folder: &Path, number: usize) -> io::Result<std::path::PathBuf> {
    let kib = 4 + number * 196 / (PROGRAMS - 1);
    let source = format!(
        "static const char text[{kib} * 1024] = {{1}};\nstatic volatile char data[{kib} * 1024] = {{1}};\n\
         static volatile char bss[{kib} * 1024];\n\
         int main(void) {{ int sum = 0; for (int i = 0; i < {kib} * 1024; i += 4096) {{ sum += text[i]; data[i]++; bss[i]++; }}\n\
         return sum == 0; }}\n"
    );
    let path = folder.join(format!("program-{number}"));
    let file = path.with_extension("c");
    std::fs::write(&file, source)?;
    let status = std::process::Command::new("cc").arg("-O1").arg("-o").arg(&path).arg(&file).status()?;
    if status.success() { Ok(path) } else { Err(io::Error::other(format!("cc: {status}"))) }
}

fn start_each(pool: &Pool, programs: &[std::path::PathBuf], named: bool) -> Result<f64, CliError> {
    if named {
        for program in programs {
            let prepared = pool.prepare(&pool.command(program)).map_err(io::Error::other);
            prepared.map_err(CliError::system("a program cannot be kept"))?;
        }
    }
    let mut total = Duration::ZERO;
    for program in programs {
        let began = Instant::now();
        start(pool, program)?;
        total += began.elapsed();
    }
    Ok(total.as_secs_f64() * 1e6)
}

fn start(pool: &Pool, program: &Path) -> Result<(), CliError> {
    let mut command = pool.command(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let name = || program.display().to_string();
    let status =
        command.status().map_err(|source| CliError::Start { program: name(), by: "regrow", source })?;
    if status.success() {
        return Ok(());
    }
    Err(CliError::system("a program failed")(io::Error::other(format!("{}: {status}", name()))))
}

/// The budget is lowered while runs are under way: how long until no more is held, and how many runs failed.
fn lowered_budget() -> Result<Vec<Figure>, CliError> {
    let pool = Pool::new();
    let programs =
        ["/bin/true", "/bin/cat", "/bin/ls", "/usr/bin/perl", "/bin/sh", "/usr/bin/env"].map(Path::new);
    for program in programs.into_iter().filter(|program| program.is_file()) {
        let _ = pool.prepare(&pool.command(program));
    }
    let before = pool.idle_keepers().len();
    let began = Instant::now();
    pool.set_budget(1);
    let mut failed = 0u32;
    let within = loop {
        failed += u32::from(start(&pool, Path::new("/bin/true")).is_err());
        if pool.idle_keepers().is_empty() || began.elapsed() > Duration::from_secs(10) {
            break began.elapsed();
        }
    };
    let name =
        format!("budget lowered to nothing with {before} processes that hold bodies: until it is kept to");
    Ok(vec![
        Figure::at_most(&name, within.as_secs_f64() * 1e3, 1000.0, "ms"),
        Figure::at_most("the same: runs that failed meanwhile", f64::from(failed), 0.0, "runs"),
    ])
}
