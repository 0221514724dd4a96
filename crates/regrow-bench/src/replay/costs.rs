//! The costs of the simulator. A moment is enough to measure three on this machine: a start by exec, a start in a ready body,
//! and the first touch of a page. The table gives the others, in proportion to these.

use std::path::Path;
use std::time::{Duration, Instant};

use regrow::Pool;
use regrow_pool::sim::{Costs, Linear};

use crate::error::BenchError;
use crate::quiet;
use crate::samples::median;
use crate::system::memory::PrivateMemory;

/// The program that starts: it does nothing.
const PROGRAM: &str = "/bin/true";
/// How often it starts each way.
const TIMES: usize = 61;
/// How late, at most, the engine tells its policy of an end.
const TOLD_LATE_US: f64 = 5000.0;
/// How much memory is touched.
const PAGES_KIB: usize = 4096;

/// How long a body has to be put back before the next run.
const REST: Duration = Duration::from_micros(300);

/// The costs, and the names of those that were measured.
pub(super) fn measure() -> Result<(Costs, Vec<&'static str>), BenchError> {
    let table = Costs::linux();
    let exec_us = median_us(&Pool::builder().recycle(false).build())?;
    let pool = Pool::new();
    let command = quiet::command(&pool, Path::new(PROGRAM));
    let fault_us_per_kib =
        fault_us_per_kib().map_err(BenchError::system("the cost of a page cannot be measured"))?;
    let mut measured = vec!["whole", "fault_us_per_kib"];
    let mut ready = table.ready;
    if pool.prepare(&command).is_ok() {
        ready.us = median_us(&pool)?;
        measured.push("ready");
    }
    let ratio = exec_us / table.whole.us;
    let pages = |linear: Linear, us: f64| Linear {
        us,
        us_per_copied_kib: linear.us_per_copied_kib / table.fault_us_per_kib * fault_us_per_kib,
        us_per_zeroed_kib: linear.us_per_zeroed_kib / table.fault_us_per_kib * fault_us_per_kib,
        ..linear
    };
    let costs = Costs {
        told_late_us: TOLD_LATE_US,
        whole: pages(table.whole, exec_us),
        ready: Linear { us: ready.us.min(exec_us), ..ready },
        reset: pages(table.reset, table.reset.us * ratio),
        image_saves: Linear { us: table.image_saves.us * ratio, ..table.image_saves },
        shell_saves_us: table.shell_saves_us * ratio,
        fault_us_per_kib,
        add_body_us: table.add_body_us * ratio,
        make_image_us: table.make_image_us * ratio,
        add_shell_us: table.add_shell_us * ratio,
        break_up_us: table.break_up_us * ratio,
        drop_us: table.drop_us * ratio,
        ..table
    };
    Ok((costs, measured))
}

/// The median time from the call to the end seen. Each run comes after a pause, in which its body is put back.
fn median_us(pool: &Pool) -> Result<f64, BenchError> {
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = Instant::now();
        quiet::run(pool, Path::new(PROGRAM))?;
        times.push(began.elapsed());
        std::thread::sleep(REST);
    }
    Ok(median(times).as_secs_f64() * 1e6)
}

/// What the first touch of a page costs, in microseconds for each KiB.
#[expect(clippy::cast_precision_loss, reason = "a constant far below 2^52")]
fn fault_us_per_kib() -> std::io::Result<f64> {
    let mut memory = PrivateMemory::map(PAGES_KIB * 1024)?;
    let began = Instant::now();
    memory.touch();
    Ok(began.elapsed().as_secs_f64() * 1e6 / PAGES_KIB as f64)
}
