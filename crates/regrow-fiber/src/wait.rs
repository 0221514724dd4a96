//! Waiting: a task leaves its worker to others, a plain thread sleeps. Who ends the wait need not know which of them it is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use regrow_sync::thread::{self, Thread};
use regrow_sync::{AtomicBool, AtomicU64, Ordering};

use crate::control::ControlAddress;
use crate::post::{Message, Post};
use crate::task::{Task, Woken};
use crate::worker::{self, Worker};

/// A task that waits, for whoever ends the wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskWaiter {
    post: &'static Post,
    control: ControlAddress,
    wait: u64,
}

/// Who waits, for whoever ends the wait.
#[derive(Debug, Clone)]
pub(crate) enum Waiter {
    /// A task.
    Task(TaskWaiter),
    /// A thread that is none of a runtime's, or a worker that is in no task.
    Thread(Arc<Parked>),
    /// A future, with its number.
    Future(Waker, u64),
}

/// A thread that waits.
#[derive(Debug)]
pub(crate) struct Parked {
    thread: Thread,
    is_over: AtomicBool,
    number: u64,
}

regrow_sync::statics! {
    /// Numbers for waits of threads and of futures.
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
}

/// A number that no other thread and no other future waits with.
pub(crate) fn foreign_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl TaskWaiter {
    /// One that waits with its hand open.
    pub(crate) fn with_hand(post: &'static Post, control: ControlAddress) -> Self {
        Self { post, control, wait: control.birth() }
    }

    /// Ends the wait. What comes too late does nothing.
    #[inline(always)]
    pub(crate) fn wake(self) {
        match worker::here() {
            Some(worker) if std::ptr::eq(worker.post(), self.post) => {
                worker.wake(self.control, self.wait, Woken::Happened);
            }
            _ => self.wake_by_post(),
        }
    }

    #[cold]
    fn wake_by_post(self) {
        self.post.send(Message::Wake { control: self.control, wait: self.wait });
    }
}

impl Waiter {
    /// Ends the wait. What comes too late does nothing.
    pub(crate) fn wake(self) {
        match self {
            Self::Task(task) => task.wake(),
            Self::Thread(parked) => {
                parked.is_over.store(true, Ordering::Release);
                parked.thread.unpark();
            }
            Self::Future(waker, _) => waker.wake(),
        }
    }

    /// Whether it is the same one's.
    pub(crate) fn is(&self, other: &Waiter) -> bool {
        match (self, other) {
            // A task is in one wait at a time, and takes itself out of each.
            (Self::Task(one), Self::Task(other)) => one.control == other.control,
            (Self::Thread(one), Self::Thread(other)) => one.number == other.number,
            (Self::Future(_, number), Self::Future(_, other)) => number == other,
            _ => false,
        }
    }
}

/// Those who wait for the same, in their order. Mostly it is one task at most, which stands apart, before all others.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    task: Option<TaskWaiter>,
    others: VecDeque<Waiter>,
}

impl Waiters {
    /// Adds the caller, whose wait begins.
    #[inline(always)]
    pub(crate) fn push_own(&mut self, wait: &Wait<'_>) {
        match wait {
            Wait::Task(task) if self.is_empty() => self.task = Some(task.task_waiter()),
            _ => self.push(wait.waiter()),
        }
    }

    /// Whether nobody waits.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.task.is_none() && self.others.is_empty()
    }

    #[cold]
    pub(crate) fn push(&mut self, waiter: Waiter) {
        self.others.push_back(waiter);
    }

    /// Takes the one that has waited longest, if that is a task that stands apart.
    #[inline(always)]
    pub(crate) fn pop_task(&mut self) -> Option<TaskWaiter> {
        self.task.take()
    }

    /// Takes the one that has waited longest, when no task stands apart.
    #[inline(always)]
    pub(crate) fn pop_other(&mut self) -> Option<Waiter> {
        if self.others.is_empty() { None } else { self.pop_front() }
    }

    #[cold]
    fn pop_front(&mut self) -> Option<Waiter> {
        self.others.pop_front()
    }

    /// Takes the one that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Waiter> {
        self.pop_task().map(Waiter::Task).or_else(|| self.pop_other())
    }

    /// Takes one out; whether it was there.
    pub(crate) fn remove(&mut self, own: &Waiter) -> bool {
        if self.task.is_some_and(|task| Waiter::Task(task).is(own)) {
            self.task = None;
            return true;
        }
        let count = self.others.len();
        self.others.retain(|waiter| !waiter.is(own));
        self.others.len() != count
    }

    /// Ends all their waits.
    pub(crate) fn wake_all(mut self) {
        while let Some(waiter) = self.pop() {
            waiter.wake();
        }
    }
}

