//! The exchange of a call, inside its process: memory through which the order comes and the answer goes (`docs/warm.md`).
//!
//! ```text
//!   image   the word is zero, and the front end reports its address
//!   run     the word is where the exchange is ──take_order──> the function ──put_answer──> end
//!                      zero: the order is in the descriptor, and the answer goes there
//! ```
//!
//! Invariant: only the process that has taken the order answers. A fork of it has the word, and not the memory.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use regrow_abi::Exchange;
use rustix::thread::{Timespec, futex};

/// How often a process that waits for its turn looks whether its caller is still there.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What a runner has of the exchange.
#[derive(Debug, Default)]
pub(crate) struct RunnerExchange {
    /// Whoever starts the run writes it, between the stop of the image and the order.
    word: AtomicU64,
    /// The process that has taken the order; zero while there is none.
    taken_by: AtomicU32,
}

impl RunnerExchange {
    /// Where the word is.
    pub(crate) fn word_address(&self) -> usize {
        self.word.as_ptr().expose_provenance()
    }

    /// Takes the order; none where it did not come so.
    pub(crate) fn take_order(&self) -> Option<Vec<u8>> {
        let exchange = self.exchange()?;
        let mut order = Vec::new();
        let bytes = exchange.order_bytes()?;
        order.try_reserve_exact(bytes).ok()?;
        order.resize(bytes, 0);
        exchange.take_order(&mut order);
        self.taken_by.store(std::process::id(), Relaxed);
        Some(order)
    }

    /// Waits until the caller lets this process begin, where it was started ahead of its turn. False when the caller has ended.
    pub(crate) fn await_turn(&self) -> bool {
        while let Some((word, caller)) = self.exchange().and_then(Exchange::closed_gate) {
            let parent =
                rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get().cast_unsigned());
            if parent != Some(caller) {
                return false;
            }
            // Whatever ends the sleep, the word says whether it is time.
            let _ = futex::wait(word, futex::Flags::empty(), caller, Some(&LOOK));
        }
        true
    }

    /// Answers. False where the order did not come so, or the answer is too long.
    pub(crate) fn put_answer(&self, answer: &[u8]) -> bool {
        let has_taken = self.taken_by.load(Relaxed) == std::process::id();
        has_taken && self.exchange().is_some_and(|exchange| exchange.put_answer(answer))
    }

    fn exchange(&self) -> Option<&Exchange> {
        let address = usize::try_from(self.word.load(Relaxed)).ok().filter(|&address| address != 0)?;
        #[allow(unsafe_code, reason = "Regrow says where the exchange is by its address")]
        // SAFETY: nobody writes the word but whoever starts a run in a body, with the address of the exchange in the body's control area,
        // which is mapped as long as the process lives. All of it is atomic numbers, of which every bit pattern is valid. The process
        // that was given the order has it mapped: `put_answer` asks for that first, and `take_order` comes before any fork.
        Some(unsafe { &*std::ptr::with_exposed_provenance::<Exchange>(address) })
    }
}
