//! Channels: values go from tasks, threads and futures to others, in order, as many at a time as there is room for.
//!
//! The state stands behind a biased lock: as long as one thread alone uses the channel, it takes no locked instruction. A task that waits for a
//! value has it put into its hand: onto its stack, where whoever sends finds the place, so that the task need not look again.

#![allow(unsafe_code, reason = "a value is put where a task that waits has a place for it")]

use std::collections::VecDeque;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow_sync::barrier::thread;
use regrow_sync::biased::{Biased, Turn};

use crate::error::{ReceiveError, SendError, TrySendError};
use crate::task::Woken;
use crate::wait::{self, Wait, Waiter, Waiters};

/// Makes a channel with room for so many values; at least one.
#[must_use]
pub fn channel<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.max(1);
    let state = State {
        values: VecDeque::with_capacity(capacity.min(1024)),
        capacity,
        senders: 1,
        receivers: 1,
        sending: Waiters::default(),
        receiving: Waiters::default(),
        hand: Hand(None),
    };
    // The lock has models of its own: in those of channels it is the simplest of its kind.
    let shared = Arc::new(Shared(Biased::new(state, cfg!(loom))));
    (Sender(shared.clone()), Receiver(shared))
}

/// The side that sends. The last one that is dropped closes the channel.
pub struct Sender<T: Send>(Arc<Shared<T>>);

/// The side that receives. The last one that is dropped closes the channel.
pub struct Receiver<T: Send>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T>(Biased<State<T>>);

#[derive(Debug)]
struct State<T> {
    values: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receivers: usize,
    sending: Waiters,
    receiving: Waiters,
    /// Where the task that stands first among the receiving ones has a place for a value.
    hand: Hand<T>,
}

/// The place of a task that waits. It is there until that task has seen, with the lock, that its wait is over.
#[derive(Debug)]
struct Hand<T>(Option<NonNull<Option<T>>>);

// SAFETY: a value is put there with the channel's lock, and may go to the task's thread as all values of the channel do.
unsafe impl<T: Send> Send for Hand<T> {}

/// Which side waits.
#[derive(Debug, Clone, Copy)]
enum Side {
    Sending,
    Receiving,
}

impl<T> Shared<T> {
    #[inline(always)]
    fn lock(&self) -> Turn<'_, State<T>> {
        self.0.take(thread())
    }

    /// Takes a wait back that is over for another reason. If it was ended meanwhile, the next one of its side has its turn.
    fn withdraw(&self, side: Side, own: &Waiter) {
        let mut state = self.lock();
        let next = if state.remove(side, own) { None } else { state.pop(side) };
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }

    /// Takes a value if there is one; otherwise the lock comes back.
    #[inline(always)]
    fn take(&self) -> Result<T, (ReceiveError, Turn<'_, State<T>>)> {
        let mut state = self.lock();
        let Some(value) = state.values.pop_front() else {
            let error = if state.senders == 0 { ReceiveError::Closed } else { ReceiveError::Empty };
            return Err((error, state));
        };
        wake_one(state, Side::Sending);
        Ok(value)
    }

    /// Waits for a value. `None`: there may be one now, or somebody else has had it.
    #[inline(always)]
    fn wait_for_value(
        &self,
        mut state: Turn<'_, State<T>>,
        deadline: Option<Instant>,
    ) -> Option<Result<T, ReceiveError>> {
        let mut place = None;
        let hand = NonNull::from(&mut place);
        let wait = Wait::begin();
        if state.receiving.push_own(&wait) {
            state.hand = Hand(Some(hand));
        }
        drop(state);
        match wait.end(deadline) {
            // SAFETY: the place is this function's. Who has ended the wait has written to it before, or not at all.
            Woken::Happened => unsafe { hand.as_ptr().replace(None) }.map(Ok),
            Woken::TimedOut => Some(
                self.give_up(&wait.waiter(), hand)
                    .1
                    .map_or_else(|| self.take().map_err(|(error, _)| error), Ok),
            ),
            Woken::Cancelled => Some(Ok(self.cancel(&wait.waiter(), hand))),
        }
    }

    /// Takes back the wait for a value: whether it was not ended meanwhile, and the value that it was given.
    #[cold]
    fn give_up(&self, own: &Waiter, hand: NonNull<Option<T>>) -> (bool, Option<T>) {
        let mut state = self.lock();
        let was_there = state.remove(Side::Receiving, own);
        // SAFETY: the place is the caller's, which waits for this. With the lock, and out of the queue, nobody else writes to it.
        (was_there, unsafe { hand.as_ptr().replace(None) })
    }

    /// The task that waits for a value is cancelled. If it was given one it has received that, and ends at its next wait: others may know already that
    /// nothing comes any more.
    #[cold]
    fn cancel(&self, own: &Waiter, hand: NonNull<Option<T>>) -> T {
        let (was_there, given) = self.give_up(own, hand);
        if let Some(value) = given {
            return value;
        }
        let next = if was_there { None } else { self.lock().pop(Side::Receiving) };
        if let Some(next) = next {
            next.wake();
        }
        wait::unwind()
    }

    /// Waits for room; the lock is let go meanwhile.
    #[inline(always)]
    fn wait_for_room(&self, mut state: Turn<'_, State<T>>) {
        let wait = Wait::begin();
        state.sending.push_own(&wait);
        drop(state);
        if wait.end(None) == Woken::Cancelled {
            self.withdraw(Side::Sending, &wait.waiter());
            wait::unwind();
        }
    }
}

