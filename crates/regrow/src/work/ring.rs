//! A ring of records in memory that processes share, for any number of senders and receivers.
//!
//! ```text
//!   word 0      1      2      3       4          5         6        16
//!   lock   head   tail   values  capacity   starved   crowded  …  area
//! ```
//!
//! `head` and `tail` count words, and are never set back. A record is a word with its length in bytes, and its bytes. A lock, the number of
//! the process that has it, stands before all. Each change of the ring is one store, so that a process that is killed in the middle leaves a
//! whole ring, and its lock is taken from it. Nobody believes what another process has written: what cannot be is [`Broken`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many words come before the area.
const HEADER_WORDS: usize = 16;

const LOCK: usize = 0;
const HEAD: usize = 1;
const TAIL: usize = 2;
const VALUES: usize = 3;
const CAPACITY: usize = 4;
const STARVED: usize = 5;
const CROWDED: usize = 6;

/// How long a process may have the lock without a look at whether it lives, and in all.
const PATIENCE: Duration = Duration::from_millis(2);
const LIMIT: Duration = Duration::from_secs(2);

/// The ring cannot be used any more: a process has written nonsense to it, or has its lock and does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) &'static str);

/// A ring, in so many words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ring<'a>(&'a [AtomicU64]);

/// The lock is this one's.
struct Turn<'a>(Ring<'a>);

/// What a ring says to who wants to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// It is in.
    Done,
    /// There is no room now.
    Full,
    /// It is larger than the ring.
    TooLarge,
}

/// What a ring says to who wants to receive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pop {
    /// A record.
    Done(Vec<u8>),
    /// There is none.
    Empty,
}

impl<'a> Ring<'a> {
    /// The ring in these words; `None`: they are too few.
    pub(crate) fn of(words: &'a [AtomicU64]) -> Option<Self> {
        (words.len() > 2 * HEADER_WORDS).then_some(Self(words))
    }

    /// How many bytes a ring takes in which records of so many bytes have room.
    pub(crate) fn bytes_for(area: usize) -> usize {
        HEADER_WORDS * size_of::<u64>() + area.next_multiple_of(8)
    }

    /// Says how many records there may be at a time.
    pub(crate) fn set_capacity(self, values: usize) {
        self.store(CAPACITY, u64::try_from(values.max(1)).unwrap_or(u64::MAX));
    }

    /// The largest record, in bytes.
    pub(crate) fn most(self) -> usize {
        (self.area().len() - 1) * size_of::<u64>()
    }

    /// Adds a record. `wake` is called, with the lock, where receivers wait; and `drain`, where there is no room: what the caller then waits for comes
    /// later.
    pub(crate) fn push(
        self,
        record: &[u8],
        wake: impl FnOnce(),
        drain: impl FnOnce(),
    ) -> Result<Push, Broken> {
        if record.len() > self.most() {
            return Ok(Push::TooLarge);
        }
        let _turn = self.lock()?;
        let (head, tail) = self.positions()?;
        let need = 1 + record.len().div_ceil(8) as u64;
        let values = self.load(VALUES);
        if values >= self.load(CAPACITY) || tail - head + need > self.area().len() as u64 {
            self.store(CROWDED, 1);
            drain();
            return Ok(Push::Full);
        }
        self.at(tail).store(record.len() as u64, Ordering::Relaxed);
        for (position, bytes) in (tail + 1..).zip(record.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.at(position).store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        self.store(VALUES, values.saturating_add(1));
        self.0[TAIL].store(tail + need, Ordering::Release);
        self.tell(STARVED, wake);
        Ok(Push::Done)
    }

    /// Takes the oldest record. `wake`, for senders that wait, and `drain` as with [`Ring::push`].
    pub(crate) fn pop(self, wake: impl FnOnce(), drain: impl FnOnce()) -> Result<Pop, Broken> {
        let _turn = self.lock()?;
        let (head, tail) = self.positions()?;
        if head == tail {
            self.store(STARVED, 1);
            drain();
            return Ok(Pop::Empty);
        }
        let bytes = usize::try_from(self.at(head).load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        if bytes > self.most() || 1 + bytes.div_ceil(8) as u64 > tail - head {
            return Err(Broken("a record is longer than what there is"));
        }
        let words = bytes.div_ceil(8) as u64;
        let mut record = Vec::with_capacity(bytes.next_multiple_of(8));
        for position in head + 1..=head + words {
            record.extend_from_slice(&self.at(position).load(Ordering::Relaxed).to_le_bytes());
        }
        record.truncate(bytes);
        self.0[HEAD].store(head + 1 + words, Ordering::Release);
        // One that was killed between the two stores is counted too often: an empty ring sets it right.
        let left = if head + 1 + words == tail { 0 } else { self.load(VALUES).saturating_sub(1) };
        self.store(VALUES, left);
        self.tell(CROWDED, wake);
        Ok(Pop::Done(record))
    }

    /// Tells those who wait. A process that is killed in the middle has told, and the next one tells again.
    fn tell(self, who: usize, wake: impl FnOnce()) {
        if self.load(who) != 0 {
            wake();
            self.store(who, 0);
        }
    }

    fn area(self) -> &'a [AtomicU64] {
        &self.0[HEADER_WORDS..]
    }

    fn at(self, position: u64) -> &'a AtomicU64 {
        let area = self.area();
        // The remainder is less than a length in memory.
        &area[usize::try_from(position % area.len() as u64).unwrap_or(0)]
    }

    fn load(self, word: usize) -> u64 {
        self.0[word].load(Ordering::Relaxed)
    }

