//! How many requests of the program were served, and the line that a process appends to a file at its end.
//!
//! Threads count in lines of their own, as far as there are enough. A copy of a process by `fork` begins at zero.

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use rustix::fs::{Mode, OFlags, open};

use crate::errno::Line;
use crate::settings::look;

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Count {
    Malloc,
    Calloc,
    Realloc,
    Aligned,
    Free,
    Mmap,
    Munmap,
    Part,
    Mremap,
    Fixed,
    Changed,
    /// Requests that the service could not serve, and passed on.
    Passed,
}

const NAMES: [&str; 12] = [
    "malloc", "calloc", "realloc", "aligned", "free", "mmap", "munmap", "part", "mremap", "fixed", "changed",
    "passed",
];
const LINES: usize = 32;

#[derive(Debug)]
#[repr(align(128))]
struct Counts([AtomicU64; NAMES.len()]);

static ALL: [Counts; LINES] = [const { Counts([const { AtomicU64::new(0) }; NAMES.len()]) }; LINES];

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Counts a request.
pub(crate) fn add(what: Count) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let line = MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) % LINES);
        }
        mine.get()
    });
    if let Some(count) = ALL.get(line).and_then(|line| line.0.get(what as usize)) {
        count.fetch_add(1, Relaxed);
    }
}

/// Begins at zero.
pub(crate) fn reset() {
    ALL.iter().flat_map(|line| &line.0).for_each(|count| count.store(0, Relaxed));
}

/// Appends the line, where a file is named.
pub(crate) fn report() {
    let Some(path) = look(c"REGROW_MEMORY_STATISTICS") else { return };
    let mut line = Line::new();
    let _ = write!(line, "pid={}", rustix::process::getpid());
    for (at, name) in NAMES.iter().enumerate() {
        let sum: u64 = ALL.iter().filter_map(|line| line.0.get(at)).map(|count| count.load(Relaxed)).sum();
        let _ = write!(line, " {name}={sum}");
    }
    let _ = writeln!(line);
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    match open(path, flags, Mode::from_raw_mode(0o644)) {
        Ok(file) => {
            let _ = rustix::io::write(&file, line.as_bytes());
        }
        Err(error) => crate::errno::say(format_args!("REGROW_MEMORY_STATISTICS: {error}")),
    }
}
