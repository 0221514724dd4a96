//! The exchange: memory through which the caller of a run and the run's own program pass an order and an answer.
//!
//! ```text
//!   caller     put_order ──order's message──>                              ──the run has ended──> copy_answer, clear
//!   program                                    take_order … put_answer, end
//!
//!   ahead      close_gate, put_order ──message──>                  open_gate
//!   program                         take_order, ready, is_closed … ──wakes──> put_answer, end
//! ```
//!
//! It stands behind the arg area in the control memfd of a body. Only a program that has reported a word for its address uses it
//! (`docs/warm.md`). What is too long for it goes another way.
//!
//! Who writes when: the caller from the end of a run, as the kernel tells it, to the message of the next order; the program from there to
//! its end. The caller clears the exchange before it sends a next order, so that no run finds what an earlier one was told, or has said.
//!
//! Invariants: all of it is atomic, and every bit pattern is valid. A run can write anything there: whoever reads a length checks it, and
//! reads it once. The program says how much of the answer's room it is going to use before it uses it, and that the answer is whole
//! when it is, so that what a killed run has begun is no answer, and is cleared all the same.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes of the exchange. A page of it takes memory when it is used first.
pub const EXCHANGE_BYTES: usize = 64 * 1024;

const HEAD_BYTES: usize = 16;
const WORD_BYTES: usize = size_of::<u64>();
const ANSWER_WORDS: usize = (EXCHANGE_BYTES / 2 - HEAD_BYTES) / WORD_BYTES;
const ORDER_WORDS: usize = EXCHANGE_BYTES / 2 / WORD_BYTES;

/// The longest order that is passed so, in bytes.
pub const MOST_ORDER_BYTES: usize = ORDER_WORDS * WORD_BYTES;

/// The longest answer that is passed so, in bytes.
pub const MOST_ANSWER_BYTES: usize = ANSWER_WORDS * WORD_BYTES;

/// See the module.
#[derive(Debug)]
#[repr(C)]
pub struct Exchange {
    /// Bytes of the order; zero when the program has taken it.
    order_bytes: AtomicU32,
    /// Bytes of the answer's room that the program uses.
    answer_bytes: AtomicU32,
    /// 1 when the answer is whole.
    is_answered: AtomicU32,
    /// The caller's process while the program that has taken its order is not to begin with it, which sleeps on this; else zero.
    gate: AtomicU32,
    answer: [AtomicU64; ANSWER_WORDS],
    order: [AtomicU64; ORDER_WORDS],
}

const _: () = assert!(size_of::<Exchange>() == EXCHANGE_BYTES);

impl Exchange {
    /// The caller writes an order. False when it has no bytes, or too many.
    #[must_use]
    pub fn put_order(&self, order: &[u8]) -> bool {
        if order.is_empty() || order.len() > MOST_ORDER_BYTES {
            return false;
        }
        write(&self.order, order);
        self.order_bytes.store(order.len() as u32, SeqCst);
        true
    }

    /// The caller, which is this process, has the program wait with its order until the gate is opened.
    pub fn close_gate(&self, caller: u32) {
        self.gate.store(caller, SeqCst);
    }

    /// The caller lets the program begin. Whoever sleeps on the word that this returns is to be woken.
    #[must_use]
    pub fn open_gate(&self) -> &AtomicU32 {
        self.gate.store(0, SeqCst);
        &self.gate
    }

    /// While the program is not to begin: the word to sleep on, and its value, which is the caller. A program with another parent has
    /// nobody to wait for.
    #[must_use]
    pub fn closed_gate(&self) -> Option<(&AtomicU32, u32)> {
        let caller = self.gate.load(SeqCst);
        (caller != 0).then_some((&self.gate, caller))
    }

    /// How many bytes of an order the program finds; `None` where there is none.
    #[must_use]
    pub fn order_bytes(&self) -> Option<usize> {
        let bytes = self.order_bytes.load(SeqCst) as usize;
        (1..=MOST_ORDER_BYTES).contains(&bytes).then_some(bytes)
    }

