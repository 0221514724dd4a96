//! Tasks that end before the block that has started them, so that they may borrow from it.

#![allow(
    unsafe_code,
    reason = "what tasks borrow is promised to outlive them by this module, not by its type"
)]

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

use regrow_sync::Mutex;

use crate::error::JoinError;
use crate::fiber::Builder;
use crate::fresh::{FreshSend, Start};
use crate::join::{Cancel, JoinHandle, Packet, Unstarted};
use crate::wait::{Wait, Waiter};
use crate::worker;

/// Where tasks are started that end before the block: see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    count: Arc<Count>,
    /// To be cancelled. What they borrow is there as long as this.
    tasks: Mutex<Vec<Arc<dyn Cancel>>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// How many tasks are left, and who waits for the last one.
#[derive(Debug, Default)]
pub(crate) struct Count(Mutex<(usize, Vec<Waiter>)>);

/// One of the tasks, from its start to the time when its function is gone.
pub(crate) struct Member(Arc<Count>);

impl Member {
    pub(crate) fn new(count: &Arc<Count>) -> Self {
        count.0.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        Self(count.clone())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut count = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.0 -= 1;
        let waiters = if count.0 == 0 { std::mem::take(&mut count.1) } else { Vec::new() };
        drop(count);
        waiters.into_iter().for_each(Waiter::wake);
    }
}

impl Count {
    /// Waits until no task is left, whatever happens to who waits.
    pub(crate) fn wait(&self) {
        loop {
            let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if count.0 == 0 {
                return;
            }
            let wait = Wait::begin();
            count.1.push(wait.waiter());
            drop(count);
            wait.end_in_any_case();
        }
    }
}

/// A handle of a task of a scope.
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the end of the task.
    ///
    /// # Errors
    /// As [`JoinHandle::join`].
    pub fn join(self) -> Result<T, JoinError> {
        self.handle.join()
    }

    /// Has the task end at its next wait: see [`JoinHandle::cancel`].
    pub fn cancel(&self) {
        self.handle.cancel();
    }
}

/// Runs a function that starts tasks, and waits for all of them. When the function panics, or its task is cancelled, the tasks are cancelled too.
///
/// # Panics
/// When the function panics, with its panic.
pub fn scope<'env, T>(function: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope =
        Scope { count: Arc::default(), tasks: Mutex::default(), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| function(&scope)));
    if result.is_err() {
        for task in scope.tasks.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            task.cancel();
        }
    }
    scope.count.wait();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a task that any worker may begin. Outside of a runtime there is none: the handle says so.
    #[track_caller]
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        function: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        self.spawn_as(Builder::new(), function)
    }

    /// The same, as the builder says.
    #[track_caller]
    pub fn spawn_as<T: Send + 'scope>(
        &'scope self,
        builder: Builder,
        function: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        let packet = Packet::new();
        let handle = ScopedJoinHandle { handle: packet.handle(), scope: PhantomData };
        let Some(worker) = worker::here() else {
            packet.end(Err(JoinError::NoRuntime));
            return handle;
        };
        // SAFETY: `scope` returns when each member was dropped, whatever happens, and drops this list before it does. What is borrowed outlives
        // the scope.
        let (cancel, start) = unsafe {
            let cancel: Arc<dyn Cancel + 'scope> = packet.clone();
            let start: Box<dyn Start + Send + 'scope> =
                Box::new(Unstarted::borrowing(function, packet, Member::new(&self.count)));
            (
                std::mem::transmute::<Arc<dyn Cancel + 'scope>, Arc<dyn Cancel>>(cancel),
                std::mem::transmute::<Box<dyn Start + Send + 'scope>, Box<dyn Start + Send>>(start),
            )
        };
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(cancel);
        let (name, stack_bytes) = builder.into_parts();
        worker.put(FreshSend::new(name, stack_bytes, Location::caller(), start));
        handle
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(formatter)
    }
}
