//! A runtime behind a program that is none itself: threads start tasks in it, and wait for them.

use std::panic::Location;

use crate::channel::{Sender, channel};
use crate::error::RuntimeError;
use crate::fresh::FreshSend;
use crate::join::{JoinHandle, Packet, Stepping, Unstarted};
use crate::runtime::Runtime;
use crate::stack::DEFAULT_STACK_BYTES;
use crate::step::Step;
use crate::worker::{self, Worker};

/// How many starts may be on their way.
const STARTS: usize = 1024;

/// What a worker does to start a task.
type Start = Box<dyn FnOnce(&Worker) + Send>;

/// A runtime on threads of its own. Dropped, it ends with the tasks that it has then.
///
/// ```
/// use regrow_fiber::Background;
///
/// let background = Background::start()?;
/// let task = background.spawn(|| 6 * 7);
/// assert_eq!(task.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Background {
    starts: Sender<Start>,
}

impl Background {
    /// Starts a runtime with a worker for each processor.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn start() -> Result<Self, RuntimeError> {
        let (starts, receiver) = channel::<Start>(STARTS);
        let root = move || {
            for start in receiver.iter() {
                if let Some(worker) = worker::here() {
                    start(worker);
                }
            }
        };
        // A runtime that cannot begin drops the receiver: each task is cancelled then.
        let run = move || drop(Runtime::new().run(root));
        let thread = std::thread::Builder::new().name("fibers-0".to_owned()).spawn(run);
        thread.map(|_| Self { starts }).map_err(|source| RuntimeError::Thread { number: 0, source })
    }

    /// Starts a task.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(&self, function: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let packet = Packet::new();
        let handle = packet.handle();
        let (site, function) = (Location::caller(), Box::new(Unstarted::new(function, packet)));
        let fresh = FreshSend::new(None, DEFAULT_STACK_BYTES, site, function);
        self.start_by(Box::new(move |worker| worker.put(fresh)));
        handle
    }

    /// Starts a task without a stack.
    #[track_caller]
    pub fn spawn_step<S>(&self, step: S) -> JoinHandle<S::Output>
    where
        S: Step<Output: Send> + Send + 'static,
    {
        let packet = Packet::new();
        let handle = packet.handle();
        let (site, stepping) = (Location::caller(), Stepping::new(step, packet));
        self.start_by(Box::new(move |worker| worker.put_machine(Box::new(stepping), site)));
        handle
    }

    fn start_by(&self, start: Start) {
        // What is not taken is dropped, and its handle says that it was cancelled.
        drop(self.starts.send(start));
    }
}
