//! What a fiber that waits takes of memory.

use regrow_fiber::{Fiber, State};

use super::contest::{no_stack, wrong};
use crate::error::BenchError;
use crate::figure::Figure;

/// How many wait.
const COUNT: usize = 1_000_000;
/// A page and a tenth, and 200 bytes.
const ASKED_BYTES: f64 = 1.1 * 4096.0 + 200.0;

pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let before = memory_bytes()?;
    let mut fibers = Vec::with_capacity(COUNT);
    for number in 0..COUNT {
        let mut fiber = Fiber::<usize, usize, ()>::new(move |suspender, input| {
            suspender.suspend(input + number);
        })
        .map_err(no_stack)?;
        if fiber.resume(1) != State::Yielded(number + 1) {
            return Err(wrong("a fiber that waits"));
        }
        fibers.push(fiber);
    }
    #[allow(clippy::cast_precision_loss, reason = "bytes of this machine's memory are far below 2^52")]
    let each = memory_bytes()?.saturating_sub(before) as f64 / COUNT as f64;
    drop(fibers);
    Ok(vec![Figure::at_most("memory of a fiber that waits, of 1,000,000", each, ASKED_BYTES, "bytes")])
}

/// What this process has in memory, and the kernel's tables for it.
fn memory_bytes() -> Result<u64, BenchError> {
    let status =
        std::fs::read_to_string("/proc/self/status").map_err(BenchError::system("/proc/self/status"))?;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let (resident, tables) = (value("VmRSS:"), value("VmPTE:"));
    resident.zip(tables).map(|(resident, tables)| (resident + tables) << 10).ok_or_else(|| wrong("memory"))
}
