//! Threads for what may keep its caller waiting for as long as somebody else wants.
//!
//! ```text
//!   submit ──> a thread that is idle, or one more, up to a limit ──> idle for a second ──> gone
//!        └───> where all of them are kept waiting: a place in the queue, if there is one for it
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread waits for something to do.
const LINGER: Duration = Duration::from_secs(1);

/// Something to do.
type Job = Box<dyn FnOnce() + Send>;

/// Some threads; clones are the same ones.
#[derive(Debug, Clone)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    most_threads: usize,
    most_waiting: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { waiting, idle, threads } = self;
        write!(f, "{threads} threads, {idle} of them idle, {} jobs", waiting.len())
    }
}

impl Workers {
    /// At most so many threads, and so many jobs that wait for one.
    pub(super) fn new(most_threads: usize, most_waiting: usize) -> Workers {
        Workers { shared: Arc::default(), most_threads, most_waiting }
    }

    /// Has a thread do something. False when all of them are kept waiting.
    pub(super) fn submit(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.shared.lock();
        if state.idle <= state.waiting.len() && state.threads < self.most_threads {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("regrow-waits".to_owned());
            match thread.spawn(move || shared.work()) {
                Ok(_) => {
                    state.threads += 1;
                    state.idle += 1;
                }
                // Where there is a queue, it waits there for one.
                Err(error) => tracing::warn!(%error, "no thread for what may have to wait"),
            }
        }
        let has_room = state.waiting.len() < state.idle.saturating_add(self.most_waiting);
        if has_room {
            state.waiting.push_back(Box::new(job));
            self.shared.wake.notify_one();
        }
        has_room
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what there is to do, until there has been nothing for a while. A thread begins idle.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            let waited = self.wake.wait_timeout_while(state, LINGER, |state| state.waiting.is_empty());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
            let Some(job) = state.waiting.pop_front() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            job();
            state = self.lock();
            state.idle += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_has_to_wait_keeps_nobody_else_waiting_as_long_as_there_are_threads() {
        let workers = Workers::new(3, 0);
        let (open, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..2 {
            let gate = Arc::clone(&gate);
            assert!(workers.submit(move || {
                let _ = gate.lock().expect("no panic").recv();
            }));
        }
        for number in 0..20 {
            let (sender, receiver) = channel();
            // The thread of the last one may not be idle again as yet.
            while !workers.submit({
                let sender = sender.clone();
                move || {
                    let _ = sender.send(number);
                }
            }) {
                std::thread::yield_now();
            }
            assert_eq!(receiver.recv().expect("it is done"), number);
        }
        let third = Arc::clone(&gate);
        while !workers.submit({
            let third = Arc::clone(&third);
            move || {
                let _ = third.lock().expect("no panic").recv();
            }
        }) {
            std::thread::yield_now();
        }
        assert!(!workers.submit(|| panic!("there is no thread for it")));
        drop(open);
    }

    #[test]
    fn what_waits_for_a_thread_is_done_in_its_turn() {
        let workers = Workers::new(1, 2);
        let (open, gate) = channel::<()>();
        assert!(workers.submit(move || {
            let _ = gate.recv();
        }));
        let (sender, receiver) = channel();
        for number in 0..2 {
            let sender = sender.clone();
            assert!(workers.submit(move || {
                let _ = sender.send(number);
            }));
        }
        assert!(!workers.submit(|| panic!("there is no room for it")));
        drop((open, sender));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1]);
    }
}