    /// The program takes the order: copies the beginning of it, as far as there is room, and clears that.
    pub fn take_order(&self, room: &mut [u8]) {
        let bytes = room.len().min(MOST_ORDER_BYTES);
        read(&self.order, room);
        clear(&self.order, bytes);
        self.order_bytes.store(0, SeqCst);
    }

    /// The program answers. False when the answer has no bytes, or too many.
    #[must_use]
    pub fn put_answer(&self, answer: &[u8]) -> bool {
        if answer.is_empty() || answer.len() > MOST_ANSWER_BYTES {
            return false;
        }
        self.answer_bytes.store(answer.len() as u32, SeqCst);
        write(&self.answer, answer);
        self.is_answered.store(1, SeqCst);
        true
    }

    /// How many bytes the answer has; `None` where there is none, or the lengths are not those of one.
    #[must_use]
    pub fn answer_bytes(&self) -> Option<usize> {
        let is_answered = self.is_answered.load(SeqCst) == 1;
        let bytes = self.answer_bytes.load(SeqCst) as usize;
        (is_answered && (1..=MOST_ANSWER_BYTES).contains(&bytes)).then_some(bytes)
    }

    /// The caller copies the beginning of the answer, as far as there is room.
    pub fn copy_answer(&self, room: &mut [u8]) {
        read(&self.answer, room);
    }

    /// The caller clears what was used: an order of so many bytes, and what the run says of its answer. All is cleared where nobody trusts
    /// the run, and where it has not taken its order and answered as it should.
    pub fn clear(&self, order_bytes: usize, trusts_runs: bool) {
        let head = [&self.order_bytes, &self.answer_bytes, &self.is_answered, &self.gate];
        let [untaken, answer_bytes, is_answered, gate] = head.map(|word| word.load(SeqCst));
        let is_usual =
            trusts_runs && untaken == 0 && gate == 0 && is_answered == u32::from(answer_bytes != 0);
        clear(&self.order, if is_usual { order_bytes } else { MOST_ORDER_BYTES });
        clear(&self.answer, if is_usual { answer_bytes as usize } else { MOST_ANSWER_BYTES });
        head.iter().for_each(|word| word.store(0, SeqCst));
    }

    /// Whether nothing stands in it.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        let head = [&self.order_bytes, &self.answer_bytes, &self.is_answered, &self.gate];
        head.iter().all(|word| word.load(SeqCst) == 0)
            && self.answer.iter().chain(&self.order).all(|word| word.load(Relaxed) == 0)
    }
}

/// Writes bytes to words, as many as there are words for. What is left of the last word is zero.
fn write(to: &[AtomicU64], from: &[u8]) {
    for (word, bytes) in to.iter().zip(from.chunks(WORD_BYTES)) {
        let mut padded = [0; WORD_BYTES];
        for (to, from) in padded.iter_mut().zip(bytes) {
            *to = *from;
        }
        word.store(u64::from_ne_bytes(padded), Relaxed);
    }
}

/// Reads the bytes of words, as far as there is room and there are words.
fn read(from: &[AtomicU64], room: &mut [u8]) {
    for (word, bytes) in from.iter().zip(room.chunks_mut(WORD_BYTES)) {
        for (to, from) in bytes.iter_mut().zip(word.load(Relaxed).to_ne_bytes()) {
            *to = from;
        }
    }
}

