//! Works within this process: state machines, fibers and threads.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use once_cell::race::OnceBox;
use regrow_fiber::{Background, JoinHandle, Progress, Receiver, Step, channel};

use super::died::{Died, StartError, of_task};
use super::weight::Weight;
use crate::per_process::PerProcess;

/// A work that is done in one step.
struct Once<F>(Option<F>);

impl<F: FnOnce() -> T, T> Step for Once<F> {
    type Output = T;

    fn step(&mut self) -> Progress<T> {
        match self.0.take() {
            Some(work) => Progress::Done(work()),
            None => Progress::More,
        }
    }
}

/// What runs the tasks of those who are in no runtime themselves.
static BACKGROUND: OnceBox<PerProcess<OnceBox<Background>>> = OnceBox::new();

/// The runtime behind the program.
pub(crate) fn background() -> Result<&'static Background, StartError> {
    let of_process = BACKGROUND.get_or_init(|| Box::new(PerProcess::new(OnceBox::new())));
    of_process
        .get(|_| OnceBox::new())
        .get_or_try_init(|| Background::start().map(Box::new))
        .map_err(|error| StartError::Fiber(error.to_string()))
}

/// A work as a state machine.
pub(crate) fn step<S: Step<Output: Send + 'static> + Send + 'static>(
    machine: S,
) -> Result<JoinHandle<S::Output>, Died> {
    if regrow_fiber::is_in_task() {
        return Ok(regrow_fiber::spawn_step(machine));
    }
    let background = background().map_err(|why| Died::not_started(Weight::Step, why))?;
    Ok(background.spawn_step(machine))
}

/// A work in one step.
pub(crate) fn once<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Died> {
    step(Once(Some(work)))
}

/// A work as a fiber.
pub(crate) fn fiber<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Died> {
    if regrow_fiber::is_in_task() {
        return Ok(regrow_fiber::spawn(work));
    }
    let background = background().map_err(|why| Died::not_started(Weight::Fiber, why))?;
    Ok(background.spawn(work))
}

/// A work that has a thread.
#[derive(Debug)]
pub(crate) struct Thread<T: Send> {
    result: Receiver<Result<T, Died>>,
    is_cancelled: Arc<AtomicBool>,
}

thread_local! {
    /// What tells the work of this thread that it was cancelled.
    static OWN: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Whether somebody has cancelled the present work, which has a thread: only it can end itself.
#[must_use]
pub fn is_cancelled() -> bool {
    OWN.with_borrow(|own| own.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)))
}

impl<T: Send + 'static> Thread<T> {
    pub(crate) fn start(work: impl FnOnce() -> T + Send + 'static) -> Result<Self, Died> {
        let (sender, result) = channel(1);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_cancelled);
        let body = move || {
            OWN.set(Some(flag));
            let result = catch_unwind(AssertUnwindSafe(work));
            // Nobody may wait for it any more.
            let _ = sender.send(result.map_err(|payload| Died::panicked(payload.as_ref())));
        };
        let started: io::Result<_> = std::thread::Builder::new().name("work".to_owned()).spawn(body);
        started.map_err(|error| Died::not_started(Weight::Thread, error))?;
        Ok(Self { result, is_cancelled })
    }

    pub(crate) fn join_until(&self, deadline: Option<Instant>) -> Option<Result<T, Died>> {
        let received = match deadline {
            None => self.result.receive(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                match self.result.receive_within(left) {
                    Err(regrow_fiber::ReceiveError::Empty) => return None,
                    received => received,
                }
            }
        };
        Some(received.unwrap_or_else(|_| Err(Died::Lost("its thread has ended without a result".to_owned()))))
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

/// Waits for a task, until the time; the handle comes back when it is over.
pub(crate) fn join_until<T>(
    weight: Weight,
    task: JoinHandle<T>,
    deadline: Option<Instant>,
) -> Result<Result<T, Died>, JoinHandle<T>> {
    let result = match deadline {
        None => task.join(),
        Some(deadline) => task.join_within(deadline.saturating_duration_since(Instant::now()))?,
    };
    Ok(result.map_err(|error| of_task(weight, error)))
}
