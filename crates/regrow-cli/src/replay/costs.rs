//! The costs of the simulator, measured on this machine as far as a moment allows: a start by exec, a start in a ready
//! body, a page that is faulted in. The rest is what it was in proportion on the machine that the table is from.

use std::time::Instant;

use regrow::{Command, Pool, Stdio};
use regrow_pool::sim::{Costs, Linear};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::error::CliError;

/// The program that is started: it does nothing.
const PROGRAM: &str = "/bin/true";
/// How often.
const TIMES: usize = 61;
/// How late the engine tells its policy of an end at most.
const TOLD_LATE_US: f64 = 5000.0;
/// How much is faulted in.
const PAGES_KIB: usize = 4096;

/// The costs, and the names of those that were measured.
pub(super) fn measure() -> Result<(Costs, Vec<&'static str>), CliError> {
    let table = Costs::linux();
    let exec_us = median_us(&Pool::builder().recycle(false).build())?;
    let pool = Pool::new();
    let command = quiet(&pool);
    let fault_us_per_kib =
        fault_us_per_kib().map_err(CliError::system("the cost of a page cannot be measured"))?;
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

fn quiet(pool: &Pool) -> Command {
    let mut command = pool.command(PROGRAM);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// From the call to the end seen, each after a pause in which the body is put back.
fn median_us(pool: &Pool) -> Result<f64, CliError> {
    let mut command = quiet(pool);
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = Instant::now();
        let status = command.status();
        times.push(began.elapsed());
        status.map_err(|source| CliError::Start { program: PROGRAM.to_owned(), by: "regrow", source })?;
        std::thread::sleep(std::time::Duration::from_micros(300));
    }
    times.sort_unstable();
    Ok(times.get(TIMES / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6))
}

/// What a page costs that is touched for the first time, in microseconds for each KiB.
#[expect(clippy::cast_precision_loss, reason = "a constant far below 2^52")]
fn fault_us_per_kib() -> std::io::Result<f64> {
    let bytes = PAGES_KIB * 1024;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)? };
    let began = Instant::now();
    for offset in (0..bytes).step_by(4096) {
        // SAFETY: inside the mapping, which is writable and nobody else's.
        unsafe { start.cast::<u8>().add(offset).write_volatile(1) };
    }
    let took = began.elapsed();
    // SAFETY: the mapping of this function, to which no reference is left.
    unsafe { munmap(start, bytes)? };
    Ok(took.as_secs_f64() * 1e6 / PAGES_KIB as f64)
}
