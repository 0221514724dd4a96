//! What other threads tell a worker, and how they wake it.
//!
//! A post is never freed, but used again by a later worker: who has an address of one can always write to it. What arrives at a worker that it
//! was not meant for names a wait that nobody is in.

use std::io;
use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

use regrow_sync::owned::Desk;
use regrow_sync::thread::{self, Thread};
use regrow_sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence};

use crate::control::ControlAddress;
use crate::queues::SegQueue;
use crate::reactor::{Reactor, Tell};

/// What is told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Message {
    /// A wait is over.
    Wake {
        /// Who waits.
        control: ControlAddress,
        /// The number of the wait.
        wait: u64,
    },
    /// A task is to end at its next wait, or at the present one.
    Cancel {
        /// Which one.
        control: ControlAddress,
        /// The number that it was started with.
        birth: u64,
    },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Post {
    messages: SegQueue<Message>,
    /// The worker sleeps, or is about to.
    is_asleep: AtomicBool,
    /// It sleeps in the reactor then, because tasks wait for descriptors.
    is_in_reactor: AtomicBool,
    thread: Mutex<Option<Thread>>,
    /// What its worker's tasks wait for of descriptors, from the first such wait on.
    reactor: OnceLock<Reactor>,
    /// The number of the next wait of its workers.
    next_number: AtomicU64,
    /// Where its worker says which lock it is in.
    desk: Desk,
}

/// How many waits the workers of a post have numbers for. At a hundred million a second it is more than a year.
const NUMBERS: u32 = 52;
/// Most workers of a process at a time, with those that have ended.
pub(crate) const MOST_POSTS: u64 = 1 << (u64::BITS - NUMBERS);

regrow_sync::statics! {
    /// Posts that no worker has.
    static IDLE: Mutex<Vec<&'static Post>> = Mutex::new(Vec::new());
    /// How many there are.
    static MADE: AtomicU64 = AtomicU64::new(0);
}

impl Post {
    /// A post for a worker; `None`: there are as many as have numbers.
    pub(crate) fn take() -> Option<&'static Self> {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.or_else(|| {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            if number >= MOST_POSTS {
                MADE.store(MOST_POSTS, Ordering::Relaxed);
                return None;
            }
            Some(Box::leak(Box::new(Self {
                messages: SegQueue::new(),
                is_asleep: AtomicBool::new(false),
                is_in_reactor: AtomicBool::new(false),
                thread: Mutex::new(None),
                reactor: OnceLock::new(),
                next_number: AtomicU64::new((number << NUMBERS) + 1),
                desk: Desk::new(),
            })))
        })
    }

    /// The desk of its worker.
    #[inline(always)]
    pub(crate) fn desk(&'static self) -> &'static Desk {
        &self.desk
    }

    /// Its worker is on this thread.
    pub(crate) fn move_in(&self) {
        while self.messages.pop().is_some() {}
        self.is_asleep.store(false, Ordering::Relaxed);
        if let Some(reactor) = self.reactor.get() {
            reactor.move_in();
        }
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
    }

    /// The number of the first wait of its worker: no other wait of the process has it.
    pub(crate) fn first_number(&self) -> u64 {
        self.next_number.load(Ordering::Relaxed)
    }

    /// No worker has it from now on; the next one begins with this number.
    pub(crate) fn give_back(&'static self, next_number: u64) {
        self.next_number.store(next_number, Ordering::Relaxed);
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = None;
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    /// Tells its worker.
    pub(crate) fn send(&self, message: Message) {
        self.messages.push(message);
        self.wake();
    }

    /// Wakes its worker, if that sleeps; whether it has.
    pub(crate) fn wake(&self) -> bool {
        // The message before it is seen by a worker that does not see this.
        fence(Ordering::SeqCst);
        let is_asleep =
            self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::AcqRel);
        if is_asleep {
            if self.is_in_reactor.load(Ordering::Relaxed)
                && let Some(reactor) = self.reactor.get()
            {
                reactor.notify();
                return true;
            }
            let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(thread) = &*thread {
                thread.unpark();
            }
        }
        is_asleep
    }

    /// The reactor of its worker, whose thread calls this.
    ///
    /// # Errors
    /// The kernel's: there is none.
    pub(crate) fn reactor(&self) -> io::Result<&Reactor> {
        match self.reactor.get() {
            Some(reactor) => Ok(reactor),
            None => Reactor::new().map(|made| self.reactor.get_or_init(|| made)),
        }
    }

    /// The same, if a task waits there.
    #[inline]
    pub(crate) fn awaited(&self) -> Option<&Reactor> {
        self.reactor.get().filter(|reactor| reactor.is_awaited())
    }

    /// The next message.
    pub(crate) fn next(&self) -> Option<Message> {
        self.messages.pop()
    }

    /// Whether its worker sleeps.
    pub(crate) fn sleeps(&self) -> bool {
        self.is_asleep.load(Ordering::Relaxed)
    }

    /// Its worker sleeps, until it is woken or the time is over. It has said before that it would ([`Post::fall_asleep`]). Waits for descriptors that are
    /// over are told.
    pub(crate) fn sleep(&self, timeout: Option<Duration>, tell: Tell<'_>) {
        if let Some(reactor) = self.awaited() {
            reactor.wait(timeout, tell);
            return self.wake_up();
        }
        while self.sleeps() {
            match timeout {
                None => thread::park(),
                Some(timeout) => {
                    thread::park_timeout(timeout);
                    break;
                }
            }
        }
        self.wake_up();
    }

    /// Says that its worker is about to sleep; false where it must not, because there is a message.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.is_in_reactor.store(self.awaited().is_some(), Ordering::Relaxed);
        self.is_asleep.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        let is_empty = self.messages.is_empty();
        if !is_empty {
            self.wake_up();
        }
        is_empty
    }

    /// Its worker does not sleep any more.
    pub(crate) fn wake_up(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn messages_of_two_threads_arrive_at_one_that_sleeps_in_between() {
        let count = if cfg!(miri) { 20 } else { 5_000 };
        let post = Post::take().expect("there are few");
        post.move_in();
        let mut waits = Vec::new();
        std::thread::scope(|scope| {
            for from in 0..2 {
                scope.spawn(move || {
                    (0..count).for_each(|number| {
                        post.send(Message::Wake {
                            control: ControlAddress(ptr::null()),
                            wait: number * 2 + from,
                        });
                    });
                });
            }
            while waits.len() < 2 * usize::try_from(count).unwrap_or(0) {
                match post.next() {
                    Some(Message::Wake { wait, .. }) => waits.push(wait),
                    Some(Message::Cancel { .. }) => {}
                    None if post.fall_asleep() => post.sleep(None, &mut |_, _| ()),
                    None => {}
                }
            }
        });
        post.give_back(post.first_number());
        waits.sort_unstable();
        assert!(waits.into_iter().eq(0..2 * count));
    }
}
