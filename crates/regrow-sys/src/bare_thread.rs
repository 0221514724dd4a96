//! A thread that the C library does not know, for a library in a process that is not its own.
//!
//! ```text
//!   none ──call──> called ──> there: works ──┬── called meanwhile: works again
//!     ^                                      └── else: none, in the instruction by which it ends
//!   barred: there is none, and none comes
//! ```
//!
//! - It can be started anywhere: in the middle of `malloc`, of the loader, of a signal's handler. No lock is taken, and nothing comes from the
//!   heap.
//! - A program with one thread stays one for its C library, which has quicker ways for those.
//! - It blocks all signals from its first instruction on, and has a table of descriptors of its own, so that none of the program's numbers is
//!   taken, and none of its files is kept.
//! - It is there only while it works. Who does what no process with two threads may do, or counts threads, bars it.
//!
//! What it runs uses no thread-local storage, and so no function of the C library that does: not its heap, and no panic. The number of the last
//! error may be written. Memory of the heap is that of a global allocator without thread-local storage.

#![allow(unsafe_code, reason = "raw system calls")]

use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::arch::{Start, end_thread, start_thread, thread_pointer};
use crate::raw::{check, futex_wait, futex_wake, set_signal_mask, syscall, word};

/// Its stack, behind a page that faults.
const GUARD: usize = 4096;
const STACK: usize = 64 << 10;
/// Its thread-local storage: so much before the thread pointer, and so much behind.
const BEFORE: usize = 12 << 10;
const BEHIND: usize = 4 << 10;
const ALL: usize = GUARD + STACK + BEFORE + BEHIND;

/// States, in the lowest bits of the word.
const NONE: u32 = 0;
const THERE: u32 = 1;
const CALLED: u32 = 2;
const STATE: u32 = 3;
/// The other bits count those who bar it.
const BAR: u32 = 4;

/// How long somebody sleeps who waits for its end, at a time; and in all, where a tracer does not let it go.
const STEP: Duration = Duration::from_millis(1);
const STEPS: u32 = 2000;

/// See the module.
#[derive(Debug)]
pub struct BareThread {
    name: &'static std::ffi::CStr,
    work: fn(&Own),
    word: AtomicU32,
    /// The process that has started it.
    pid: AtomicU32,
    /// The numbers of the last two: one may still be on its way out when the next one comes.
    numbers: [AtomicU32; 2],
    generation: AtomicUsize,
    /// The kernel clears it, and wakes who sleeps there, when one has ended.
    is_there: AtomicU32,
    memory: AtomicPtr<u8>,
}

/// What the thread has while it works.
#[derive(Debug)]
pub struct Own {
    thread: &'static BareThread,
    has_descriptors: bool,
}

impl Own {
    /// Whether it may open files: its table of descriptors is its own (Linux 5.9).
    #[must_use]
    pub fn has_descriptors(&self) -> bool {
        self.has_descriptors
    }

    /// Sleeps so long, or less where somebody bars the thread. Whether somebody does: it is to end.
    #[must_use]
    pub fn sleep(&self, time: Duration) -> bool {
        let seen = self.thread.word.load(Ordering::SeqCst);
        if seen < BAR {
            futex_wait(&self.thread.word, seen, time);
        }
        self.thread.word.load(Ordering::SeqCst) >= BAR
    }
}

impl BareThread {
    /// A thread that is not there. Its name has 15 bytes at most.
    #[must_use]
    pub const fn new(name: &'static std::ffi::CStr, work: fn(&Own)) -> BareThread {
        BareThread {
            name,
            work,
            word: AtomicU32::new(NONE),
            pid: AtomicU32::new(0),
            numbers: [const { AtomicU32::new(0) }; 2],
            generation: AtomicUsize::new(0),
            is_there: AtomicU32::new(0),
            memory: AtomicPtr::new(null_mut()),
        }
    }

