//! The end of a task, for whoever waits for it.

#![allow(unsafe_code, reason = "what tasks borrow is promised to outlive them, not by its type")]

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use regrow_sync::handed::Handed;
use regrow_sync::{AtomicU32, Mutex, MutexGuard, Ordering};

use crate::control::ControlAddress;
use crate::error::{JoinError, StackError};
use crate::fresh::{Function, Start};
use crate::post::{Message, Post};
use crate::step::{Progress, Step};
use crate::task::Woken;
use crate::wait::{self, Cancelled, Wait, Waiter, Waiters};
use crate::worker::Machine;

/// What a task and its handle share.
#[derive(Debug)]
pub(crate) struct Packet<T> {
    state: Mutex<State<T>>,
    /// [`BEGUN`], [`CANCELLED`]. Of who begins the task and who cancels it, the second one sees what the first one has done.
    steps: AtomicU32,
    /// Where the task is, when it has begun.
    place: Handed<(&'static Post, ControlAddress, u64)>,
}

/// The task has begun.
const BEGUN: u32 = 1;
/// It is to end.
const CANCELLED: u32 = 2;

#[derive(Debug)]
enum State<T> {
    Running(Waiters),
    Ended(Option<Result<T, JoinError>>),
}

/// The handle of a task. Dropped, it leaves the task to itself.
///
/// It is a future as well, so that a future may wait for a task.
pub struct JoinHandle<T> {
    packet: Arc<Packet<T>>,
    /// The number of its wait as a future.
    number: u64,
}

impl<T> Packet<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Running(Waiters::default())),
            steps: AtomicU32::new(0),
            place: Handed::new(),
        })
    }

    pub(crate) fn handle(self: &Arc<Self>) -> JoinHandle<T> {
        JoinHandle { packet: self.clone(), number: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // What is behind it is whole between any two operations.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the result, unless there is one, and wakes all who wait for it.
    pub(crate) fn end(&self, result: Result<T, JoinError>) {
        let mut state = self.lock();
        if let State::Running(waiters) = &mut *state {
            let waiters = std::mem::take(waiters);
            *state = State::Ended(Some(result));
            drop(state);
            waiters.wake_all();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.lock(), State::Ended(_))
    }

    /// Says where the task is. It begins.
    fn begin(&self, post: &'static Post, control: ControlAddress, birth: u64) {
        // SAFETY: a task begins once, and others look for its place when it has.
        unsafe { self.place.leave((post, control, birth)) };
        self.steps.fetch_or(BEGUN, Ordering::AcqRel);
    }

    fn cancel(&self) {
        if self.steps.fetch_or(CANCELLED, Ordering::AcqRel) & BEGUN != 0 {
            // SAFETY: it has begun.
            let (post, control, birth) = unsafe { self.place.get() };
            post.send(Message::Cancel { control, birth });
        }
    }

    fn is_cancelled(&self) -> bool {
        self.steps.load(Ordering::Relaxed) & CANCELLED != 0
    }
}

/// What can be told to end.
pub(crate) trait Cancel: Send + Sync {
    /// It ends at its next wait.
    fn cancel(&self);
}

impl<T: Send> Cancel for Packet<T> {
    fn cancel(&self) {
        self.cancel();
    }
}

/// Cancels a task: [`JoinHandle::canceller`].
#[derive(Clone)]
pub struct Canceller(Arc<dyn Cancel>);

impl Canceller {
    /// Has the task end, as [`JoinHandle::cancel`].
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Canceller")
    }
}

/// A task that has not begun: its function, where the result goes, and a guard that is dropped when both are gone.
pub(crate) struct Unstarted<F, T, G> {
    function: Option<F>,
    packet: Arc<Packet<T>>,
    guard: Option<G>,
}

impl<F: FnOnce() -> T + 'static, T: 'static> Unstarted<F, T, ()> {
    pub(crate) fn new(function: F, packet: Arc<Packet<T>>) -> Self {
        Self { function: Some(function), packet, guard: None }
    }
}

impl<F: FnOnce() -> T, T, G> Unstarted<F, T, G> {
    /// A task that borrows.
    ///
    /// # Safety
    /// What the function, its result and the guard borrow is there until the guard was dropped.
    pub(crate) unsafe fn borrowing(function: F, packet: Arc<Packet<T>>, guard: G) -> Self {
        Self { function: Some(function), packet, guard: Some(guard) }
    }
}

impl<F, T, G> Drop for Unstarted<F, T, G> {
    fn drop(&mut self) {
        if self.function.take().is_some() {
            // Its runtime has ended before it began.
            self.packet.end(Err(JoinError::Cancelled));
        }
    }
}

impl<F: FnOnce() -> T, T, G> Start for Unstarted<F, T, G> {
    fn begin(mut self: Box<Self>, control: ControlAddress, birth: u64, post: &'static Post) -> Function {
        let (function, packet, guard) = (self.function.take(), self.packet.clone(), self.guard.take());
        drop(self);
        packet.begin(post, control, birth);
        let function: Box<dyn FnOnce() + '_> = Box::new(move || {
            let (packet, guard) = (packet, guard);
            match function.filter(|_| !packet.is_cancelled()) {
                Some(function) => packet.end(catch_unwind(AssertUnwindSafe(function)).map_err(of_panic)),
                None => packet.end(Err(JoinError::Cancelled)),
            }
            drop(packet);
            drop(guard);
        });
        // SAFETY: the promise of `borrowing`: what is borrowed is there until the guard is dropped, and nothing of the function is left then.
        unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, Function>(function) }
    }

    fn refuse(mut self: Box<Self>, error: StackError) {
        self.function = None;
        self.packet.end(Err(JoinError::Stack(error)));
    }
}

