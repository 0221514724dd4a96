//! The pool's policies on the recorded traces with real processes, and the papers' second experiment.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use regrow::{Pool, Stdio};
use regrow_pool::policy::{Choice, PoolSettings};

use super::figure::Figure;
use super::processes::held_kib;
use crate::error::CliError;
use crate::replay::{Replayed, replay_both};

/// The traces, by their names in the folder.
const TRACES: [&str; 4] = ["web-1000", "make-1000", "git-1000", "python-1000"];
const EXISTING: [usize; 4] = [1, 5, 10, 20];
const BUDGET_BYTES: u64 = 1 << 30;
/// How often each trace is replayed; of each hundred creations the median counts.
const ROUNDS: usize = 3;
/// Programs of the second experiment.
const PROGRAMS: usize = 50;
/// Memory is noted after so many of them.
const EVERY: usize = 10;
/// How far apart they are started then.
const BETWEEN: Duration = Duration::from_millis(20);
/// How often the paper has the pool give back regions, and unused bodies (4.3, 4.4).
const PAPER_T1: Duration = Duration::from_millis(2);
const PAPER_T2: Duration = Duration::from_millis(50);
/// How often each policy does the second experiment; the median counts.
const TIMES: usize = 5;
/// Real totals differ from machine load: a policy is beyond the front when another is better by more than this.
const NOISE: f64 = 0.05;
/// How far simulated and real totals may be apart.
const MOST_OFF_PERCENT: f64 = 25.0;

/// Measures all figures. `folder` holds the traces.
pub(super) fn measure(folder: &Path) -> Result<Vec<Figure>, CliError> {
    let mut figures = Vec::new();
    for name in TRACES {
        eprintln!(
            "{name}: {} policies, {} numbers of processes, {ROUNDS} times; some minutes",
            Choice::NAMES.len(),
            EXISTING.len()
        );
        let replayed = replay_both(&folder.join(format!("{name}.csv")), &EXISTING, ROUNDS, BUDGET_BYTES)?;
        tell_points(&replayed);
        figures.extend(of_trace(name, &replayed));
        if name == TRACES[0] {
            figures.extend(of_web(&replayed));
        }
    }
    eprintln!("{PROGRAMS} programs, each once");
    figures.extend(fifty_programs()?);
    figures.extend(lowered_budget()?);
    Ok(figures)
}

/// How much less one is than another, in percent.
fn percent_less(one: f64, other: f64) -> f64 {
    (1.0 - one / other.max(f64::MIN_POSITIVE)) * 100.0
}

/// Prints time and memory of each policy: the points that the plots show.
fn tell_points(replayed: &Replayed) {
    for existing in EXISTING {
        let points =
            Choice::NAMES.into_iter().filter_map(|policy| Some((policy, replayed.real(policy, existing)?)));
        let words = points.map(|(policy, point)| {
            format!("{policy} {:.0} ms {} KiB", point.time_us / 1e3, point.mean_kept_bytes >> 10)
        });
        eprintln!("  {existing} existing: {}", words.collect::<Vec<_>>().join(", "));
    }
}

/// Of every trace: whether another policy is better in time and memory, and how far the simulator is off.
fn of_trace(name: &str, replayed: &Replayed) -> Vec<Figure> {
    let beaten = EXISTING.into_iter().filter(|&existing| is_beaten(replayed, existing)).count();
    let beaten = f64::from(u32::try_from(beaten).unwrap_or(u32::MAX));
    let points = EXISTING.into_iter().flat_map(|existing| Choice::NAMES.map(|policy| (existing, policy)));
    let off: Vec<f64> = points.map(|(existing, policy)| off_percent(replayed, policy, existing)).collect();
    let farthest = off.iter().copied().fold(0.0, f64::max);
    let within = off.iter().filter(|&&off| off <= MOST_OFF_PERCENT).count() * 100 / off.len().max(1);
    vec![
        Figure::at_most(
            &format!("{name}: numbers of processes at which another policy beats adaptive"),
            beaten,
            0.0,
            "of 4",
        ),
        Figure::at_most(
            &format!("{name}: simulated time against real, farthest of 20"),
            farthest,
            MOST_OFF_PERCENT,
            "%",
        ),
        Figure::told(
            &format!("{name}: simulated times within {MOST_OFF_PERCENT} % of the real ones"),
            f64::from(u32::try_from(within).unwrap_or(0)),
            "%",
        ),
    ]
}

/// Whether another policy takes less time than `adaptive` with no more memory, or less memory with no more time.
fn is_beaten(replayed: &Replayed, existing: usize) -> bool {
    let Some(own) = replayed.real("adaptive", existing) else { return false };
    let others = Choice::NAMES.into_iter().filter(|name| *name != "adaptive");
    others.filter_map(|name| replayed.real(name, existing)).any(|other| {
        #[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
        let (own_bytes, other_bytes) = (own.mean_kept_bytes as f64, other.mean_kept_bytes as f64);
        other.time_us < own.time_us * (1.0 - NOISE) && other_bytes <= own_bytes
            || other.time_us <= own.time_us && other_bytes < own_bytes * (1.0 - NOISE)
    })
}

