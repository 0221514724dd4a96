//! A runtime: workers, and the tasks that they run.
//!
//! ```text
//!   Runtime::run(root) ── worker 0: this thread     ── tasks …
//!                     └── workers 1 …: their own    ── tasks …      all of them end with the root
//! ```
//!
//! A task is a fiber that a worker runs. [`spawn`] makes one that any worker may begin; [`spawn_here`] one that stays with this one, and need not
//! be [`Send`]. Where it has begun a task stays, so that what is on its stack may belong to the thread.

use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow_sync::{AtomicBool, OnceLock, Ordering, thread};

use crate::error::{JoinError, RuntimeError};
use crate::fiber::Builder;
use crate::fresh::{Fresh, FreshQueues, FreshSend};
use crate::join::{JoinHandle, Packet, Stepping, Unstarted};
use crate::post::{MOST_POSTS, Post};
use crate::stack::DEFAULT_STACK_BYTES;
use crate::step::Step;
use crate::task::{Marks, Woken};
use crate::wait::{self, Wait};
use crate::worker::{self, Colleagues, Worker};

/// How a runtime is made, and what runs its root.
#[derive(Debug, Clone)]
pub struct Runtime {
    workers: usize,
    predicts: bool,
    long_from: Duration,
}

/// Tasks whose run uses so much of the processor are long, unless the runtime is told otherwise.
const LONG_FROM: Duration = Duration::from_millis(1);

impl Default for Runtime {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime {
    /// A runtime with a worker for each processor that this process may use.
    #[must_use]
    pub fn new() -> Self {
        Self::with_workers(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// A runtime with so many workers; one at least.
    #[must_use]
    pub fn with_workers(workers: usize) -> Self {
        Self { workers: workers.max(1), predicts: false, long_from: LONG_FROM }
    }

    /// Tasks that are predicted to run long run when no other task can, and one of them each ten milliseconds at least.
    ///
    /// A task is long when a *run* of it uses more of the processor than a millisecond, or than [`Runtime::long_from`] says. A run is what it uses from
    /// its begin, or from the end of a wait, to its next wait or its end; giving way does not end it. Each worker learns by the place in the
    /// source that has started a task: by [`spawn`], [`spawn_here`], [`spawn_step`], [`Scope::spawn`](crate::Scope::spawn). A task that turns
    /// out long is long from then on, one that turns out short is short again, and what a task says of itself comes before all that ([`set_long`]).
    ///
    /// It costs a few nanoseconds for each task that begins, and nothing at a switch.
    #[must_use]
    pub fn with_predictions(self) -> Self {
        Self { predicts: true, ..self }
    }

    /// How much of the processor a run uses that is long: see [`Runtime::with_predictions`].
    #[must_use]
    pub fn long_from(self, run: Duration) -> Self {
        Self { long_from: run, ..self }
    }

    /// Runs a function as a task on this thread. When it ends, all other tasks are cancelled, and this returns.
    ///
    /// # Errors
    /// A [`RuntimeError`]: no thread for a worker, or no stack for the function.
    ///
    /// # Panics
    /// When the function panics, with its panic.
    #[track_caller]
    pub fn run<T: 'static>(&self, root: impl FnOnce() -> T + 'static) -> Result<T, RuntimeError> {
        let posts: Vec<&'static Post> = (0..self.workers).map_while(|_| Post::take()).collect();
        if posts.len() < self.workers {
            posts.into_iter().for_each(|post| post.give_back(post.first_number()));
            return Err(RuntimeError::Workers { most: MOST_POSTS });
        }
        let queues: Vec<FreshQueues> = (0..self.workers).map(|_| FreshQueues::new()).collect();
        let colleagues = Arc::new(Colleagues {
            stealers: queues.iter().map(FreshQueues::stealers).collect(),
            posts: (0..self.workers).map(|_| OnceLock::new()).collect(),
            is_over: AtomicBool::new(false),
        });
        let packet = Packet::new();
        let handle = packet.handle();
        let (site, long_from) = (Location::caller(), self.predicts.then_some(self.long_from));
        let result = thread::scope(|scope| {
            let mut queues = queues.into_iter().zip(posts).enumerate();
            let own = queues.next().map(|(number, (fresh, post))| {
                Worker::new(number, post, fresh, colleagues.clone(), long_from)
            });
            let over = End(&colleagues);
            for (number, (fresh, post)) in queues {
                let colleagues = colleagues.clone();
                let thread =
                    thread::Builder::new().name(format!("fibers-{number}")).spawn_scoped(scope, move || {
                        let worker = Worker::new(number, post, fresh, colleagues.clone(), long_from);
                        worker.run(&|| colleagues.is_over.load(Ordering::Acquire));
                    });
                thread.map_err(|source| RuntimeError::Thread { number, source })?;
            }
            if let Some(own) = own {
                let root = Box::new(Unstarted::new(root, packet.clone()));
                own.put_here(Fresh { name: None, stack_bytes: DEFAULT_STACK_BYTES, site, function: root });
                own.run(&|| packet.has_ended() && over.tell());
            }
            drop(over);
            Ok::<(), RuntimeError>(())
        });
        result?;
        match handle.join() {
            Ok(value) => Ok(value),
            Err(JoinError::Panicked(payload)) => std::panic::resume_unwind(payload),
            Err(JoinError::Stack(error)) => Err(error.into()),
            Err(other) => std::panic::resume_unwind(Box::new(other.to_string())),
        }
    }
}

/// Ends all workers when it is dropped.
struct End<'a>(&'a Colleagues);

impl End<'_> {
    /// Tells all workers; true.
    fn tell(&self) -> bool {
        self.0.is_over.store(true, Ordering::Release);
        for post in self.0.posts.iter().filter_map(OnceLock::get) {
            post.wake();
        }
        true
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.tell();
    }
}

