//! The exchange of a body, as the caller of one run has it: the order goes in, the answer comes out once.
//!
//! ```text
//!   open ──order's message──> the run ──the kernel says that it has ended──> close: answer copied, exchange cleared
//!                                     ──the body gets its next order───────>
//! ```
//!
//! Whoever comes first closes it: who has waited for the run, or who gives the body another one. Invariant: after that nobody reads or
//! writes the exchange for this run, and nothing of this run stands there; in a pool that trusts its runs nothing but what the run has put
//! beside its order and its answer. A forked copy of the caller has the memory too, and leaves it alone.

#![allow(unsafe_code, reason = "shared memory that the other side writes")]

use std::sync::{Arc, Mutex, PoisonError};

use regrow_abi::{EXCHANGE_OFFSET, Exchange};
use regrow_sys::raw::SharedMapping;

/// See the module.
#[derive(Debug)]
pub(crate) struct RunExchange {
    shared: Arc<SharedMapping>,
    order_bytes: usize,
    /// Whether the run writes nothing there but its answer.
    trusts_runs: bool,
    /// The caller.
    process: u32,
    state: Mutex<ExchangeState>,
}

#[derive(Debug)]
enum ExchangeState {
    /// The run has it.
    Open,
    /// With the answer, until somebody takes it.
    Closed(Option<Vec<u8>>),
}

/// The exchange in a control area.
pub(crate) fn of(shared: &SharedMapping) -> &Exchange {
    // SAFETY: the mapping has `CONTROL_BYTES` bytes, page-aligned, for the life of `shared`, and the exchange is the last of its areas.
    // All of it is atomic numbers, of which every bit pattern is valid.
    unsafe { &*shared.as_ptr().add(EXCHANGE_OFFSET).cast::<Exchange>() }
}

impl RunExchange {
    /// Writes the order of a run that is about to begin, or that is to be ready and wait: [`RunExchange::let_go`] has it begin. `None` when it is not one that fits.
    pub(crate) fn open(
        shared: &Arc<SharedMapping>,
        order: &[u8],
        is_ahead: bool,
        trusts_runs: bool,
    ) -> Option<RunExchange> {
        if !of(shared).put_order(order) {
            return None;
        }
        if is_ahead {
            of(shared).close_gate(std::process::id());
        }
        Some(RunExchange {
            shared: Arc::clone(shared),
            order_bytes: order.len(),
            trusts_runs,
            process: std::process::id(),
            state: Mutex::new(ExchangeState::Open),
        })
    }

    /// Has a run that waits ahead begin. Nothing comes of it where the run is over.
    pub(crate) fn let_go(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, ExchangeState::Open) && std::process::id() == self.process {
            regrow_sys::raw::futex_wake(of(&self.shared).open_gate());
        }
    }

    /// The run has ended: copies its answer, and clears the exchange. Only the first time.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, ExchangeState::Closed(_)) || std::process::id() != self.process {
            return;
        }
        let exchange = of(&self.shared);
        let answer = exchange.answer_bytes().map(|bytes| {
            let mut answer = vec![0; bytes];
            exchange.copy_answer(&mut answer);
            answer
        });
        exchange.clear(self.order_bytes, self.trusts_runs);
        *state = ExchangeState::Closed(answer);
    }

    /// The answer of a run that has ended, the first time.
    pub(crate) fn take_answer(&self) -> Option<Vec<u8>> {
        self.close();
        match &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            ExchangeState::Closed(answer) => answer.take(),
            ExchangeState::Open => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use regrow_abi::{CONTROL_BYTES, MOST_ORDER_BYTES};
    use regrow_sys::raw;

    use super::*;

    /// The caller's mapping, and that of the run.
    fn mappings() -> (Arc<SharedMapping>, SharedMapping) {
        let fd = raw::memfd("regrow-test", CONTROL_BYTES as u64).expect("a memfd");
        let map = || SharedMapping::new(fd.as_fd(), CONTROL_BYTES).expect("memory");
        (Arc::new(map()), map())
    }

    #[test]
    fn an_answer_is_taken_once_and_nothing_is_left_behind() {
        let (ours, runs) = mappings();
        let exchange = RunExchange::open(&ours, b"order", false, true).expect("it fits");
        let mut order = [0; 5];
        of(&runs).take_order(&mut order);
        assert_eq!(&order, b"order");
        assert!(of(&runs).put_answer(b"answer"));
        exchange.close();
        assert!(of(&runs).is_clear());
        assert_eq!(exchange.take_answer().as_deref(), Some(&b"answer"[..]));
        assert_eq!(exchange.take_answer(), None);
    }

    #[test]
    fn an_answer_is_that_of_its_own_run_whoever_has_the_body_since() {
        let (ours, runs) = mappings();
        let first = RunExchange::open(&ours, b"first", false, true).expect("it fits");
        assert!(of(&runs).put_answer(b"one"));
        // Nobody has waited for it, and the body gets another run.
        first.close();
        let second = RunExchange::open(&ours, b"second", false, true).expect("it fits");
        assert!(of(&runs).put_answer(b"another"));
        assert_eq!(first.take_answer().as_deref(), Some(&b"one"[..]));
        assert_eq!(of(&runs).order_bytes(), Some(6), "the first run is over");
        assert_eq!(second.take_answer().as_deref(), Some(&b"another"[..]));
    }

    #[test]
    fn an_order_that_nobody_has_taken_is_cleared() {
        let (ours, runs) = mappings();
        let exchange = RunExchange::open(&ours, b"a secret", false, true).expect("it fits");
        assert_eq!(exchange.take_answer(), None);
        assert!(of(&runs).is_clear());
    }

    #[test]
    fn a_run_that_writes_anything_has_no_answer_and_harms_nobody() {
        for byte in [1, 0x7f, 0xff] {
            let (ours, runs) = mappings();
            let exchange = RunExchange::open(&ours, b"order", false, true).expect("it fits");
            // SAFETY: all of the mapping may be written.
            unsafe { std::ptr::write_bytes(runs.as_ptr().add(EXCHANGE_OFFSET), byte, size_of::<Exchange>()) };
            assert_eq!(exchange.take_answer(), None);
        }
    }

    #[test]
    fn what_is_another_process_s_is_left_alone() {
        let (ours, runs) = mappings();
        let mut exchange = RunExchange::open(&ours, b"order", false, true).expect("it fits");
        exchange.process += 1;
        assert!(of(&runs).put_answer(b"answer"));
        assert_eq!(exchange.take_answer(), None);
        assert_eq!((of(&runs).order_bytes(), of(&runs).answer_bytes()), (Some(5), Some(6)));
    }

    #[test]
    fn a_run_ahead_is_let_go_once_and_only_while_it_is_there() {
        let (ours, runs) = mappings();
        let first = RunExchange::open(&ours, b"order", true, true).expect("it fits");
        assert!(of(&runs).closed_gate().is_some());
        first.let_go();
        assert!(of(&runs).closed_gate().is_none());
        first.close();
        let second = RunExchange::open(&ours, b"order", true, true).expect("it fits");
        first.let_go();
        assert!(of(&runs).closed_gate().is_some(), "that is another run's");
        assert_eq!(second.take_answer(), None);
        assert!(of(&runs).is_clear());
    }

    #[test]
    fn an_order_that_does_not_fit_is_not_taken() {
        let (ours, _) = mappings();
        assert!(RunExchange::open(&ours, &[], false, true).is_none());
        assert!(RunExchange::open(&ours, &vec![1; MOST_ORDER_BYTES + 1], false, true).is_none());
        assert!(of(&ours).is_clear());
    }
}