/// How far the simulated time is off the real one, in percent.
fn off_percent(replayed: &Replayed, policy: &str, existing: usize) -> f64 {
    let pair = replayed.real(policy, existing).zip(replayed.simulated(policy, existing));
    pair.map_or(0.0, |(real, simulated)| (simulated.time_us / real.time_us - 1.0).abs() * 100.0)
}

/// What the issue of the pool asks of the web trace.
fn of_web(replayed: &Replayed) -> Vec<Figure> {
    let mut figures = Vec::new();
    for existing in EXISTING {
        let Some((none, pool)) = replayed.real("none", existing).zip(replayed.real("pool", existing)) else {
            continue;
        };
        let less = percent_less(pool.time_us, none.time_us);
        figures.push(Figure::at_least(
            &format!("web, {existing} existing: pool takes less time than none"),
            less,
            80.0,
            "%",
        ));
        if let Some(adaptive) = replayed.real("adaptive", existing) {
            let share = 100.0 * f64::from(u32::try_from(adaptive.in_body).unwrap_or(0))
                / f64::from(u32::try_from(adaptive.creations).unwrap_or(1));
            let name = format!("web, {existing} existing: adaptive serves from a ready body");
            figures.push(Figure::at_least(&name, share, 90.0, "%"));
        }
    }
    if let Some((one, all)) = replayed.real("recycle-one", 20).zip(replayed.real("recycle", 20)) {
        #[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
        let share = one.kept_bytes as f64 / (all.kept_bytes as f64).max(1.0) * 100.0;
        figures.push(Figure::at_most(
            "web, 20 existing: recycle-one holds of what recycle holds",
            share,
            50.0,
            "%",
        ));
        let slower = one.time_us / all.time_us;
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
/// a pool that was told of them. The policies take turns.
fn fifty_programs() -> Result<Vec<Figure>, CliError> {
    let folder = tempfile::tempdir().map_err(CliError::system("a folder for the programs"))?;
    let programs: Vec<std::path::PathBuf> = (0..PROGRAMS)
        .map(|number| compile(folder.path(), number))
        .collect::<io::Result<_>>()
        .map_err(CliError::system("cc"))?;
    let once = |policy: &Choice, recycle: bool, named: bool| -> Result<f64, CliError> {
        let pool = Pool::builder().policy(policy.clone()).recycle(recycle).budget_bytes(BUDGET_BYTES).build();
        start_each(&pool, &programs, named)
    };
    let (recycle, pool) = ("recycle".parse().unwrap_or_default(), "pool".parse().unwrap_or_default());
    let mut totals = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..TIMES {
        totals[0].push(once(&Choice::None, false, false)?);
        totals[1].push(once(&recycle, true, false)?);
        totals[2].push(once(&pool, true, true)?);
    }
    let [none, recycle, pool] = totals.map(|mut totals| {
        totals.sort_by(f64::total_cmp);
        totals.get(TIMES / 2).copied().unwrap_or(0.0)
    });
    let mut figures = vec![
        Figure::told("50 programs, each once: none", none / 1e3, "ms"),
        Figure::told("50 programs, each once: recycle", recycle / 1e3, "ms"),
        Figure::told("50 programs, each once: pool", pool / 1e3, "ms"),
        Figure::at_least("50 programs: pool takes less than none", percent_less(pool, none), 80.0, "%"),
        Figure::at_least("50 programs: pool takes less than recycle", percent_less(pool, recycle), 70.0, "%"),
    ];
    let settings = |t1, t2| Choice::Pool(PoolSettings { t1, t2, ..PoolSettings::default() });
    figures.extend(memory_over_time("recycle", "recycle".parse().unwrap_or_default(), &programs)?);
    figures.extend(memory_over_time("pool", settings(PAPER_T1, PAPER_T2), &programs)?);
    let never = settings(Duration::ZERO, Duration::ZERO);
    figures.extend(memory_over_time("pool without giving back", never, &programs)?);
    Ok(figures)
}

/// What is held while the programs are started one after the other, and a while later.
fn memory_over_time(
    name: &str,
    policy: Choice,
    programs: &[std::path::PathBuf],
) -> Result<Vec<Figure>, CliError> {
    let pool = Pool::builder().policy(policy).budget_bytes(BUDGET_BYTES).build();
    let mut figures = Vec::new();
    let mut note = |when: &str| {
        let kib: u64 = pool.idle_keepers().into_iter().filter_map(held_kib).sum();
        let mib = f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / 1024.0;
        figures.push(Figure::told(&format!("50 programs, {name}: held {when}"), mib, "MiB"));
    };
    for (number, program) in programs.iter().enumerate() {
        start(&pool, program)?;
        std::thread::sleep(BETWEEN);
        if (number + 1).is_multiple_of(EVERY) {
            note(&format!("after {}", number + 1));
        }
    }
    std::thread::sleep(PAPER_T2 * 4);
    note("200 ms later");
    Ok(figures)
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
        // What the pool adds beside that is ready too.
        std::thread::sleep(PAPER_T2);
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
