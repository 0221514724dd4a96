//! Starts a program again and again, by turns through `std::process` and through Regrow, and prints what a run
//! takes from the call to its end.
//!
//! ```text
//! cargo run --release --example side_by_side -- git --version
//! ```

use std::env;
use std::io;
use std::time::{Duration, Instant};

use regrow::{Pool, Stdio};

const RUNS: usize = 300;
const WARM_UP: usize = 20;

fn main() -> io::Result<()> {
    let mut words = env::args().skip(1);
    let program = words.next().unwrap_or_else(|| "true".to_owned());
    let args: Vec<String> = words.collect();
    let pool = Pool::new();
    let mut ordinary = std::process::Command::new(&program);
    ordinary.args(&args).stdout(std::process::Stdio::null());
    let mut recycled = pool.command(&program);
    recycled.args(&args).stdout(Stdio::null());

    let (mut std_times, mut regrow_times) = (Vec::new(), Vec::new());
    for run in 0..WARM_UP + RUNS {
        // Who comes second pays for what the first leaves to be torn down: so they take turns.
        let (std_run, regrow_run) = if run % 2 == 0 {
            let std_run = timed(|| ordinary.status())?;
            (std_run, timed(|| recycled.status())?)
        } else {
            let regrow_run = timed(|| recycled.status())?;
            (timed(|| ordinary.status())?, regrow_run)
        };
        assert_eq!(std_run.0, regrow_run.0, "both runs end in the same way");
        if run >= WARM_UP {
            std_times.push(std_run.1);
            regrow_times.push(regrow_run.1);
        }
    }
    println!("std::process {:?}, regrow {:?} (medians of {RUNS})", median(std_times), median(regrow_times));
    println!("{:#?}", pool.stats());
    Ok(())
}

fn timed<T>(run: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Duration)> {
    let start = Instant::now();
    let result = run()?;
    Ok((result, start.elapsed()))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
