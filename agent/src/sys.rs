//! System calls with types: thin, no errno, the kernel's result as it is (negative: an error).

use core::sync::atomic::AtomicU32;

use regrow_abi::{Report, SchedAttr};

use crate::arch::{STAT_WORDS, nr, syscall6};

/// Result of a system call: negative values are errors.
pub type Res = isize;

macro_rules! call {
    ($number:expr $(, $arg:expr)* $(,)?) => {{
        let given = [$($arg as usize),*];
        let mut args = [0usize; 6];
        let mut at = 0;
        while at < given.len() && at < 6 { args[at] = given[at]; at += 1; }
        syscall6($number, args)
    }};
}

/// Protection bits of mmap.
pub mod prot {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
}

/// Flags of mmap.
pub mod map {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub const SHARED: u32 = 1;
    pub const PRIVATE: u32 = 2;
    pub const FIXED: u32 = 0x10;
    pub const ANONYMOUS: u32 = 0x20;
    pub const GROWSDOWN: u32 = 0x100;
}

/// Ends the process, all of it.
pub fn exit(status: i32) -> ! {
    loop {
        // SAFETY: exit_group takes a number.
        unsafe { call!(nr::EXIT_GROUP, status) };
    }
}

/// Wakes all who sleep on a futex word that is shared between processes.
pub fn futex_wake(word: &AtomicU32) {
    const WAKE: usize = 1;
    // SAFETY: the word is a live reference.
    unsafe { call!(nr::FUTEX, word.as_ptr(), WAKE, i32::MAX, 0, 0, 0) };
}

/// Sleeps while the word has this value, at most about `ms` milliseconds.
pub fn futex_wait(word: &AtomicU32, value: u32, ms: u64) {
    const WAIT: usize = 0;
    let time = [ms / 1000, ms % 1000 * 1_000_000];
    // SAFETY: the word and the time are live.
    unsafe { call!(nr::FUTEX, word.as_ptr(), WAIT, value, time.as_ptr(), 0, 0) };
}

/// Makes this task the leader of a session of its own.
pub fn setsid() -> Res {
    // SAFETY: no arguments.
    unsafe { call!(nr::SETSID) }
}

/// Monotonic time in nanoseconds.
pub fn now_ns() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: `time` has the size of a timespec.
    unsafe { call!(nr::CLOCK_GETTIME, 1, time.as_mut_ptr()) };
    time[0] * 1_000_000_000 + time[1]
}

/// The process's id.
pub fn getpid() -> i32 {
    // SAFETY: no arguments.
    unsafe { call!(nr::GETPID) as i32 }
}

/// The parent's id.
pub fn getppid() -> i32 {
    // SAFETY: no arguments.
    unsafe { call!(nr::GETPPID) as i32 }
}

/// Closes a range of descriptors, or with [`CLOSE_ON_EXEC`] has an execution close them.
pub fn close_range(first: u32, last: u32, flags: u32) -> Res {
    // SAFETY: numbers only.
    unsafe { call!(nr::CLOSE_RANGE, first, last, flags) }
}

/// Flag of [`close_range`].
pub const CLOSE_ON_EXEC: u32 = 4;

/// Closes one descriptor.
pub fn close(fd: i32) -> Res {
    // SAFETY: numbers only.
    unsafe { call!(nr::CLOSE, fd) }
}

/// Makes `to` a copy of `from`, not close-on-exec.
pub fn dup3(from: i32, to: i32) -> Res {
    // SAFETY: numbers only.
    unsafe { call!(nr::DUP3, from, to, 0) }
}

/// Gives a descriptor another number, at which it is close-on-exec.
pub fn move_to(from: i32, to: i32) -> Res {
    const CLOEXEC: usize = 0o2_000_000;
    if from == to {
        return to as Res;
    }
    // SAFETY: numbers only.
    let moved = unsafe { call!(nr::DUP3, from, to, CLOEXEC) };
    close(from);
    moved
}

/// A copy of `fd` at the lowest free number that is not below `lowest`.
pub fn dup_above(fd: i32, lowest: i32) -> Res {
    // SAFETY: F_DUPFD (0) takes a number.
    unsafe { call!(nr::FCNTL, fd, 0, lowest) }
}

/// Opens a NUL-terminated path.
pub fn open(path: &[u8], flags: u32) -> Res {
    open_at(path.as_ptr(), flags)
}

/// Opens the NUL-terminated path at an address.
pub fn open_at(path: *const u8, flags: u32) -> Res {
    const AT_FDCWD: isize = -100;
    // SAFETY: callers pass literals that end in NUL, or paths of the sealed image.
    unsafe { call!(nr::OPENAT, AT_FDCWD, path, flags, 0) }
}