/// A state machine, and where its result goes.
pub(crate) struct Stepping<S: Step> {
    step: S,
    packet: Arc<Packet<S::Output>>,
}

impl<S: Step> Stepping<S> {
    pub(crate) fn new(step: S, packet: Arc<Packet<S::Output>>) -> Self {
        Self { step, packet }
    }
}

impl<S: Step> Machine for Stepping<S> {
    #[inline]
    fn step(&mut self) -> bool {
        if self.packet.is_cancelled() {
            return true;
        }
        match catch_unwind(AssertUnwindSafe(|| self.step.step())) {
            Ok(Progress::More) => return false,
            Ok(Progress::Done(output)) => self.packet.end(Ok(output)),
            Err(payload) => self.packet.end(Err(of_panic(payload))),
        }
        true
    }
}

impl<S: Step> Drop for Stepping<S> {
    fn drop(&mut self) {
        // Unless it has ended otherwise.
        self.packet.end(Err(JoinError::Cancelled));
    }
}

fn of_panic(payload: Box<dyn Any + Send>) -> JoinError {
    if payload.is::<Cancelled>() { JoinError::Cancelled } else { JoinError::Panicked(payload) }
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the task: as a task, or as a thread.
    ///
    /// # Errors
    /// A [`JoinError`] says why there is no result.
    pub fn join(self) -> Result<T, JoinError> {
        self.wait(None).unwrap_or(Err(JoinError::Cancelled))
    }

    /// The same, for so long; afterwards the handle comes back.
    ///
    /// # Errors
    /// The handle, when the time is over.
    pub fn join_within(self, timeout: Duration) -> Result<Result<T, JoinError>, Self> {
        self.wait(Instant::now().checked_add(timeout)).ok_or(self)
    }

    fn wait(&self, deadline: Option<Instant>) -> Option<Result<T, JoinError>> {
        loop {
            let mut state = self.packet.lock();
            let waiters = match &mut *state {
                State::Ended(result) => return Some(result.take().unwrap_or(Err(JoinError::Taken))),
                State::Running(waiters) => waiters,
            };
            let wait = Wait::begin();
            waiters.push_own(&wait);
            drop(state);
            let woken = wait.end(deadline);
            if woken != Woken::Happened {
                if let State::Running(waiters) = &mut *self.packet.lock() {
                    waiters.remove(&wait.waiter());
                }
                if woken == Woken::Cancelled {
                    wait::unwind();
                }
                return None;
            }
        }
    }

    /// Has the task end at its next wait, or at the present one: it unwinds there. What has begun and waits for nothing runs on.
    pub fn cancel(&self) {
        self.packet.cancel();
    }

    /// What cancels the task, for others than the handle's owner.
    #[must_use]
    pub fn canceller(&self) -> Canceller
    where
        T: Send + 'static,
    {
        Canceller(self.packet.clone())
    }

    /// Whether the task has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.packet.has_ended()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.number == 0 {
            self.number = wait::foreign_number();
        }
        let own = Waiter::Future(context.waker().clone(), self.number);
        match &mut *self.packet.lock() {
            State::Ended(result) => Poll::Ready(result.take().unwrap_or(Err(JoinError::Taken))),
            State::Running(waiters) => {
                waiters.remove(&own);
                waiters.push(own);
                Poll::Pending
            }
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("JoinHandle").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::future::block_on;

    /// A thread does what a worker would.
    fn run<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let packet = Packet::new();
        let handle = packet.handle();
        let task = Box::new(Unstarted::new(function, packet));
        let thread = std::thread::spawn(move || {
            let Some(post) = Post::take() else { return };
            post.move_in();
            task.begin(ControlAddress(std::ptr::null()), 1, post)();
            post.give_back(post.first_number());
        });
        drop(thread);
        handle
    }

    #[test]
    fn threads_and_futures_have_the_results_of_tasks() {
        assert_eq!(run(|| Box::new(7)).join().expect("it has a result"), Box::new(7));
        assert_eq!(block_on(run(|| Box::new(8))).expect("it has a result"), Box::new(8));
        let mut slow = run(|| std::thread::sleep(Duration::from_millis(5)));
        let joined = loop {
            match slow.join_within(Duration::from_millis(1)) {
                Ok(joined) => break joined,
                Err(handle) => slow = handle,
            }
        };
        assert!(joined.is_ok());
        let panics = run(|| std::panic::resume_unwind(Box::new(9_u8)));
        assert!(matches!(panics.join(), Err(JoinError::Panicked(payload)) if payload.is::<u8>()));
    }

    #[test]
    fn a_task_that_does_not_begin_says_why() {
        let packet = Packet::new();
        let handle = packet.handle();
        let captured = Arc::new(());
        let kept = captured.clone();
        let task = Unstarted::new(move || drop(kept), packet);
        let waits = std::thread::spawn(move || handle.join());
        drop(task);
        assert!(matches!(waits.join().expect("it does not panic"), Err(JoinError::Cancelled)));
        assert_eq!(Arc::strong_count(&captured), 1);
        let cancelled = Packet::new();
        let handle = cancelled.handle();
        handle.cancel();
        let task = Box::new(Unstarted::new(|| 1, cancelled));
        let post = Post::take().expect("there are few");
        post.move_in();
        task.begin(ControlAddress(std::ptr::null()), 1, post)();
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
        post.give_back(post.first_number());
    }
}
