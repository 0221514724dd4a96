//! `regrow bench --ladder`: how light a process can get. Fibers, tasks and state machines beside what people use for them.
//!
//! ```text
//!   switch      there and back, two of them, hot
//!   round       round robin over many, whose stacks are not in the caches
//!   creation    create, run, end: on a stack that was used before, and on a fresh one
//!   channel     one byte over a channel and back
//!   waiting     the memory of a fiber that waits
//!   rungs       the price of each weight of process, and a fresh process beside a copy of this one
//!   beside      short tasks while long ones run, with predictions and without
//!   letters     a file copied with each byte handed over: the experiment of the letters
//! ```
//!
//! All that is compared has its turns in one run, one after the other, many short ones; a ratio is the median of those of adjacent turns. Each turn
//! checks what it has computed.

mod beside;
mod channel;
mod contest;
mod creation;
mod letters;
mod native;
mod others;
mod round;
mod rungs;
mod switch;
mod waiting;

use crate::error::BenchError;
use crate::figure::Figure;

/// To be called before anything else of the benchmark: the fresh processes of this program begin here.
pub fn ready() {
    regrow::work::ready();
}

/// Measures everything.
///
/// # Errors
/// [`BenchError`] where there is no memory, no thread or no process, or a turn computed something else.
pub fn measure() -> Result<Vec<Figure>, BenchError> {
    // A copy of this process takes longer behind a million fibers, whose page tables stay.
    let mut figures = rungs::measure()?;
    figures.extend(letters::measure()?);
    figures.extend(switch::measure()?);
    figures.extend(creation::measure()?);
    figures.extend(channel::measure()?);
    figures.extend(beside::measure()?);
    figures.extend(round::measure()?);
    figures.extend(waiting::measure()?);
    Ok(figures)
}