/// Lets the lock go, and ends the wait of the one of a side that has waited longest.
#[inline(always)]
fn wake_one<T>(mut state: Turn<'_, State<T>>, side: Side) {
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

    /// Takes the one of a side that has waited longest; it looks for itself.
    fn pop(&mut self, side: Side) -> Option<Waiter> {
        let waiter = self.waiters(side).pop();
        self.forget_hand(side);
        waiter
    }

    /// Takes a wait out; whether it was there.
    fn remove(&mut self, side: Side, own: &Waiter) -> bool {
        let was_there = self.waiters(side).remove(own);
        self.forget_hand(side);
        was_there
    }

    /// The hand goes with its task.
    fn forget_hand(&mut self, side: Side) {
        if matches!(side, Side::Receiving) && !self.receiving.has_task() {
            self.hand = Hand(None);
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
        loop {
            match self.try_or_lock(value) {
                Ok(()) => return Ok(()),
                Err((TrySendError::Closed(value), _)) => return Err(SendError(value)),
                Err((TrySendError::Full(back), state)) => {
                    value = back;
                    self.0.wait_for_room(state);
                }
            }
        }
    }

    /// Sends a value if there is room.
    ///
    /// # Errors
    /// The value, and why it was not sent.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.try_or_lock(value).map_err(|(error, _)| error)
    }

    #[inline(always)]
    fn try_or_lock(&self, value: T) -> Result<(), (TrySendError<T>, Turn<'_, State<T>>)> {
        let mut state = self.0.lock();
        if state.receivers == 0 {
            return Err((TrySendError::Closed(value), state));
        }
        if state.values.len() >= state.capacity {
            return Err((TrySendError::Full(value), state));
        }
        if let Some(task) = state.receiving.pop_task() {
            let mut sender = None;
            match state.hand.0.take() {
                Some(place) if state.values.is_empty() => {
                    // SAFETY: the task waits for this, on a stack that is there; with the lock nobody else has the place.
                    unsafe { place.as_ptr().write(Some(value)) };
                    // A value has left without being taken: who waits for room has its turn, as behind each that is.
                    if !state.sending.is_empty() {
                        sender = state.pop(Side::Sending);
                    }
                }
                _ => state.values.push_back(value),
            }
            drop(state);
            task.wake();
            if let Some(sender) = sender {
                sender.wake();
            }
            return Ok(());
        }
        state.values.push_back(value);
        wake_one(state, Side::Receiving);
        Ok(())
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
        loop {
            match self.0.take() {
                Ok(value) => return Ok(value),
                Err((ReceiveError::Empty, state)) => {
                    if let Some(received) = self.0.wait_for_value(state, deadline) {
                        return received;
                    }
                }
                Err((error, _)) => return Err(error),
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
            (None, Woken::Happened) => {}
        }
    }
}

impl<T: Send> sealed::Awaited for Receiver<T> {
    fn is_ready(&self) -> bool {
        let state = self.0.lock();
        !state.values.is_empty() || state.senders == 0
    }

    fn enter(&self, entry: Entry) {
        self.0.lock().receiving.push(entry.0);
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
        let waiters = std::mem::take(&mut state.receiving);
        state.forget_hand(Side::Receiving);
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
