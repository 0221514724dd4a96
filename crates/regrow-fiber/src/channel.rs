//! Channels: values go from tasks, threads and futures to others, in order, as many at a time as there is room for.
//!
//! The state stands behind a lock that its first worker takes by a store and a load, as long as no other thread uses the channel. A task that waits there
//! for a value, and nobody else does, waits with its hand open: whoever sends puts the value onto its stack, and it is the next task.
//!
//! ```text
//!   hand     NOBODY   nothing is in the channel, nobody waits, both sides are there     receive ─> a task
//!            a task   the same, but that this one waits                                 send ─> NOBODY
//!            REST     all else, and as long as nobody has looked: the rest of the state says what there is
//! ```
//!
//! Hands are for tasks of the worker that owns the lock, so that a value never goes into a hand of another thread. Whoever does anything else than send or
//! receive there closes the hand first: its task then stands among the others that wait, in its place, and looks for itself when its turn comes.

#![allow(unsafe_code, reason = "a value is put where a task that waits has a place for it")]

use std::collections::VecDeque;
use std::fmt;
use std::ops::ControlFlow;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow_sync::owned::{Owned, OwnedGuard};

use crate::control::ControlAddress;
use crate::desk;
use crate::error::{ReceiveError, SendError, TrySendError};
use crate::hand::Place;
use crate::post::Post;
use crate::task::Woken;
use crate::wait::{self, TaskWait, TaskWaiter, Wait, Waiter, Waiters};
use crate::worker::{self, Worker};

/// Makes a channel with room for so many values; at least one.
#[must_use]
pub fn channel<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    // The lock has models of its own: in those of channels it is mostly the simplest of its kind.
    with_lock(capacity, cfg!(loom))
}

/// The same. `is_shared`: no worker owns it, so that no hand is ever open.
pub(crate) fn with_lock<T: Send>(capacity: usize, is_shared: bool) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.max(1);
    let state = State {
        hand: REST,
        home: None,
        values: VecDeque::with_capacity(capacity.min(1024)),
        capacity,
        senders: 1,
        receivers: 1,
        sending: Waiters::default(),
        receiving: Waiters::default(),
    };
    let shared = Arc::new(Shared(Owned::new(state, is_shared)));
    (Sender(shared.clone()), Receiver(shared))
}

/// The side that sends. The last one that is dropped closes the channel.
pub struct Sender<T: Send>(Arc<Shared<T>>);

/// The side that receives. The last one that is dropped closes the channel.
pub struct Receiver<T: Send>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T>(Owned<State<T>>);

#[derive(Debug)]
#[repr(C)]
struct State<T> {
    /// See the module.
    hand: ControlAddress,
    /// The post of the worker whose task it is.
    home: Option<&'static Post>,
    values: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receivers: usize,
    sending: Waiters,
    receiving: Waiters,
}

const NOBODY: ControlAddress = ControlAddress(ptr::null());
const REST: ControlAddress = ControlAddress(ptr::without_provenance(1));

/// Which side waits.
#[derive(Debug, Clone, Copy)]
enum Side {
    Sending,
    Receiving,
}