    /// Has it work: it comes, or works once more where it is there. False where it is barred, cannot be started, or is another process's.
    pub fn call(&'static self) -> bool {
        let mut seen = self.word.load(Ordering::SeqCst);
        loop {
            if seen >= BAR {
                return false;
            }
            if seen == CALLED {
                return self.is_own();
            }
            match self.word.compare_exchange(seen, CALLED, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(NONE) => break,
                Ok(_) => return self.is_own(),
                Err(other) => seen = other,
            }
        }
        let started = self.start();
        if started.is_err() {
            self.word.fetch_and(!STATE, Ordering::SeqCst);
        }
        started.is_ok()
    }

    /// Ends it, and has none come. Whether it was there. [`BareThread::unbar`] as often.
    pub fn bar(&self) -> bool {
        let was_there = self.word.fetch_add(BAR, Ordering::SeqCst) & STATE != NONE;
        futex_wake(&self.word);
        self.wait_for_its_end();
        was_there
    }

    /// Lets it come again, when nobody else bars it.
    pub fn unbar(&self) {
        self.word.fetch_sub(BAR, Ordering::SeqCst);
    }

    fn is_own(&self) -> bool {
        self.pid.load(Ordering::SeqCst) == rustix::process::getpid().as_raw_nonzero().get().cast_unsigned()
    }

    fn wait_for_its_end(&self) {
        let is_left = || {
            self.word.load(Ordering::SeqCst) & STATE != NONE
                || self.numbers.iter().any(|number| self.is_alive(number.load(Ordering::SeqCst)))
        };
        for _ in 0..STEPS {
            if !is_left() || !self.is_own() {
                break;
            }
            match self.is_there.load(Ordering::SeqCst) {
                // It is on its way out.
                0 => rustix::thread::sched_yield(),
                number => futex_wait(&self.is_there, number, STEP),
            }
        }
    }

    /// Whether a thread of the process counts as one of it. The number of one that has ended may be another one's, which is not of it most
    /// often.
    fn is_alive(&self, number: u32) -> bool {
        if number == 0 {
            return false;
        }
        let args = [self.pid.load(Ordering::SeqCst) as usize, number as usize, 0, 0, 0, 0];
        // SAFETY: numbers only; signal 0 is none.
        let is_alive = check(unsafe { syscall(libc::SYS_tgkill, args) }).is_ok();
        if !is_alive {
            for known in &self.numbers {
                let _ = known.compare_exchange(number, 0, Ordering::SeqCst, Ordering::SeqCst);
            }
        }
        is_alive
    }

    /// Its stack and its storage, which stay for the next one.
    fn memory(&self) -> io::Result<*mut u8> {
        let known = self.memory.load(Ordering::SeqCst);
        if !known.is_null() {
            return Ok(known);
        }
        // SAFETY: the kernel chooses the address. Nobody else knows of the memory yet.
        unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let memory = mmap_anonymous(null_mut(), ALL, access, MapFlags::PRIVATE)?;
            if let Err(error) = mprotect(memory, GUARD, MprotectFlags::empty()) {
                let _ = munmap(memory, ALL);
                return Err(error.into());
            }
            self.memory.store(memory.cast(), Ordering::SeqCst);
            Ok(memory.cast())
        }
    }

    fn start(&'static self) -> io::Result<()> {
        // SAFETY: the C library gives the address of this thread's own number.
        let errno = unsafe { libc::__errno_location() }.addr();
        let from_pointer = errno.wrapping_sub(thread_pointer()).wrapping_add(BEFORE);
        if from_pointer >= BEFORE + BEHIND {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let memory = self.memory()?;
        let number = &self.numbers[self.generation.fetch_add(1, Ordering::SeqCst) % 2];
        self.pid.store(rustix::process::getpid().as_raw_nonzero().get().cast_unsigned(), Ordering::SeqCst);
        self.is_there.store(1, Ordering::SeqCst);
        let own =
            libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
        let told = libc::CLONE_SETTLS | libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_CLEARTID;
        let start = Start {
            flags: word(own | libc::CLONE_SYSVSEM | told),
            stack_end: memory.wrapping_add(GUARD + STACK).cast(),
            pointer: memory.wrapping_add(GUARD + STACK + BEFORE).cast(),
            number: number.as_ptr(),
            is_there: self.is_there.as_ptr(),
        };
        let before = blocked_signals();
        // SAFETY: the state is CALLED, so that nobody else starts a thread, and none is there: the memory is this one's until its state is
        // NONE. The words live as long as the process.
        let started = unsafe { start_thread(&start, entry, std::ptr::from_ref(self).expose_provenance()) };
        set_signal_mask(before);
        check(started).map(drop)
    }

    /// Ends the thread, unless somebody has called it.
    fn end_unless_called(&self) {
        let seen = self.word.load(Ordering::SeqCst);
        if seen != CALLED {
            // SAFETY: nobody waits for this thread but by its word, and nothing on its stack is used again.
            unsafe { end_thread(&self.word, seen, seen & !STATE) };
        }
    }
}

