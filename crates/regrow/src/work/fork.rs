//! Works in copies of this process.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use regrow_sys::copy;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::died::{Died, words_of};
use super::exchange::{Answer, Exchange, Header, to_bytes};
use super::process::{Outcome, Process, Task, reader};
use super::shared::Inheritance;
use super::weight::Weight;

/// Starts a copy of this process that does a work.
pub(crate) fn start<T: Serialize + DeserializeOwned>(
    work: impl FnOnce() -> T,
    memory: u64,
) -> Result<Process<T>, Died> {
    try_start(work, memory).map_err(|error| Died::not_started(Weight::Fork, error))
}

fn try_start<T: Serialize + DeserializeOwned>(
    work: impl FnOnce() -> T,
    memory: u64,
) -> io::Result<Process<T>> {
    let exchange = Exchange::begin(Header { function: 0, program: 0, memory }, &[])?;
    // What stands in the buffer would be written twice.
    io::stdout().flush()?;
    // Both sides have both; the copy alone does the work.
    let mut both = Some((work, Inheritance::begin()?));
    let pid = copy::fork(|| {
        regrow_fiber::forget_runtime();
        let Some((work, inheritance)) = both.take() else { return 1 };
        if inheritance.take_up().is_err() {
            return 1;
        }
        let _ = exchange.answer(&perform(&exchange, work, memory));
        let _ = io::stdout().flush();
        0
    })?;
    let task = Task::copy(pid)?;
    // What the work holds of channels is the copy's now.
    if let Some((work, inheritance)) = both {
        inheritance.pass_on(|| drop(work));
    }
    Ok(Process { weight: Weight::Fork, task, result: Outcome::Exchange(exchange, reader()), memory })
}

/// Does a work, in the copy.
fn perform<T: Serialize>(exchange: &Exchange, work: impl FnOnce() -> T, memory: u64) -> Answer {
    if let Err(error) = super::limit::apply(exchange, memory) {
        return Answer::Refused(format!("its memory cannot be limited: {error}"));
    }
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => match to_bytes(&result) {
            Ok(bytes) => Answer::Done(bytes),
            Err(error) => Answer::Refused(format!("its result: {error}")),
        },
        Err(payload) => Answer::Panicked(words_of(payload.as_ref())),
    }
}
