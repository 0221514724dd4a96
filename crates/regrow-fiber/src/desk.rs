//! The desk of this thread: where it says which lock of a channel it is in. A worker's is that of its post; every other thread has one of its own, which
//! goes to a later thread when it ends.

use regrow_sync::owned::Desk;

use crate::worker;

/// The desk of this thread, if it has one: a thread that ends has none any more.
#[inline(always)]
pub(crate) fn of_thread() -> Option<&'static Desk> {
    worker::here().map_or_else(of_plain_thread, |worker| Some(worker.post().desk()))
}

/// In a model check plain threads have none, so that its orders are those of the rest.
#[cfg(loom)]
fn of_plain_thread() -> Option<&'static Desk> {
    None
}

#[cfg(not(loom))]
#[inline(never)]
fn of_plain_thread() -> Option<&'static Desk> {
    plain::OWN.try_with(|own| own.0).ok()
}

#[cfg(not(loom))]
mod plain {
    use std::sync::{Mutex, PoisonError};

    use regrow_sync::owned::Desk;

    /// Desks that no thread has. A desk is never freed: others look at it.
    static IDLE: Mutex<Vec<&'static Desk>> = Mutex::new(Vec::new());

    pub(super) struct Own(pub(super) &'static Desk);

    std::thread_local! {
        pub(super) static OWN: Own = Own(
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_else(|| Box::leak(Box::new(Desk::new()))),
        );
    }

    impl Drop for Own {
        fn drop(&mut self) {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_one_desk_and_a_later_thread_may_have_it_again() {
        let own = || of_thread().map(std::ptr::from_ref).expect("it is no thread that ends").addr();
        let here = own();
        assert_eq!(here, own());
        let others: Vec<usize> = (0..20).map(|_| std::thread::spawn(own).join().expect("it ends")).collect();
        assert!(!others.contains(&here));
        let both = std::thread::scope(|scope| {
            [scope.spawn(own), scope.spawn(own)].map(|thread| thread.join().expect("it ends"))
        });
        assert!(!both.contains(&here));
    }
}
