//! Queues for model checks. loom knows of two words of each: how many values were put into it, and how many were taken out. Who looks for values may see the
//! first word as it was, as far as nothing orders it; crossbeam's queues have fences besides. Between two operations of loom's nobody else runs: so the
//! values stand behind a plain lock, which is free.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regrow_sync::{AtomicUsize, Ordering};

/// See the module.
#[derive(Debug)]
struct Queue<T> {
    /// The values, and how many were taken out.
    values: Mutex<(VecDeque<T>, usize)>,
    put: AtomicUsize,
    taken: AtomicUsize,
}

impl<T> Queue<T> {
    fn new() -> Self {
        let values = Mutex::new((VecDeque::new(), 0));
        Self { values, put: AtomicUsize::new(0), taken: AtomicUsize::new(0) }
    }

    fn values(&self) -> MutexGuard<'_, (VecDeque<T>, usize)> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, value: T) {
        self.put.fetch_add(1, Ordering::Release);
        self.values().0.push_back(value);
    }

    /// Takes of the values that can be seen, whose count it is told, as many as it says.
    fn take(&self, of: impl Fn(usize) -> usize) -> Vec<T> {
        loop {
            let put = self.put.load(Ordering::Acquire);
            let taken = self.values().1;
            let count = of(put.saturating_sub(taken));
            if count == 0 {
                return Vec::new();
            }
            let changed =
                self.taken.compare_exchange(taken, taken + count, Ordering::AcqRel, Ordering::Acquire);
            if changed.is_ok() {
                let mut values = self.values();
                values.1 += count;
                return values.0.drain(..count).collect();
            }
        }
    }

    fn is_empty(&self) -> bool {
        let taken = self.taken.fetch_add(0, Ordering::Acquire);
        self.put.load(Ordering::Acquire) <= taken
    }
}

/// As crossbeam's queue of this name.
#[derive(Debug)]
pub(crate) struct SegQueue<T>(Queue<T>);

impl<T> SegQueue<T> {
    pub(crate) fn new() -> Self {
        Self(Queue::new())
    }

    pub(crate) fn push(&self, value: T) {
        self.0.push(value);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.take(|count| count.min(1)).pop()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// As crossbeam's `Worker`.
pub(crate) struct Deque<T>(Arc<Queue<T>>);

/// As crossbeam's queue of this name.
pub(crate) struct Stealer<T>(Arc<Queue<T>>);

/// What comes of stealing.
pub(crate) enum Steal<T> {
    Empty,
    Success(T),
    #[allow(dead_code, reason = "a stand-in tries again itself")]
    Retry,
}

impl<T> Deque<T> {
    pub(crate) fn new_fifo() -> Self {
        Self(Arc::new(Queue::new()))
    }

    pub(crate) fn stealer(&self) -> Stealer<T> {
        Stealer(self.0.clone())
    }

    pub(crate) fn push(&self, task: T) {
        self.0.push(task);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.take(|count| count.min(1)).pop()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Stealer<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the first one, and half of the others along.
    pub(crate) fn steal_batch_and_pop(&self, to: &Deque<T>) -> Steal<T> {
        let mut taken = self.0.take(|count| count.div_ceil(2)).into_iter();
        let Some(first) = taken.next() else { return Steal::Empty };
        taken.for_each(|task| to.push(task));
        Steal::Success(first)
    }
}

impl<T> std::fmt::Debug for Stealer<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Stealer").finish_non_exhaustive()
    }
}