/// Device and inode of an open file, as the kernel numbers them.
pub fn identity(fd: i32) -> (u64, u64) {
    let mut stat = [0u64; STAT_WORDS];
    // SAFETY: the kernel's `struct stat` has as many words.
    unsafe { call!(nr::FSTAT, fd, stat.as_mut_ptr()) };
    (stat[0], stat[1])
}

/// Reads at an offset.
///
/// # Safety
/// `to` is valid for `bytes`.
pub unsafe fn pread(fd: i32, to: *mut u8, bytes: usize, offset: u64) -> Res {
    // SAFETY: see the contract.
    unsafe { call!(nr::PREAD64, fd, to, bytes, offset) }
}

/// Writes bytes.
pub fn write(fd: i32, from: &[u8]) -> Res {
    // SAFETY: the slice is live.
    unsafe { call!(nr::WRITE, fd, from.as_ptr(), from.len()) }
}

/// An ioctl that takes a pointer.
///
/// # Safety
/// `arg` is what `request` takes.
pub unsafe fn ioctl<T>(fd: i32, request: usize, arg: *mut T) -> Res {
    // SAFETY: see the contract.
    unsafe { call!(nr::IOCTL, fd, request, arg) }
}

/// Maps memory.
///
/// # Safety
/// With `map::FIXED` the range is one that may be replaced.
pub unsafe fn mmap(start: u64, bytes: u64, prot: u32, flags: u32, fd: i32, offset: u64) -> Res {
    // SAFETY: see the contract.
    unsafe { call!(nr::MMAP, start, bytes, prot, flags, fd as isize, offset) }
}

/// Moves a mapping to another address, where it takes the place of what is mapped.
///
/// # Safety
/// Nothing of the mapping's first place is used afterwards, and the other range is one that may be replaced.
pub unsafe fn move_mapping(from: u64, bytes: u64, to: u64) -> Res {
    const MAYMOVE_FIXED: usize = 3;
    // SAFETY: see the contract.
    unsafe { call!(nr::MREMAP, from, bytes, bytes, MAYMOVE_FIXED, to) }
}

/// Unmaps memory.
///
/// # Safety
/// Nothing of the range is used afterwards.
pub unsafe fn munmap(start: u64, bytes: u64) -> Res {
    // SAFETY: see the contract.
    unsafe { call!(nr::MUNMAP, start, bytes) }
}

/// Changes protections.
///
/// # Safety
/// The range is not the agent's own.
pub unsafe fn mprotect(start: u64, bytes: u64, prot: u32) -> Res {
    // SAFETY: see the contract.
    unsafe { call!(nr::MPROTECT, start, bytes, prot) }
}

/// Advises the kernel on memory.
///
/// # Safety
/// The range is not the agent's own, and the advice keeps what must be kept.
pub unsafe fn madvise(start: u64, bytes: u64, advice: u32) -> Res {
    // SAFETY: see the contract.
    unsafe { call!(nr::MADVISE, start, bytes, advice) }
}

/// Sets the program break; returns where it is afterwards.
pub fn brk(to: u64) -> u64 {
    // SAFETY: the keeper alone uses the break while it resets.
    unsafe { call!(nr::BRK, to) as u64 }
}

/// Unlocks all memory, and all to come.
pub fn munlockall() {
    // SAFETY: no arguments.
    unsafe { call!(nr::MUNLOCKALL) };
}

/// `prctl` with numbers.
pub fn prctl(option: u32, a: u64, b: u64, c: u64) -> Res {
    // SAFETY: used with options that take numbers, or pointers that the caller keeps alive.
    unsafe { call!(nr::PRCTL, option, a, b, c, 0) }
}

/// Undoes sharing.
pub fn unshare(flags: u32) -> Res {
    // SAFETY: numbers only; the flags used are `CLONE_FS` and, as a question, `CLONE_VM`.
    unsafe { call!(nr::UNSHARE, flags) }
}

/// The signals that this process ignores; bit 0 is signal 1.
pub fn ignored_signals() -> u64 {
    let mut mask = 0;
    for signal in 1..=64usize {
        let mut action = [0usize; 4];
        // SAFETY: the kernel's `struct sigaction` is four words; this only reads.
        unsafe { call!(nr::RT_SIGACTION, signal, 0usize, action.as_mut_ptr(), 8usize) };
        if action[0] == 1 {
            mask |= 1 << (signal - 1);
        }
    }
    mask
}

/// Has this process ignore a signal, or take it as it is taken by default.
pub fn set_ignored(signal: usize, ignored: bool) {
    let action = [usize::from(ignored), 0, 0, 0];
    // SAFETY: the kernel's `struct sigaction` without a handler function.
    unsafe { call!(nr::RT_SIGACTION, signal, action.as_ptr(), 0usize, 8usize) };
}

