//! A ring of lines between one sender and one receiver, without a lock; also in memory that two processes share.
//!
//! Each side keeps its own position, and what it has last seen of the other's, so that a line costs no look at the other side as long as there
//! is room. Lines become visible with [`Sender::publish`], several at a time. The receiver reads a line before it gives its place free, and takes nothing
//! for granted: a position that cannot be (the other process may have written anything) counts as an empty ring, or as a full one.

use crate::message::{Line, WORDS};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// See the module. All zero it is empty. `N` is a power of two.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Ring<const N: usize> {
    /// How many lines were sent, and how many received: each in a cache line of its own.
    sent: Position,
    received: Position,
    slots: [Slot; N],
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Position(AtomicU32);

#[derive(Debug)]
#[repr(C, align(64))]
struct Slot {
    line: [AtomicU64; WORDS],
    /// Words alone would not tell a model that one writes there while the other reads.
    #[cfg(loom)]
    place: crate::sync::Place,
}

impl Slot {
    fn new() -> Slot {
        Slot {
            line: std::array::from_fn(|_| AtomicU64::new(0)),
            #[cfg(loom)]
            place: crate::sync::Place::new(),
        }
    }

    fn write(&self, line: &Line) {
        #[cfg(loom)]
        self.place.write();
        self.line.iter().zip(line).for_each(|(to, &word)| to.store(word, Ordering::Relaxed));
    }

    fn read(&self) -> Line {
        #[cfg(loom)]
        self.place.read();
        std::array::from_fn(|at| self.line[at].load(Ordering::Relaxed))
    }
}

impl<const N: usize> Ring<N> {
    /// An empty one.
    pub(crate) fn new() -> Ring<N> {
        const { assert!(N.is_power_of_two(), "a position is masked") };
        let position = || Position(AtomicU32::new(0));
        Ring { sent: position(), received: position(), slots: std::array::from_fn(|_| Slot::new()) }
    }

    fn slot(&self, position: u32) -> &Slot {
        // `N` is a power of two, and not zero.
        &self.slots[position as usize & (N - 1)]
    }
}

/// The sender's side of a ring.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    sent: u32,
    /// As far as the receiver was when it was last looked at.
    received: u32,
}

impl Sender {
    /// How many lines it has written, modulo 2^32.
    pub(crate) fn count(&self) -> u32 {
        self.sent
    }

    /// For how many lines there is room.
    pub(crate) fn room<const N: usize>(&mut self, ring: &Ring<N>, wanted: usize) -> usize {
        let room = |sender: &Sender| N.saturating_sub(sender.sent.wrapping_sub(sender.received) as usize);
        if room(self) < wanted {
            self.received = ring.received.0.load(Ordering::Acquire);
        }
        room(self)
    }

    /// Writes a line, which the receiver sees when it is published. False where the ring is full.
    pub(crate) fn push<const N: usize>(&mut self, ring: &Ring<N>, line: &Line) -> bool {
        if self.room(ring, 1) == 0 {
            return false;
        }
        ring.slot(self.sent).write(line);
        self.sent = self.sent.wrapping_add(1);
        true
    }

    /// Shows the receiver what was written.
    pub(crate) fn publish<const N: usize>(&self, ring: &Ring<N>) {
        ring.sent.0.store(self.sent, Ordering::Release);
    }
}

/// The receiver's side of a ring.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    received: u32,
    /// As far as the sender was when it was last looked at.
    sent: u32,
}

impl Receiver {
    /// How many lines it has taken, modulo 2^32.
    pub(crate) fn count(&self) -> u32 {
        self.received
    }

    /// The next line, which stays in the ring.
    pub(crate) fn peek<const N: usize>(&mut self, ring: &Ring<N>) -> Option<Line> {
        if self.sent == self.received {
            self.sent = ring.sent.0.load(Ordering::Acquire);
        }
        let waiting = self.sent.wrapping_sub(self.received) as usize;
        if waiting == 0 || waiting > N {
            self.sent = self.received;
            return None;
        }
        Some(ring.slot(self.received).read())
    }

    /// Gives the place of the line free that was looked at.
    pub(crate) fn advance<const N: usize>(&mut self, ring: &Ring<N>) {
        self.received = self.received.wrapping_add(1);
        ring.received.0.store(self.received, Ordering::Release);
    }

    /// Takes the next line.
    pub(crate) fn pop<const N: usize>(&mut self, ring: &Ring<N>) -> Option<Line> {
        let line = self.peek(ring)?;
        self.advance(ring);
        Some(line)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn line(number: u64) -> Line {
        [number; WORDS]
    }

    #[test]
    fn lines_come_in_order_when_they_are_published_and_a_full_ring_takes_no_more() {
        let ring: Ring<4> = Ring::new();
        let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
        for round in 0..10 {
            assert!((0..4).all(|number| sender.push(&ring, &line(round * 4 + number))));
            assert!(!sender.push(&ring, &line(99)) && receiver.pop(&ring).is_none(), "nothing is published");
            sender.publish(&ring);
            assert_eq!(receiver.peek(&ring), Some(line(round * 4)));
            (0..4).for_each(|number| assert_eq!(receiver.pop(&ring), Some(line(round * 4 + number))));
            assert_eq!((receiver.pop(&ring), sender.room(&ring, 4)), (None, 4));
        }
    }

    #[test]
    fn a_position_that_cannot_be_is_an_empty_ring_or_a_full_one() {
        let ring: Ring<4> = Ring::new();
        let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
        ring.sent.0.store(77, Ordering::Relaxed);
        assert_eq!(receiver.pop(&ring), None);
        ring.received.0.store(1000, Ordering::Relaxed);
        assert!((0..4).all(|number| sender.push(&ring, &line(number))) && !sender.push(&ring, &line(4)));
        sender.publish(&ring);
        assert_eq!(receiver.pop(&ring), Some(line(0)), "it goes on when the position can be again");
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn no_line_is_torn_lost_or_seen_early() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let ring: Arc<Ring<2>> = Arc::new(Ring::new());
            let of_sender = Arc::clone(&ring);
            let sending = loom::thread::spawn(move || {
                let mut sender = Sender::default();
                for number in 1..=3 {
                    while !sender.push(&of_sender, &[number; WORDS]) {
                        loom::thread::yield_now();
                    }
                    sender.publish(&of_sender);
                }
            });
            let mut receiver = Receiver::default();
            for number in 1..=3 {
                let line = loop {
                    match receiver.pop(&ring) {
                        Some(line) => break line,
                        None => loom::thread::yield_now(),
                    }
                };
                assert_eq!(line, [number; WORDS]);
            }
            sending.join().expect("it does not panic");
        });
    }
}
