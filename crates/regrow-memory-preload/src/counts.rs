//! How many requests of the program were served, and the line that a process appends to a file at its end.
//!
//! Threads count in lines of their own, as far as there are enough, without a locked instruction. A copy of a process by `fork` begins at zero.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use regrow_memory::raw::thread_pointer;
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
const LINES: usize = 64;

#[derive(Debug)]
#[repr(align(128))]
struct Counts {
    /// The thread that counts here, by its thread pointer; that of one that has ended may be another one's.
    owner: AtomicUsize,
    counts: [AtomicU64; NAMES.len()],
}

impl Counts {
    const fn new() -> Counts {
        Counts { owner: AtomicUsize::new(0), counts: [const { AtomicU64::new(0) }; NAMES.len()] }
    }
}

static ALL: [Counts; LINES] = [const { Counts::new() }; LINES];
/// Of those that have no line.
static OTHERS: Counts = Counts::new();

/// Counts a request.
#[inline]
pub(crate) fn add(what: Count) {
    let thread = thread_pointer();
    // Thread pointers lie at multiples of 64, and most of them a stack apart.
    let line = ALL.get((thread >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - LINES.ilog2()));
    match line {
        Some(line) if line.owner.load(Relaxed) == thread => {
            if let Some(count) = line.counts.get(what as usize) {
                count.store(count.load(Relaxed) + 1, Relaxed);
            }
        }
        line => add_elsewhere(line, thread, what),
    }
}

/// For a thread whose line is nobody's as yet, or another one's.
#[cold]
fn add_elsewhere(line: Option<&Counts>, thread: usize, what: Count) {
    let own = line.filter(|line| line.owner.compare_exchange(0, thread, Relaxed, Relaxed).is_ok());
    if let Some(count) = own.unwrap_or(&OTHERS).counts.get(what as usize) {
        count.fetch_add(1, Relaxed);
    }
}

fn all() -> impl Iterator<Item = &'static Counts> {
    ALL.iter().chain([&OTHERS])
}

/// Begins at zero.
pub(crate) fn reset() {
    all().flat_map(|line| &line.counts).for_each(|count| count.store(0, Relaxed));
}

/// Appends the line, where a file is named.
pub(crate) fn report() {
    let Some(path) = look(c"REGROW_MEMORY_STATISTICS") else { return };
    let mut line = Line::new();
    let _ = write!(line, "pid={}", rustix::process::getpid());
    for (at, name) in NAMES.iter().enumerate() {
        let sum: u64 = all().filter_map(|line| line.counts.get(at)).map(|count| count.load(Relaxed)).sum();
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
