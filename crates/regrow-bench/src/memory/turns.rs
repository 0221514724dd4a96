//! What all comparisons of blocks have in common: how long a turn is, what a touch is, and the error where the service refuses.

use std::hint::black_box;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use regrow_memory::{PAGE_BYTES, ServiceError};

use crate::error::BenchError;

/// How many times each side has its turn.
pub(super) const ROUNDS: usize = 9;
/// How long a turn is, and how many blocks a thread has between two looks at the clock.
pub(super) const TURN: Duration = Duration::from_millis(20);
pub(super) const AT_ONCE: usize = 16;

/// The service gives no memory.
pub(super) fn refused(error: ServiceError) -> BenchError {
    BenchError::system("the memory service refuses")(std::io::Error::other(error))
}

/// What a thread has measured.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, BenchError>>) -> Result<T, BenchError> {
    let panicked = |_| std::io::Error::other("a thread of the benchmark panicked");
    thread.join().map_err(panicked).map_err(BenchError::system("memory cannot be measured"))?
}

/// Writes to each page of a block, and reads it.
pub(super) fn touch(block: &mut [u8], time: usize) {
    let mark = time.to_le_bytes()[0];
    for page in black_box(block).chunks_mut(PAGE_BYTES) {
        if let Some(byte) = page.first_mut() {
            *black_box(&mut *byte) = mark;
            assert_eq!(*black_box(byte), mark, "memory of a block is its client's alone");
        }
    }
}