impl<T> Shared<T> {
    #[inline(always)]
    fn lock(&self) -> OwnedGuard<'_, State<T>> {
        // SAFETY: the desk is this thread's; nothing that happens with the lock takes another one.
        unsafe { self.0.take(desk::of_thread()) }
    }

    /// The lock, for tasks of the worker that owns it.
    #[inline(always)]
    fn lock_here(&self) -> Option<(&Worker, OwnedGuard<'_, State<T>>)> {
        let worker = worker::here()?;
        // SAFETY: as in `lock`.
        let state = unsafe { self.0.try_own(worker.post().desk()) }?;
        Some((worker, state))
    }

    /// Sends a value where that is quickly done: into a hand, or to those that wait to be received. Otherwise it comes back.
    #[inline(always)]
    fn send_here(&self, value: T) -> Option<T> {
        let Some((worker, mut state)) = self.lock_here() else { return Some(value) };
        let task = state.hand;
        if task == NOBODY || task == REST {
            if state.receivers == 0 || state.values.len() >= state.capacity {
                return Some(value);
            }
            state.hand = REST;
            state.values.push_back(value);
            wake_one(state, Side::Receiving);
            return None;
        }
        state.hand = NOBODY;
        // SAFETY: a task that stands there is this worker's, and waits for a value of this channel; or its wait is over, which it has not seen as yet.
        unsafe { worker.give(task, value) }
    }

    /// Receives a value where that is quickly done: it is there, or the present task opens its hand and waits for nothing else.
    #[inline(always)]
    fn receive_here(&self, place: *mut Place<T>) -> Option<ControlFlow<T, TaskWait<'_>>> {
        let (worker, mut state) = self.lock_here()?;
        if state.hand != NOBODY {
            if let Some(value) = state.values.pop_front() {
                wake_one(state, Side::Sending);
                return Some(ControlFlow::Break(value));
            }
            if !state.is_plain() {
                return None;
            }
            state.home = Some(worker.post());
        }
        let task = worker.task();
        if task.is_cancelled.get() {
            return None;
        }
        state.hand = ControlAddress::of(task);
        Some(ControlFlow::Continue(TaskWait::with_hand(worker, task, place.cast())))
    }

    /// Takes a wait for a value back, behind which is looked for one.
    fn remove(&self, own: &Waiter) {
        let mut state = self.lock();
        state.close_hand();
        state.receiving.remove(own);
    }

    /// Takes a wait back that is over for another reason. If it was ended meanwhile, the next one of its side has its turn.
    fn withdraw(&self, side: Side, own: &Waiter) {
        let mut state = self.lock();
        state.close_hand();
        let waiters = state.waiters(side);
        let next = if waiters.remove(own) { None } else { waiters.pop() };
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }

    /// Ends the present task, which has begun to wait, if it is to end there.
    #[inline(always)]
    fn end_if_refused(&self, side: Side, task: &TaskWait<'_>) {
        if task.is_refused() {
            self.withdraw(side, &task.waiter());
            wait::unwind();
        }
    }

    /// Sends a value if there is room; otherwise the lock comes back.
    fn put(&self, value: T) -> Result<(), (TrySendError<T>, OwnedGuard<'_, State<T>>)> {
        let mut state = self.lock();
        state.close_hand();
        if state.receivers == 0 {
            return Err((TrySendError::Closed(value), state));
        }
        if state.values.len() >= state.capacity {
            return Err((TrySendError::Full(value), state));
        }
        state.values.push_back(value);
        wake_one(state, Side::Receiving);
        Ok(())
    }

    /// Takes a value if there is one; otherwise the lock comes back.
    fn take(&self) -> Result<T, (ReceiveError, OwnedGuard<'_, State<T>>)> {
        let mut state = self.lock();
        state.close_hand();
        let Some(value) = state.values.pop_front() else {
            let error = if state.senders == 0 { ReceiveError::Closed } else { ReceiveError::Empty };
            return Err((error, state));
        };
        wake_one(state, Side::Sending);
        Ok(value)
    }

    /// Sends a value, or begins to wait for room. A value that is left when there is no wait comes back for good.
    #[inline(always)]
    fn offer(&self, value: &mut Option<T>) -> Option<TaskWait<'_>> {
        loop {
            let (back, mut state) = match self.put(value.take()?) {
                Ok(()) => return None,
                Err((TrySendError::Closed(back), _)) => {
                    *value = Some(back);
                    return None;
                }
                Err((TrySendError::Full(back), state)) => (back, state),
            };
            *value = Some(back);
            let wait = Wait::begin();
            state.sending.push_own(&wait);
            drop(state);
            match wait {
                Wait::Task(task) => {
                    self.end_if_refused(Side::Sending, &task);
                    return Some(task);
                }
                Wait::Thread(parked) => parked.wait(None),
            };
        }
    }

    /// What follows a wait for room.
    #[inline(never)]
    fn after_room(&self) {
        if let Some((Woken::Cancelled, own)) = TaskWait::outcome() {
            self.withdraw(Side::Sending, &own);
            wait::unwind();
        }
    }

    /// Receives a value, or begins to wait for one.
    #[inline(never)]
    fn look(&self, deadline: Option<Instant>) -> ControlFlow<Result<T, ReceiveError>, TaskWait<'_>> {
        loop {
            let mut state = match self.take() {
                Ok(value) => return ControlFlow::Break(Ok(value)),
                Err((ReceiveError::Empty, state)) => state,
                Err((error, _)) => return ControlFlow::Break(Err(error)),
            };
            let wait = Wait::begin();
            state.receiving.push_own(&wait);
            drop(state);
            match wait {
                Wait::Task(task) => {
                    self.end_if_refused(Side::Receiving, &task);
                    task.set_deadline(deadline);
                    return ControlFlow::Continue(task);
                }
                Wait::Thread(parked) => {
                    if parked.wait(deadline) == Woken::TimedOut {
                        self.remove(&Waiter::Thread(parked));
                        return ControlFlow::Break(self.take().map_err(|(error, _)| error));
                    }
                }
            }
        }
    }

    /// What follows a wait for a value that was not put into a hand. `None`: there may be one now, or somebody else has had it.
    #[inline(never)]
    fn after_value(&self) -> Option<Result<T, ReceiveError>> {
        let (woken, own) = TaskWait::outcome()?;
        match woken {
            Woken::Given | Woken::Happened => None,
            Woken::Disturbed => {
                self.remove(&own);
                None
            }
            Woken::TimedOut => {
                self.remove(&own);
                Some(self.take().map_err(|(error, _)| error))
            }
            Woken::Cancelled => {
                self.withdraw(Side::Receiving, &own);
                wait::unwind();
            }
        }
    }
}

