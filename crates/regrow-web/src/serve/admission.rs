//! Who gets a process at once, who waits in the queue, and who is refused.
//!
//! ```text
//!  request ── a place is free ──────────> admitted
//!     ├────── room in the queue ── waits ── a place becomes free ──> admitted
//!     │                              └───── the queue timeout ─────> 503
//!     └────── the queue is full ───────────────────────────────────> 503
//! ```

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::metrics::WebMetrics;
use crate::request_error::RequestError;
use crate::settings::Limits;

/// The places of the requests that have a process, and the queue for them.
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    waiting: Cell<usize>,
    max_waiting: usize,
    queue_timeout: Duration,
    metrics: Rc<WebMetrics>,
}

impl Admission {
    pub(crate) fn new(limits: &Limits, metrics: Rc<WebMetrics>) -> Self {
        Self {
            places: Arc::new(Semaphore::new(limits.requests)),
            waiting: Cell::new(0),
            max_waiting: limits.queue,
            queue_timeout: limits.queue_timeout,
            metrics,
        }
    }

    /// Waits for a place.
    ///
    /// # Errors
    ///
    /// [`RequestError::Busy`] when the queue is full, or no place becomes free in time.
    pub(crate) async fn admit(&self) -> Result<OwnedSemaphorePermit, RequestError> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        if self.waiting.get() >= self.max_waiting {
            return Err(RequestError::Busy);
        }
        let queued = QueuedRequest::new(self);
        let place = timeout(self.queue_timeout, Arc::clone(&self.places).acquire_owned()).await;
        drop(queued);
        place.ok().and_then(Result::ok).ok_or(RequestError::Busy)
    }
}

/// Counts a request as long as it waits.
struct QueuedRequest<'a>(&'a Admission);

impl<'a> QueuedRequest<'a> {
    fn new(admission: &'a Admission) -> Self {
        let queued = Self(admission);
        queued.set(admission.waiting.get() + 1);
        queued
    }

    fn set(&self, waiting: usize) {
        self.0.waiting.set(waiting);
        self.0.metrics.waiting(waiting);
    }
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.set(self.0.waiting.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(queue: usize, queue_timeout: Duration, test: impl AsyncFnOnce(&Admission)) {
        let limits = Limits { requests: 1, queue, queue_timeout, ..Limits::default() };
        let admission = Admission::new(&limits, Rc::new(WebMetrics::new()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(test(&admission));
    }

    #[test]
    fn a_full_queue_refuses_at_once() {
        run(0, Duration::from_secs(600), async |admission| {
            let place = admission.admit().await.expect("a place");
            assert!(matches!(admission.admit().await, Err(RequestError::Busy)));
            drop(place);
            assert!(admission.admit().await.is_ok());
        });
    }

    #[test]
    fn a_request_in_the_queue_gets_the_place_that_becomes_free() {
        run(1, Duration::from_secs(600), async |admission| {
            let place = admission.admit().await.expect("a place");
            let others = async {
                // The first request waits by then, and there is room for no second one.
                assert_eq!(admission.waiting.get(), 1);
                assert!(matches!(admission.admit().await, Err(RequestError::Busy)));
                drop(place);
            };
            let (admitted, ()) = tokio::join!(biased; admission.admit(), others);
            assert!(admitted.is_ok());
            assert_eq!(admission.waiting.get(), 0);
        });
    }

    #[test]
    fn a_request_that_waits_too_long_is_refused() {
        run(1, Duration::from_millis(1), async |admission| {
            let _place = admission.admit().await.expect("a place");
            assert!(matches!(admission.admit().await, Err(RequestError::Busy)));
            assert_eq!(admission.waiting.get(), 0);
        });
    }
}
