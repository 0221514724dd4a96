//! The processes that come to be on the way to a seed, and the time limit of a front end.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use regrow_sys::{child, raw};

/// The processes that were made on the way to a seed: the program itself, and the child that it stopped in its place.
#[derive(Debug, Default)]
pub(crate) struct Processes(Mutex<Vec<i32>>);

impl Processes {
    fn list(&self) -> MutexGuard<'_, Vec<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, pid: i32) {
        self.list().push(pid);
    }

    /// The last one, and the others.
    pub(crate) fn seed(&self) -> (i32, Vec<i32>) {
        let mut list = self.list();
        (list.pop().unwrap_or(0), std::mem::take(&mut *list))
    }

    pub(crate) fn reap_all(&self) {
        std::mem::take(&mut *self.list()).into_iter().for_each(reap);
    }
}

/// Kills the processes when they take too long: the thread that traces them sleeps meanwhile. The limit ends with the value.
pub(crate) struct Deadline {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Deadline {
    pub(crate) fn start(processes: &Arc<Processes>, limit: Duration) -> Deadline {
        let (over, wait) = channel();
        let processes = Arc::clone(processes);
        let watch = move || {
            if wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                processes.list().iter().for_each(|&pid| child::kill(pid));
            }
        };
        // Without a thread there is no limit.
        let thread = std::thread::Builder::new().name("regrow-limit".to_owned()).spawn(watch).ok();
        Deadline { over: Some(over), thread }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Kills and reaps a process that was to become a seed.
pub(crate) fn reap(pid: i32) {
    child::kill(pid);
    let _ = raw::wait_pid(pid, false);
}