/// Lets the lock go, and ends the wait of the one of a side that has waited longest.
#[inline(always)]
fn wake_one<T>(mut state: OwnedGuard<'_, State<T>>, side: Side) {
    let waiters = state.waiters(side);
    if let Some(task) = waiters.pop_task() {
        drop(state);
        task.wake();
    } else if let Some(waiter) = waiters.pop_other() {
        drop(state);
        waiter.wake();
    }
}

impl<T> State<T> {
    #[inline(always)]
    fn waiters(&mut self, side: Side) -> &mut Waiters {
        match side {
            Side::Sending => &mut self.sending,
            Side::Receiving => &mut self.receiving,
        }
    }

    /// Whether nothing is there, and nobody waits.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.hand == REST
            && self.values.is_empty()
            && self.sending.is_empty()
            && self.receiving.is_empty()
            && self.senders > 0
    }

    /// Whoever waits with an open hand waits as all others do from now on.
    #[inline]
    fn close_hand(&mut self) {
        let task = std::mem::replace(&mut self.hand, REST);
        if task != NOBODY
            && task != REST
            && let Some(post) = self.home
        {
            self.receiving.push(Waiter::Task(TaskWaiter::with_hand(post, task)));
        }
    }
}

impl<T: Send> Sender<T> {
    /// Sends a value; waits while there is no room.
    ///
    /// # Errors
    /// The value, when nobody receives any more.
    #[inline(always)]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = value;
        while let Some(back) = self.0.send_here(value) {
            let mut back = Some(back);
            let wait = self.0.offer(&mut back);
            let Some(back) = back else { return Ok(()) };
            let Some(wait) = wait else { return Err(SendError(back)) };
            wait.leave();
            self.0.after_room();
            value = back;
        }
        Ok(())
    }

    /// Sends a value if there is room.
    ///
    /// # Errors
    /// The value, and why it was not sent.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.send_here(value).map_or(Ok(()), |value| self.0.put(value).map_err(|(error, _)| error))
    }
}

impl<T: Send> Receiver<T> {
    /// Receives a value; waits while there is none.
    ///
    /// # Errors
    /// [`ReceiveError::Closed`] when nobody sends any more, and all was received.
    #[inline(always)]
    pub fn receive(&self) -> Result<T, ReceiveError> {
        self.receive_until(None)
    }

    /// The same, for so long.
    ///
    /// # Errors
    /// As [`Receiver::receive`]; [`ReceiveError::Empty`] when the time is over.
    pub fn receive_within(&self, timeout: Duration) -> Result<T, ReceiveError> {
        self.receive_until(Instant::now().checked_add(timeout))
    }