/// Blocks all signals of this thread, those of the C library too. What was blocked before.
fn blocked_signals() -> u64 {
    let (all, mut before) = (u64::MAX, 0u64);
    let how = word(libc::SIG_SETMASK);
    // SAFETY: the sets are live and have the eight bytes of the kernel's own.
    unsafe {
        let args = [how, &raw const all as usize, &raw mut before as usize, 8, 0, 0];
        syscall(libc::SYS_rt_sigprocmask, args);
    }
    before
}

extern "C" fn entry(thread: usize) -> ! {
    // SAFETY: `start` passes a thread that lives as long as the process.
    let thread: &'static BareThread = unsafe { &*std::ptr::with_exposed_provenance(thread) };
    let unshare = libc::CLOSE_RANGE_UNSHARE as usize;
    // SAFETY: the name ends in a zero. The descriptors that are closed are copies of this thread's own.
    let has_descriptors = unsafe {
        syscall(libc::SYS_prctl, [word(libc::PR_SET_NAME), thread.name.as_ptr() as usize, 0, 0, 0, 0]);
        check(syscall(libc::SYS_close_range, [0, u32::MAX as usize, unshare, 0, 0, 0])).is_ok()
    };
    let own = Own { thread, has_descriptors };
    loop {
        // Who calls from now on has it work once more.
        let _ =
            thread.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| Some(word & !STATE | THERE));
        if thread.word.load(Ordering::SeqCst) < BAR {
            (thread.work)(&own);
        }
        thread.end_unless_called();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn threads() -> Vec<String> {
        let names = |entry: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(entry.expect("an entry").path().join("comm")).ok()
        };
        std::fs::read_dir("/proc/self/task").expect("there is one").filter_map(names).collect()
    }

    fn is_there(name: &str) -> bool {
        threads().iter().any(|thread| thread.trim() == name)
    }

    #[test]
    fn it_comes_when_it_is_called_works_as_often_and_is_gone_when_it_is_barred() {
        static WORKS: AtomicU64 = AtomicU64::new(0);
        static FOUND: AtomicU64 = AtomicU64::new(0);
        static THREAD: BareThread = BareThread::new(c"bare-test", |own| {
            WORKS.fetch_add(1, Ordering::SeqCst);
            // Where it has a table of its own, that is empty: no number is anything.
            // SAFETY: numbers only.
            let flags = unsafe { syscall(libc::SYS_fcntl, [0, word(libc::F_GETFD), 0, 0, 0, 0]) };
            FOUND.fetch_add(u64::from(own.has_descriptors() && flags >= 0), Ordering::SeqCst);
            // The first time it stays until it is barred.
            while WORKS.load(Ordering::SeqCst) == 1 && !own.sleep(Duration::from_secs(5)) {}
        });
        assert!(!is_there("bare-test") && THREAD.call());
        while WORKS.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert!(is_there("bare-test"), "{:?}", threads());
        assert!(THREAD.bar());
        assert!(!is_there("bare-test") && !THREAD.call());
        assert!(!THREAD.bar(), "it was not there");
        THREAD.unbar();
        assert!(!THREAD.call(), "one more bars it");
        THREAD.unbar();
        for times in 2..200 {
            assert!(THREAD.call());
            while WORKS.load(Ordering::SeqCst) < times {
                std::thread::yield_now();
            }
            if times % 3 == 0 {
                THREAD.bar();
                THREAD.unbar();
            }
        }
        THREAD.bar();
        assert!(!is_there("bare-test"));
        assert_eq!(FOUND.load(Ordering::SeqCst), 0, "a descriptor of the process was in its table");
    }
}