/// Lets this task run on the processors of a mask.
pub fn set_affinity(mask: &[u64; 16]) -> Res {
    // SAFETY: the mask is live and has the size that is named.
    unsafe { call!(nr::SCHED_SETAFFINITY, 0, size_of::<[u64; 16]>(), mask.as_ptr()) }
}

/// How this task is scheduled.
pub fn scheduling() -> Result<SchedAttr, Res> {
    let mut read = SchedAttr::default();
    // SAFETY: the kernel writes at most so many bytes of a live structure.
    let got = unsafe { call!(nr::SCHED_GETATTR, 0, &raw mut read, size_of::<SchedAttr>(), 0) };
    if got < 0 { Err(got) } else { Ok(read) }
}

/// Has this task be scheduled so.
pub fn set_scheduling(attributes: &SchedAttr) -> Res {
    // SAFETY: the structure is live and says its own size.
    unsafe { call!(nr::SCHED_SETATTR, 0, core::ptr::from_ref(attributes), 0) }
}

/// Has every ordinary task that wakes take the processor from this one at once (Linux 6.12: a task with a shorter slice does), at no loss
/// of its share. Tasks that this one makes are not so. Without effect where it would change anything else of them.
pub fn give_way() {
    const RESET_ON_FORK: u64 = 1;
    const LONGEST_NS: u64 = 100_000_000;
    let Ok(mut own) = scheduling() else { return };
    if own.policy == SchedAttr::OTHER && own.flags == 0 && own.nice >= 0 {
        (own.flags, own.runtime) = (RESET_ON_FORK, LONGEST_NS);
        set_scheduling(&own);
    }
}

/// Everything else that takes only numbers or pointers that the caller vouches for.
///
/// # Safety
/// As [`syscall6`].
pub unsafe fn raw(number: usize, args: [usize; 6]) -> Res {
    // SAFETY: see the contract.
    unsafe { syscall6(number, args) }
}

/// Sends one message of one byte or a few. It never waits.
pub fn send(fd: i32, bytes: &[u8]) -> Res {
    const NOSIGNAL: usize = 0x4000;
    // SAFETY: the slice is live.
    unsafe { call!(nr::SENDTO, fd, bytes.as_ptr(), bytes.len(), NOSIGNAL | DONT_WAIT, 0, 0) }
}

/// Tells the engine. Where that cannot be told it waits in vain, and gives the body up.
pub fn report(fd: i32, report: Report) {
    let words = report.to_words();
    // SAFETY: the words are live, and any bytes can be sent.
    send(fd, unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(&words)) });
}

/// No message has come for as long as the socket waits.
pub const EAGAIN: Res = -11;
/// A signal, a stop or a tracer broke off the wait.
pub const EINTR: Res = -4;

/// What came with a message.
pub struct ReceivedMessage {
    /// First byte, or zero.
    pub kind: u8,
    /// Result of the call: bytes, zero at end of file, or an error.
    pub result: Res,
    /// Number of descriptors.
    pub fds: usize,
}

/// Room for the descriptors of a message: a header of 16 bytes, then the numbers.
#[repr(C, align(8))]
pub struct FdRoom {
    header: [u64; 2],
    /// The descriptors.
    pub fds: [i32; regrow_abi::MAX_FDS],
}

impl FdRoom {
    /// Empty room.
    pub const fn new() -> FdRoom {
        FdRoom { header: [0; 2], fds: [-1; regrow_abi::MAX_FDS] }
    }
}

/// Flag of [`receive`]: does not wait.
pub const DONT_WAIT: usize = 0x40;

/// Waits for one message and its descriptors.
pub fn receive(fd: i32, room: &mut FdRoom, flags: usize) -> ReceivedMessage {
    #[repr(C)]
    struct Message {
        name: usize,
        name_bytes: usize,
        vector: *const [usize; 2],
        vectors: usize,
        control: *mut FdRoom,
        control_bytes: usize,
        flags: usize,
    }
    let mut byte = 0u8;
    let vector = [&raw mut byte as usize, 1];
    let mut message = Message {
        name: 0,
        name_bytes: 0,
        vector: &raw const vector,
        vectors: 1,
        control: room,
        control_bytes: size_of::<FdRoom>(),
        flags: 0,
    };
    // SAFETY: the message header and all that it points to live on this stack.
    let result = unsafe { call!(nr::RECVMSG, fd, &raw mut message, flags) };
    let header_bytes = if message.control_bytes >= 16 { room.header[0] as usize } else { 16 };
    ReceivedMessage { kind: byte, result, fds: header_bytes.saturating_sub(16) / 4 }
}