    /// Receives a value if there is one.
    ///
    /// # Errors
    /// Why there is none.
    #[inline]
    pub fn try_receive(&self) -> Result<T, ReceiveError> {
        self.0.take().map_err(|(error, _)| error)
    }

    #[inline(always)]
    fn receive_until(&self, deadline: Option<Instant>) -> Result<T, ReceiveError> {
        let mut place = Place::new();
        let place = &raw mut place;
        loop {
            let wait = match if deadline.is_none() { self.0.receive_here(place) } else { None } {
                Some(ControlFlow::Continue(wait)) => wait,
                Some(ControlFlow::Break(value)) => return Ok(value),
                None => match self.0.look(deadline) {
                    ControlFlow::Continue(wait) => wait,
                    ControlFlow::Break(received) => return received,
                },
            };
            if wait.leave() {
                // SAFETY: who has ended the wait so has put a value there.
                return Ok(unsafe { Place::take(place) });
            }
            if let Some(received) = self.0.after_value() {
                return received;
            }
        }
    }

    /// All values until the channel is closed.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.receive().ok())
    }

    /// How many values wait to be received.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock().values.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What can be waited for together with others: see [`select`].
pub trait Source: sealed::Awaited {}

mod sealed {
    use crate::wait::Waiter;

    /// A wait of [`select`](super::select).
    #[derive(Debug, Clone)]
    pub struct Entry(pub(super) Waiter);

    /// What `select` needs.
    pub trait Awaited {
        /// Whether it need not be waited for.
        fn is_ready(&self) -> bool;
        /// Has a wait ended as soon as it is ready.
        fn enter(&self, entry: Entry);
        /// Takes that back.
        fn leave(&self, entry: &Entry);
    }
}

use sealed::Entry;

/// Waits until one of several sources is ready, so that it can be had without waiting unless somebody else comes first; its position. `None`: the
/// time is over.
pub fn select(sources: &[&dyn Source], timeout: Option<Duration>) -> Option<usize> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let wait = Wait::begin();
        let entry = Entry(wait.waiter());
        sources.iter().for_each(|source| source.enter(entry.clone()));
        let ready = sources.iter().position(|source| source.is_ready());
        // What is ready ends the wait at once, by its own waiter.
        if ready.is_some() {
            entry.0.clone().wake();
        }
        let woken = wait.end(deadline);
        sources.iter().for_each(|source| source.leave(&entry));
        let ready = ready.or_else(|| sources.iter().position(|source| source.is_ready()));
        match (ready, woken) {
            (_, Woken::Cancelled) => wait::unwind(),
            (Some(position), _) => return Some(position),
            (None, Woken::TimedOut) => return None,
            (None, _) => {}
        }
    }
}

impl<T: Send> sealed::Awaited for Receiver<T> {
    fn is_ready(&self) -> bool {
        let state = self.0.lock();
        !state.values.is_empty() || state.senders == 0
    }

    fn enter(&self, entry: Entry) {
        let mut state = self.0.lock();
        state.close_hand();
        state.receiving.push(entry.0);
    }

    fn leave(&self, entry: &Entry) {
        self.0.withdraw(Side::Receiving, &entry.0);
    }
}

impl<T: Send> Source for Receiver<T> {}

impl<T: Send> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(self.0.clone())
    }
}

impl<T: Send> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.lock().receivers += 1;
        Self(self.0.clone())
    }
}

impl<T: Send> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        if state.senders > 0 {
            return;
        }
        state.close_hand();
        let waiters = std::mem::take(&mut state.receiving);
        drop(state);
        waiters.wake_all();
    }
}

impl<T: Send> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.receivers -= 1;
        let is_last = state.receivers == 0;
        let waiters = if is_last { std::mem::take(&mut state.sending) } else { Waiters::default() };
        let values = if is_last { std::mem::take(&mut state.values) } else { VecDeque::new() };
        drop(state);
        waiters.wake_all();
        // Their ends may use channels.
        drop(values);
    }
}

impl<T: Send> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T: Send> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receiver").field("waiting", &self.len()).finish_non_exhaustive()
    }
}
