//! Futures in tasks: a task waits for a future as for anything else.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use regrow_sync::{AtomicBool, Mutex, Ordering};

use crate::task::Woken;
use crate::wait::{self, Wait, Waiter};

/// Wakes whoever polls a future.
#[derive(Debug, Default)]
struct Bell {
    has_rung: AtomicBool,
    waiter: Mutex<Option<Waiter>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.has_rung.store(true, Ordering::SeqCst);
        let waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

/// Waits for a future: as a task, which lets others run meanwhile, or as a thread. What the future needs besides, a reactor of its own, say, is there
/// or not as everywhere else.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        while !bell.has_rung.swap(false, Ordering::SeqCst) {
            let wait = Wait::begin();
            *bell.waiter.lock().unwrap_or_else(PoisonError::into_inner) = Some(wait.waiter());
            // It may have rung before it knew whom to wake.
            if bell.has_rung.load(Ordering::SeqCst) {
                let waiter = bell.waiter.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(waiter) = waiter {
                    waiter.wake();
                }
            }
            if wait.end(None) == Woken::Cancelled {
                wait::unwind();
            }
        }
    }
}
