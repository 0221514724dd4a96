//! System calls with types, and the clock.

use core::ffi::CStr;

use regrow_abi::SchedAttr;

use crate::arch::{nr, stat, syscall};

macro_rules! call {
    ($number:expr $(, $arg:expr)* $(,)?) => {{
        let given = [$($arg as usize),*];
        let mut args = [0usize; 6];
        for (to, from) in args.iter_mut().zip(given) {
            *to = from;
        }
        syscall($number, args)
    }};
}

#[repr(C)]
#[derive(Default)]
struct TimeSpec {
    seconds: i64,
    nanoseconds: i64,
}

impl TimeSpec {
    fn ns(&self) -> u64 {
        (self.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(self.nanoseconds as u64)
    }
}

/// The C library's `struct rusage`.
#[repr(C)]
#[derive(Default)]
pub struct Usage {
    user: [i64; 2],
    system: [i64; 2],
    peak_kib: i64,
    rest: [i64; 13],
}

impl Usage {
    /// Processor time in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        let ns = |[seconds, microseconds]: [i64; 2]| {
            (seconds as u64)
                .wrapping_mul(1_000_000_000)
                .wrapping_add((microseconds as u64).wrapping_mul(1000))
        };
        ns(self.user).wrapping_add(ns(self.system))
    }

    /// The most memory that was resident at a time, in KiB.
    pub fn peak_kib(&self) -> u64 {
        self.peak_kib.unsigned_abs()
    }
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut TimeSpec) -> i32;
    fn __errno_location() -> *mut i32;
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn now_ns() -> u64 {
    const MONOTONIC: i32 = 1;
    let mut time = TimeSpec::default();
    // SAFETY: the structure is live.
    unsafe { clock_gettime(MONOTONIC, &raw mut time) };
    time.ns()
}

/// Sets the number of the last error.
pub fn set_errno(number: i32) {
    // SAFETY: the C library gives the address of this thread's own number.
    unsafe { *__errno_location() = number };
}

/// The number of this process, as the kernel says it.
pub fn process_number() -> u32 {
    // SAFETY: no arguments.
    unsafe { call!(nr::GETPID) as u32 }
}

/// The number of its parent.
pub fn parent_number() -> u32 {
    // SAFETY: no arguments.
    unsafe { call!(nr::GETPPID) as u32 }
}

/// The processor time of this process, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    const PROCESS: usize = 2;
    let mut time = TimeSpec::default();
    // SAFETY: the structure is live.
    unsafe { call!(nr::CLOCK_GETTIME, PROCESS, &raw mut time) };
    time.ns()
}

/// Maps a file of so many bytes, for reading and writing, shared; the address, or `None` where it is not such a file.
pub fn map_file(path: &CStr, bytes: usize) -> Option<usize> {
    /// For reading and writing, closed by an execution, without following a link, a terminal or a wait.
    const FLAGS: usize = 0o2 | 0o2_000_000 | 0o400_000 | 0o400 | 0o4000;
    const REGULAR: u64 = 0o100_000;
    // SAFETY: the path ends in NUL; the words are live and as many as the kernel writes; the file is mapped where the kernel chooses.
    unsafe {
        let file = call!(nr::OPEN, path.as_ptr(), FLAGS, 0);
        if file < 0 {
            return None;
        }
        let mut words = [0u64; stat::WORDS];
        let told = call!(nr::FSTAT, file, words.as_mut_ptr());
        let is_right = told == 0
            && words[stat::MODE_AND_USER] & 0o170_000 == REGULAR
            && words[stat::SIZE] == bytes as u64;
        let mapped = if is_right { call!(nr::MMAP, 0, bytes, 3, 1, file, 0) } else { -1 };
        call!(nr::CLOSE, file);
        (mapped > 0).then_some(mapped as usize)
    }
}

/// Unmaps what [`map_file`] has mapped.
///
/// # Safety
/// Nothing looks there any more.
pub unsafe fn unmap(address: usize, bytes: usize) {
    // SAFETY: see the contract.
    unsafe { call!(nr::MUNMAP, address, bytes) };
}

/// Device, inode, time of the last change and size of a file.
pub fn identity(path: *const u8) -> Option<(u64, u64, i128, u64)> {
    let mut words = [0u64; stat::WORDS];
    // SAFETY: the path ends in NUL; the words are live and as many as the kernel writes.
    if unsafe { call!(nr::STAT, path, words.as_mut_ptr()) } < 0 {
        return None;
    }
    let changed = i128::from(words[stat::CHANGED_S]) * 1_000_000_000 + i128::from(words[stat::CHANGED_NS]);
    Some((words[stat::DEVICE], words[stat::INODE], changed, words[stat::SIZE]))
}

/// The path that a link leads to.
pub fn read_link<'a>(path: &CStr, to: &'a mut [u8]) -> Option<&'a [u8]> {
    // SAFETY: the path ends in NUL, and the slice is live.
    let length = unsafe { call!(nr::READLINK, path.as_ptr(), to.as_mut_ptr(), to.len()) };
    to.get(..usize::try_from(length).ok()?)
}

/// The working directory.
pub fn working_directory(to: &mut [u8]) -> Option<&[u8]> {
    // SAFETY: the slice is live.
    let length = unsafe { call!(nr::GETCWD, to.as_mut_ptr(), to.len()) };
    // The length counts the NUL.
    to.get(..usize::try_from(length).ok()?.checked_sub(1)?)
}

/// How a thread is scheduled; 0: the calling one.
pub fn scheduling(thread: u32) -> Option<SchedAttr> {
    let mut read = SchedAttr::default();
    // SAFETY: the kernel writes at most so many bytes of a live structure.
    (unsafe { call!(nr::SCHED_GETATTR, thread, &raw mut read, size_of::<SchedAttr>(), 0) } == 0)
        .then_some(read)
}

/// Has a thread be scheduled so; 0: the calling one.
pub fn set_scheduling(thread: u32, wanted: &SchedAttr) -> bool {
    // SAFETY: the structure is live, and says its own size.
    (unsafe { call!(nr::SCHED_SETATTR, thread, core::ptr::from_ref(wanted), 0) }) == 0
}
