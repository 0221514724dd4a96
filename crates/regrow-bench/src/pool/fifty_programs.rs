//! The second experiment of Taniguchi et al. (2020): 50 programs of different sizes, each started once.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regrow::Pool;
use regrow_pool::policy::{PolicyChoice, PoolSettings};

use super::figures::percent_less;
use crate::error::{BenchError, check_recycled};
use crate::figure::Figure;
use crate::quiet;
use crate::samples::median;
use crate::system::processes::held_kib;

/// How many programs there are.
pub(super) const PROGRAMS: usize = 50;
/// The benchmark notes memory after so many of them.
const EVERY: usize = 10;
/// How far apart they start then.
const BETWEEN: Duration = Duration::from_millis(20);
/// How often the paper's pool gives back regions, and unused bodies (4.3, 4.4).
const PAPER_T1: Duration = Duration::from_millis(2);
const PAPER_T2: Duration = Duration::from_millis(50);
/// How often each policy does the experiment; the median counts.
const TIMES: usize = 5;
/// How much memory the pool may keep.
const BUDGET_BYTES: u64 = 1 << 30;

/// Starts 50 programs once each: without recycling, with recycling, and with a pool that prepared them. The policies take
/// turns.
pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let folder = tempfile::tempdir().map_err(BenchError::system("a folder for the programs"))?;
    let programs: Vec<PathBuf> = (0..PROGRAMS)
        .map(|number| compile(folder.path(), number))
        .collect::<io::Result<_>>()
        .map_err(BenchError::system("cc"))?;
    let once = |policy: &PolicyChoice, recycle: bool, named: bool| -> Result<f64, BenchError> {
        let pool = Pool::builder().policy(policy.clone()).recycle(recycle).budget_bytes(BUDGET_BYTES).build();
        start_each(&pool, &programs, named)
    };
    let (recycle, pool) = ("recycle".parse().unwrap_or_default(), "pool".parse().unwrap_or_default());
    let mut totals = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..TIMES {
        totals[0].push(once(&PolicyChoice::None, false, false)?);
        totals[1].push(once(&recycle, true, false)?);
        totals[2].push(once(&pool, true, true)?);
    }
    let [none, recycle, pool] = totals.map(median);
    let mut figures = vec![
        Figure::told("50 programs, each once: none", none / 1e3, "ms"),
        Figure::told("50 programs, each once: recycle", recycle / 1e3, "ms"),
        Figure::told("50 programs, each once: pool", pool / 1e3, "ms"),
        Figure::at_least("50 programs: pool takes less than none", percent_less(pool, none), 80.0, "%"),
        Figure::at_least("50 programs: pool takes less than recycle", percent_less(pool, recycle), 70.0, "%"),
    ];
    let settings = |t1, t2| PolicyChoice::Pool(PoolSettings { t1, t2, ..PoolSettings::default() });
    figures.extend(memory_over_time("recycle", "recycle".parse().unwrap_or_default(), &programs)?);
    figures.extend(memory_over_time("pool", settings(PAPER_T1, PAPER_T2), &programs)?);
    let never = settings(Duration::ZERO, Duration::ZERO);
    figures.extend(memory_over_time("pool without giving back", never, &programs)?);
    Ok(figures)
}

/// How much memory a policy holds while the programs start one after the other, and a while later.
fn memory_over_time(
    name: &str,
    policy: PolicyChoice,
    programs: &[PathBuf],
) -> Result<Vec<Figure>, BenchError> {
    let pool = Pool::builder().policy(policy).budget_bytes(BUDGET_BYTES).build();
    let mut figures = Vec::new();
    let mut note = |when: &str| {
        let kib: u64 = pool.idle_keepers().into_iter().filter_map(held_kib).sum();
        let mib = f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / 1024.0;
        figures.push(Figure::told(&format!("50 programs, {name}: held {when}"), mib, "MiB"));
    };
    for (number, program) in programs.iter().enumerate() {
        quiet::run(&pool, program)?;
        std::thread::sleep(BETWEEN);
        if (number + 1).is_multiple_of(EVERY) {
            note(&format!("after {}", number + 1));
        }
    }
    std::thread::sleep(PAPER_T2 * 4);
    note("200 ms later");
    Ok(figures)
}

/// Compiles a program that touches its text, data and zeroed memory: 4 to 200 KiB of each, by its number.
fn compile(folder: &Path, number: usize) -> io::Result<PathBuf> {
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

/// Starts each program once, and adds up the times from call to end seen, in microseconds.
fn start_each(pool: &Pool, programs: &[PathBuf], named: bool) -> Result<f64, BenchError> {
    if named {
        for program in programs {
            let prepared = pool.prepare(&pool.command(program)).map_err(io::Error::other);
            prepared.map_err(BenchError::system("a program cannot be kept"))?;
        }
        // The pool also gets ready what it adds by itself.
        std::thread::sleep(PAPER_T2);
    }
    let mut total = Duration::ZERO;
    for program in programs {
        let began = Instant::now();
        quiet::run(pool, program)?;
        total += began.elapsed();
    }
    if named {
        let stats = pool.stats();
        let recycled = stats.recycled.total() + stats.forked_body.total();
        check_recycled("50 programs that the pool was told of", recycled, stats.total())?;
    }
    Ok(total.as_secs_f64() * 1e6)
}
