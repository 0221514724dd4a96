//! Threads of loom's. What they wait by is a lock and a condition: loom's own `park` forgets that it was called, as soon as its thread waits for something
//! else.
//!
//! A model has no time: what is waited for so long is over at once, where that is no time at all, or never.

#![allow(unsafe_code, reason = "threads end before what they borrow, which loom cannot know")]

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loom::sync::{Condvar, Mutex};
use loom::thread::JoinHandle;

pub use loom::thread::yield_now;

/// The loop of a worker runs on such a stack, and panics go through it. loom takes the number for one of words.
const STACK_WORDS: usize = 16 << 10;

loom::thread_local! {
    static OWN: Thread = Thread(Arc::new(Own { number: next_number(), is_called: Mutex::new(false), sleeper: Condvar::new() }));
}

/// Whoever runs, or waits to be called.
#[derive(Debug, Clone)]
pub struct Thread(Arc<Own>);

#[derive(Debug)]
struct Own {
    number: usize,
    is_called: Mutex<bool>,
    sleeper: Condvar,
}

/// No two threads have the same, also of two runs. The numbers of biased locks that stand for no thread are less.
fn next_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(64);
    NEXT.fetch_add(64, Ordering::Relaxed)
}

pub fn current() -> Thread {
    OWN.with(Clone::clone)
}

/// The number of this thread.
pub fn number() -> usize {
    OWN.with(|own| own.0.number)
}

impl Thread {
    pub fn unpark(&self) {
        *self.0.is_called.lock().expect("nobody panics there") = true;
        self.0.sleeper.notify_one();
    }
}

pub fn park() {
    let own = current();
    let mut is_called = own.0.is_called.lock().expect("nobody panics there");
    while !*is_called {
        is_called = own.0.sleeper.wait(is_called).expect("nobody panics there");
    }
    *is_called = false;
}

pub fn park_timeout(timeout: Duration) {
    if timeout.is_zero() { yield_now() } else { park() }
}

pub fn sleep(_: Duration) {
    yield_now();
}

/// Where threads are begun that end with it.
#[derive(Debug, Default)]
pub struct Scope<'scope, 'env: 'scope> {
    threads: RefCell<Vec<JoinHandle<()>>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

pub fn scope<'env, T>(function: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope = Scope::default();
    let result = function(&scope);
    for thread in scope.threads.take() {
        thread.join().expect("a model whose thread panics has failed");
    }
    result
}

/// How a thread is begun.
#[derive(Debug, Default)]
pub struct Builder {
    name: String,
}

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    pub fn name(self, name: String) -> Builder {
        Builder { name }
    }

    pub fn spawn_scoped<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        function: impl FnOnce() + Send + 'scope,
    ) -> io::Result<()> {
        let function: Box<dyn FnOnce() + Send + 'scope> = Box::new(function);
        // SAFETY: the scope waits for its end. A model whose function panics has failed, and goes on nowhere.
        let function = unsafe {
            std::mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, Box<dyn FnOnce() + Send>>(function)
        };
        let builder = loom::thread::Builder::new().name(self.name).stack_size(STACK_WORDS);
        scope.threads.borrow_mut().push(builder.spawn(function)?);
        Ok(())
    }
}