/// Starts a task that any worker may begin.
///
/// Outside of a runtime there is none: the handle says so ([`JoinError::NoRuntime`]).
#[track_caller]
pub fn spawn<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(function)
}

/// Starts a task that stays with the present worker.
#[track_caller]
pub fn spawn_here<T: 'static>(function: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    Builder::new().spawn_here(function)
}

/// Starts a task without a stack, which stays with the present worker: a [state machine](Step), of which each step runs between those of others.
#[track_caller]
pub fn spawn_step<S: Step + 'static>(step: S) -> JoinHandle<S::Output> {
    let site = Location::caller();
    started(|worker, packet| worker.put_machine(Box::new(Stepping::new(step, packet)), site))
}

impl Builder {
    /// Starts a task that any worker may begin: see [`spawn`].
    #[track_caller]
    pub fn spawn<T: Send + 'static>(self, function: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let (name, stack_bytes) = self.into_parts();
        let site = Location::caller();
        started(|worker, packet| {
            worker.put(FreshSend::new(name, stack_bytes, site, Box::new(Unstarted::new(function, packet))));
        })
    }

    /// Starts a task that stays with the present worker: see [`spawn_here`].
    #[track_caller]
    pub fn spawn_here<T: 'static>(self, function: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
        let (name, stack_bytes) = self.into_parts();
        let site = Location::caller();
        started(|worker, packet| {
            worker.put_here(Fresh {
                name,
                stack_bytes,
                site,
                function: Box::new(Unstarted::new(function, packet)),
            });
        })
    }
}

/// Has the present worker start something; its handle, which says so where there is no worker.
fn started<T>(start: impl FnOnce(&Worker, Arc<Packet<T>>)) -> JoinHandle<T> {
    let packet = Packet::new();
    let handle = packet.handle();
    match worker::here() {
        Some(worker) => start(worker, packet),
        None => packet.end(Err(JoinError::NoRuntime)),
    }
    handle
}

/// Whether the caller is a task of a runtime.
#[must_use]
pub fn is_in_task() -> bool {
    worker::here().is_some_and(Worker::is_in_task)
}

/// Has a forked copy of this process, in the middle of a task, be a plain thread: the other tasks are the original's, and are not to run here too.
pub fn forget_runtime() {
    worker::forget();
}

/// Lets all other tasks run that can. In a plain thread it gives the processor to others.
#[inline(always)]
pub fn yield_now() {
    match worker::here() {
        Some(worker) if worker.is_in_task() => {
            worker.give_way();
            if worker.ends_here() {
                wait::unwind();
            }
        }
        _ => thread::yield_now(),
    }
}

/// Waits for so long.
pub fn sleep(time: Duration) {
    let wait = Wait::begin();
    if wait.end(Instant::now().checked_add(time)) == Woken::Cancelled {
        wait::unwind();
    }
}

/// Says of the present task that it will run long: it runs when no other task can, and at least each ten milliseconds one of those. The counterpart
/// is a task that is expected to be short. What a task says of itself is not predicted any more ([`Runtime::with_predictions`]).
pub fn set_long(is_long: bool) {
    if let Some(worker) = worker::here() {
        let task = worker.task();
        let marks = task.marks.get().with(Marks::BY_HAND);
        task.marks.set(if is_long { marks.with(Marks::LONG) } else { marks.without(Marks::LONG) });
    }
}