/// Zeroes the words that so many bytes take.
fn clear(words: &[AtomicU64], bytes: usize) {
    for word in words.iter().take(bytes.div_ceil(WORD_BYTES)) {
        word.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    fn exchange() -> Box<Exchange> {
        Box::new(Exchange {
            order_bytes: AtomicU32::new(0),
            answer_bytes: AtomicU32::new(0),
            is_answered: AtomicU32::new(0),
            gate: AtomicU32::new(0),
            answer: [const { AtomicU64::new(0) }; ANSWER_WORDS],
            order: [const { AtomicU64::new(0) }; ORDER_WORDS],
        })
    }

    /// Bytes of which no word is like its neighbour.
    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8 + 1).collect()
    }

    fn taken(exchange: &Exchange) -> Option<Vec<u8>> {
        let mut room = vec![0; exchange.order_bytes()?];
        exchange.take_order(&mut room);
        Some(room)
    }

    fn answer(exchange: &Exchange) -> Option<Vec<u8>> {
        let mut room = vec![0; exchange.answer_bytes()?];
        exchange.copy_answer(&mut room);
        Some(room)
    }

    #[test]
    fn an_order_is_taken_once_and_leaves_nothing() {
        let exchange = exchange();
        for length in [1, 7, 8, 9, 4097, MOST_ORDER_BYTES] {
            assert!(exchange.put_order(&bytes(length)));
            assert!(!exchange.is_clear());
            assert_eq!(taken(&exchange), Some(bytes(length)));
            assert_eq!(taken(&exchange), None);
            assert!(exchange.is_clear());
        }
    }

    #[test]
    fn an_answer_is_there_until_it_is_cleared() {
        let exchange = exchange();
        for length in [1, 8, 15, 4096, MOST_ANSWER_BYTES] {
            assert!(exchange.put_answer(&bytes(length)));
            assert_eq!(answer(&exchange), Some(bytes(length)));
            exchange.clear(0, true);
            assert_eq!(answer(&exchange), None);
            assert!(exchange.is_clear());
        }
    }

    #[test]
    fn a_gate_is_closed_until_it_is_opened_and_leaves_nothing() {
        let exchange = exchange();
        assert!(exchange.closed_gate().is_none());
        exchange.close_gate(7);
        assert!(exchange.put_order(&bytes(9)));
        let (word, value) = exchange.closed_gate().expect("it is closed");
        assert_eq!((word.load(SeqCst), value), (7, 7));
        assert_eq!(exchange.open_gate().load(SeqCst), 0);
        assert!(exchange.closed_gate().is_none());
        exchange.close_gate(7);
        exchange.clear(9, true);
        assert!(exchange.is_clear() && exchange.closed_gate().is_none());
    }

    #[test]
    fn what_does_not_fit_is_not_written() {
        let exchange = exchange();
        assert!(!exchange.put_order(&[]) && !exchange.put_answer(&[]));
        assert!(!exchange.put_order(&bytes(MOST_ORDER_BYTES + 1)));
        assert!(!exchange.put_answer(&bytes(MOST_ANSWER_BYTES + 1)));
        assert!(exchange.is_clear());
    }

    #[test]
    fn what_a_killed_run_has_begun_is_no_answer_and_is_cleared() {
        let exchange = exchange();
        assert!(exchange.put_order(&bytes(100)));
        exchange.answer_bytes.store(20, SeqCst);
        write(&exchange.answer, &bytes(20));
        assert_eq!(answer(&exchange), None);
        exchange.clear(100, true);
        assert!(exchange.is_clear());
    }

    #[test]
    fn lengths_that_are_none_are_not_believed() {
        let exchange = exchange();
        for (bytes, is_answered) in [(0, 1), (u32::MAX, 1), (MOST_ANSWER_BYTES as u32 + 1, 1), (9, 0), (9, 2)]
        {
            exchange.answer_bytes.store(bytes, SeqCst);
            exchange.is_answered.store(is_answered, SeqCst);
            assert_eq!(answer(&exchange), None, "{bytes} {is_answered}");
        }
        for bytes in [u32::MAX, MOST_ORDER_BYTES as u32 + 1] {
            exchange.order_bytes.store(bytes, SeqCst);
            assert_eq!(taken(&exchange), None);
        }
        for word in exchange.answer.iter().chain(&exchange.order) {
            word.store(u64::MAX, Relaxed);
        }
        exchange.clear(1, true);
        assert!(exchange.is_clear(), "of a run that does as it likes all is cleared");
    }
}