/// A wait of the present task: it begins, the task [leaves](TaskWait::leave), and looks how it ended.
#[derive(Clone, Copy)]
pub(crate) struct TaskWait<'a> {
    worker: &'a Worker,
    task: &'a Task,
    /// 0: it has its hand open, and no number.
    number: u64,
}

impl<'a> TaskWait<'a> {
    #[inline(always)]
    fn begin(worker: &'a Worker) -> Self {
        let (task, number) = (worker.task(), worker.number());
        task.wait.store(number, Ordering::Relaxed);
        Self { worker, task, number }
    }

    /// The present task waits for a value to be put to a place of its stack.
    #[inline(always)]
    pub(crate) fn with_hand(worker: &'a Worker, task: &'a Task, place: *mut ()) -> Self {
        debug_assert!(task.hand.get().is_null() && task.woken.get() == Woken::Given);
        task.hand.set(place);
        Self { worker, task, number: 0 }
    }

    /// The number that ends it.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    #[inline(always)]
    fn task_waiter(&self) -> TaskWaiter {
        TaskWaiter { post: self.worker.post(), control: ControlAddress::of(self.task), wait: self.number }
    }

    /// What ends it.
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter::Task(self.task_waiter())
    }

    /// It ends at this time.
    pub(crate) fn set_deadline(&self, deadline: Option<Instant>) {
        if let Some(time) = deadline {
            self.worker.add_timer(time, ControlAddress::of(self.task), self.number);
        }
    }

    /// Lets others run until it is over. How it ended is to be asked once ([`TaskWait::outcome`]), unless the task was given a value: true.
    #[inline(always)]
    pub(crate) fn leave(self) -> bool {
        self.worker.leave(self.task);
        self.task.woken.get() == Woken::Given
    }

    /// How the present task's wait has ended, and what would have ended it, as far as it tells it from others'.
    pub(crate) fn outcome() -> Option<(Woken, Waiter)> {
        let worker = worker::here()?;
        let task = worker.task();
        let own = TaskWaiter::with_hand(worker.post(), ControlAddress::of(task));
        Some((task.woken.replace(Woken::Given), Waiter::Task(own)))
    }

    /// Whether the task does not wait: it is cancelled, unless it unwinds already.
    #[inline(always)]
    pub(crate) fn is_refused(&self) -> bool {
        let is_refused = self.worker.ends_here();
        if is_refused {
            self.worker.give_up_wait(self.task);
        }
        is_refused
    }
}

/// A wait of the caller that begins.
pub(crate) enum Wait<'a> {
    Task(TaskWait<'a>),
    Thread(Arc<Parked>),
}

impl Wait<'_> {
    /// Begins a wait: it is ended with [`Wait::end`].
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        match worker::here() {
            Some(worker) if worker.is_in_task() => Self::Task(TaskWait::begin(worker)),
            _ => Self::of_thread(),
        }
    }

    #[cold]
    fn of_thread() -> Self {
        Self::Thread(Arc::new(Parked {
            thread: thread::current(),
            is_over: AtomicBool::new(false),
            number: foreign_number(),
        }))
    }

    /// What ends it.
    pub(crate) fn waiter(&self) -> Waiter {
        match self {
            Self::Task(task) => task.waiter(),
            Self::Thread(parked) => Waiter::Thread(parked.clone()),
        }
    }

    /// Waits until it is over. A task that is cancelled does not wait, unless it unwinds already.
    #[inline(always)]
    pub(crate) fn end(&self, deadline: Option<Instant>) -> Woken {
        match self {
            Self::Task(task) => {
                if task.is_refused() {
                    return Woken::Cancelled;
                }
                task.set_deadline(deadline);
                task.leave();
                task.task.woken.replace(Woken::Given)
            }
            Self::Thread(parked) => parked.wait(deadline),
        }
    }

    /// Waits until it is over, also when the task is cancelled.
    pub(crate) fn end_in_any_case(self) {
        match self {
            Self::Task(task) => {
                task.leave();
                task.task.woken.set(Woken::Given);
            }
            Self::Thread(parked) => {
                parked.wait(None);
            }
        }
    }
}

impl Parked {
    /// Waits until it is over.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Woken {
        while !self.is_over.load(Ordering::Acquire) {
            match deadline.map(|time| time.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(left) if left.is_zero() => return Woken::TimedOut,
                Some(left) => thread::park_timeout(left),
            }
        }
        Woken::Happened
    }
}

/// What goes up the stack of a task that is cancelled.
#[derive(Debug)]
pub(crate) struct Cancelled;

/// Ends the present task, which is cancelled.
#[cold]
pub(crate) fn unwind() -> ! {
    std::panic::resume_unwind(Box::new(Cancelled))
}