    fn store(self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Relaxed);
    }

    /// Head and tail, if they can be.
    fn positions(self) -> Result<(u64, u64), Broken> {
        let (head, tail) = (self.0[HEAD].load(Ordering::Acquire), self.0[TAIL].load(Ordering::Acquire));
        let used = tail.checked_sub(head).filter(|used| *used <= self.area().len() as u64);
        // So that no sum of them is too large.
        used.filter(|_| tail < u64::MAX / 2).map(|_| (head, tail)).ok_or(Broken("its positions cannot be"))
    }

    fn lock(self) -> Result<Turn<'a>, Broken> {
        let own = u64::from(std::process::id());
        let mut since = None;
        loop {
            match self.0[LOCK].compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(Turn(self)),
                Err(owner) => {
                    let waited = since.get_or_insert_with(Instant::now).elapsed();
                    if waited > LIMIT {
                        return Err(Broken("a process has its lock and does not go on"));
                    }
                    if waited > PATIENCE && owner != own && is_gone(owner) && self.take_from(owner, own) {
                        return Ok(Turn(self));
                    }
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Takes the lock from a process that is gone.
    fn take_from(self, owner: u64, own: u64) -> bool {
        self.0[LOCK].compare_exchange(owner, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.0[LOCK].store(0, Ordering::Release);
    }
}

/// Whether a process has ended, also when nobody has waited for it yet.
fn is_gone(process: u64) -> bool {
    match std::fs::read_to_string(format!("/proc/{process}/stat")) {
        Ok(line) => line.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn words(area: usize) -> Vec<AtomicU64> {
        (0..Ring::bytes_for(area) / 8).map(|_| AtomicU64::new(0)).collect()
    }

    fn record(number: u64, most: usize) -> Vec<u8> {
        let bytes = usize::try_from(number * 37).expect("small") % (most + 1);
        (0..bytes).map(|byte| u8::try_from((byte as u64 + number) % 256).expect("small")).collect()
    }

    #[test]
    fn records_of_all_sizes_come_out_as_they_went_in() {
        let words = words(1000);
        let ring = Ring::of(&words).expect("a ring");
        ring.set_capacity(5);
        let mut model = VecDeque::new();
        let (mut number, mut full, mut empty) = (0_u64, 0, 0);
        for step in 0..20_000_u64 {
            if (step * step / 7) % 3 != 0 {
                let next = record(number, ring.most());
                match ring.push(&next, || (), || ()).expect("whole") {
                    Push::Done => model.push_back(next),
                    Push::Full => full += 1,
                    Push::TooLarge => panic!("{} bytes of {}", next.len(), ring.most()),
                }
                number += 1;
            } else {
                match ring.pop(|| (), || ()).expect("whole") {
                    Pop::Done(record) => assert_eq!(Some(record), model.pop_front()),
                    Pop::Empty => {
                        assert!(model.is_empty());
                        empty += 1;
                    }
                }
            }
            assert!(model.len() <= 5);
        }
        assert!(full > 100 && number > 5_000, "{full} {empty} {number}");
        assert_eq!(ring.push(&vec![0; ring.most() + 1], || (), || ()), Ok(Push::TooLarge));
    }

    #[test]
    fn who_waits_is_told() {
        let words = words(1000);
        let ring = Ring::of(&words).expect("a ring");
        ring.set_capacity(1);
        let said = std::cell::RefCell::new(String::new());
        let say = |what: &'static str| || said.borrow_mut().push_str(what);
        assert_eq!(ring.pop(say("no"), say("empty ")), Ok(Pop::Empty));
        assert_eq!(ring.push(b"a", say("fed "), say("no")), Ok(Push::Done));
        assert_eq!(ring.push(b"b", say("no"), say("full ")), Ok(Push::Full));
        assert_eq!(ring.pop(say("room "), say("no")), Ok(Pop::Done(b"a".to_vec())));
        assert_eq!(ring.push(b"c", say("no"), say("no")), Ok(Push::Done));
        assert_eq!(ring.pop(say("no"), say("no")), Ok(Pop::Done(b"c".to_vec())));
        assert_eq!(said.into_inner(), "empty fed full room ");
    }

    #[test]
    fn nonsense_of_another_process_is_seen() {
        for (word, value) in
            [(TAIL, 1 << 60), (HEAD, 5), (TAIL, u64::MAX), (HEADER_WORDS, 1 << 40), (HEADER_WORDS, 900)]
        {
            let words = words(1000);
            let ring = Ring::of(&words).expect("a ring");
            ring.set_capacity(9);
            ring.push(b"one", || (), || ()).expect("whole");
            words[word].store(value, Ordering::Relaxed);
            assert!(ring.pop(|| (), || ()).is_err(), "word {word}, value {value}");
        }
    }

    #[test]
    fn the_lock_of_a_process_that_was_killed_is_taken_from_it() {
        let words = words(1000);
        let ring = Ring::of(&words).expect("a ring");
        ring.set_capacity(9);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        words[LOCK].store(u64::from(child.id()), Ordering::Relaxed);
        child.kill().expect("killed");
        // It is not waited for yet.
        assert_eq!(ring.push(b"one", || (), || ()), Ok(Push::Done));
        child.wait().expect("its end");
        words[LOCK].store(u64::from(child.id()), Ordering::Relaxed);
        assert!(matches!(ring.pop(|| (), || ()), Ok(Pop::Done(_))));
    }

    #[test]
    fn a_process_that_keeps_the_lock_blocks_nobody_for_ever() {
        let words = words(1000);
        let ring = Ring::of(&words).expect("a ring");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        words[LOCK].store(u64::from(child.id()), Ordering::Relaxed);
        assert!(ring.pop(|| (), || ()).is_err());
        child.kill().and_then(|()| child.wait()).expect("its end");
    }
}
