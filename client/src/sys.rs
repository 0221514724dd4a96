//! System calls with types: thin, the kernel's result as it is (negative: an error).

use regrow_abi::SchedAttr;
use regrow_abi::task::AFFINITY_WORDS;

use crate::arch::{nr, stat, syscall6};

/// Result of a system call: negative values are errors.
pub type Res = isize;

/// A signal came in between.
pub const INTERRUPTED: Res = -4;
/// There is nothing as yet.
pub const TRY_AGAIN: Res = -11;

macro_rules! call {
    ($number:expr $(, $arg:expr)* $(,)?) => {{
        let given = [$($arg as usize),*];
        let mut args = [0usize; 6];
        let mut at = 0;
        while at < given.len() && at < 6 { args[at] = given[at]; at += 1; }
        syscall6($number, args)
    }};
}

/// Ends the process.
pub fn exit(status: i32) -> ! {
    loop {
        // SAFETY: exit_group takes a number.
        unsafe { call!(nr::EXIT_GROUP, status) };
    }
}

/// What `stat` says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Device and inode.
    pub identity: (u64, u64),
    /// Type and permissions.
    pub mode: u32,
    /// The owner.
    pub user: u32,
    /// Bytes.
    pub size: u64,
}

impl Stat {
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }
}

/// Follows symbolic links. The path ends in NUL, as all paths here do.
pub fn stat(path: *const u8) -> Option<Stat> {
    stat_by(nr::STAT, path)
}

/// Does not follow a symbolic link.
pub fn lstat(path: *const u8) -> Option<Stat> {
    stat_by(nr::LSTAT, path)
}

fn stat_by(number: usize, path: *const u8) -> Option<Stat> {
    let mut words = [0u64; stat::BYTES / 8];
    // SAFETY: the path ends in NUL, and the kernel's structure has this size.
    if unsafe { call!(number, path, words.as_mut_ptr()) } < 0 {
        return None;
    }
    let half = |at: usize| (words[at / 8] >> (at % 8 * 8)) as u32;
    let identity = (words[stat::DEVICE / 8], words[stat::INODE / 8]);
    Some(Stat { identity, mode: half(stat::MODE), user: half(stat::USER), size: words[stat::SIZE / 8] })
}

/// Whether the effective user may execute a file.
pub fn may_execute(path: *const u8) -> bool {
    const CURRENT: isize = -100;
    const EXECUTE: usize = 1;
    const EFFECTIVE: usize = 0x200;
    // SAFETY: the path ends in NUL.
    unsafe { call!(nr::FACCESSAT2, CURRENT, path, EXECUTE, EFFECTIVE) == 0 }
}

/// Opens a file that an execution closes.
pub fn open(path: *const u8, flags: usize) -> Res {
    const CLOEXEC: usize = 0o2_000_000;
    // SAFETY: the path ends in NUL.
    unsafe { call!(nr::OPEN, path, flags | CLOEXEC, 0) }
}

/// Opens the terminal of this process's session, if it has one.
pub fn open_terminal() -> Res {
    const READ_WRITE_NO_TERMINAL: usize = 0o402;
    open(c"/dev/tty".as_ptr().cast(), READ_WRITE_NO_TERMINAL)
}

/// Closes a descriptor.
pub fn close(fd: i32) {
    // SAFETY: a number.
    unsafe { call!(nr::CLOSE, fd) };
}

/// Reads.
pub fn read(fd: i32, to: &mut [u8]) -> Res {
    // SAFETY: the slice is live.
    unsafe { call!(nr::READ, fd, to.as_mut_ptr(), to.len()) }
}

/// Writes.
pub fn write(fd: i32, bytes: &[u8]) -> Res {
    // SAFETY: the slice is live.
    unsafe { call!(nr::WRITE, fd, bytes.as_ptr(), bytes.len()) }
}

/// Reads from the start of a file.
pub fn read_start(fd: i32, to: &mut [u8]) -> Res {
    // SAFETY: the slice is live.
    unsafe { call!(nr::PREAD64, fd, to.as_mut_ptr(), to.len(), 0) }
}

/// The working directory, with its NUL; the length, or an error.
pub fn current_directory(to: &mut [u8]) -> Res {
    // SAFETY: the slice is live.
    unsafe { call!(nr::GETCWD, to.as_mut_ptr(), to.len()) }
}

/// Whether a descriptor is open.
pub fn is_open(fd: i32) -> bool {
    const GET_FLAGS: usize = 1;
    // SAFETY: numbers only.
    unsafe { call!(nr::FCNTL, fd, GET_FLAGS) >= 0 }
}

/// Whether a descriptor is open, and an execution passes it on.
pub fn is_inherited(fd: i32) -> bool {
    const GET_FLAGS: usize = 1;
    // SAFETY: numbers only.
    unsafe { call!(nr::FCNTL, fd, GET_FLAGS) == 0 }
}

/// Reads entries of a folder; the bytes that were written, 0 at the end.
pub fn entries(folder: i32, to: &mut [u64]) -> Res {
    // SAFETY: the words are live.
    unsafe { call!(nr::GETDENTS64, folder, to.as_mut_ptr(), size_of_val(to)) }
}

/// Has an execution keep a descriptor.
pub fn keep_in_exec(fd: i32) {
    const SET_FLAGS: usize = 2;
    // SAFETY: numbers only.
    unsafe { call!(nr::FCNTL, fd, SET_FLAGS, 0) };
}

/// Gives a descriptor the first free number from one on, which an execution closes, in place of its own.
pub fn move_up(fd: i32, from: usize) -> Res {
    const DUPLICATE_CLOEXEC: usize = 1030;
    // SAFETY: numbers only.
    let high = unsafe { call!(nr::FCNTL, fd, DUPLICATE_CLOEXEC, from) };
    close(fd);
    high
}

/// The seals of a memfd; an error for anything else.
pub fn seals(fd: i32) -> Res {
    const GET_SEALS: usize = 1034;
    // SAFETY: numbers only.
    unsafe { call!(nr::FCNTL, fd, GET_SEALS) }
}

/// Sets the file mode creation mask, and returns the one before.
pub fn umask(mask: u32) -> u32 {
    // SAFETY: a number.
    unsafe { call!(nr::UMASK, mask) as u32 }
}

/// Soft and hard limit of a resource.
pub fn limit(number: u32) -> [u64; 2] {
    let mut pair = [0; 2];
    // SAFETY: the pair has the layout of `struct rlimit64`.
    unsafe { call!(nr::PRLIMIT64, 0, number, 0, pair.as_mut_ptr()) };
    pair
}

/// How this process is scheduled.
pub fn scheduling() -> SchedAttr {
    let mut read = SchedAttr::default();
    // SAFETY: the kernel writes at most so many bytes of a live structure.
    unsafe { call!(nr::SCHED_GETATTR, 0, &raw mut read, size_of::<SchedAttr>(), 0) };
    read
}

/// The processors that this process may use.
pub fn affinity() -> [u64; AFFINITY_WORDS] {
    let mut words = [0; AFFINITY_WORDS];
    // SAFETY: the words are live.
    unsafe { call!(nr::SCHED_GETAFFINITY, 0, size_of_val(&words), words.as_mut_ptr()) };
    words
}

/// `prctl` with numbers.
pub fn prctl(option: u32, argument: usize) -> Res {
    // SAFETY: used with options that take numbers.
    unsafe { call!(nr::PRCTL, option, argument, 0, 0, 0) }
}

/// The I/O priority.
pub fn io_priority() -> Res {
    // SAFETY: numbers only.
    unsafe { call!(nr::IOPRIO_GET, 1, 0) }
}

/// The personality.
pub fn personality() -> Res {
    const ASK: u32 = 0xffff_ffff;
    // SAFETY: a number that changes nothing.
    unsafe { call!(nr::PERSONALITY, ASK) }
}

/// Device, inode and mount of the root directory.
pub fn root() -> [u64; 3] {
    const CURRENT: isize = -100;
    const BASIC: usize = 0x7ff;
    const MOUNT: usize = 0x1000;
    let mut words = [0u64; 32];
    // SAFETY: the kernel's `struct statx` has 256 bytes.
    if unsafe { call!(nr::STATX, CURRENT, c"/".as_ptr(), 0, BASIC | MOUNT, words.as_mut_ptr()) } < 0 {
        return [0; 3];
    }
    // `stx_dev_major` and `stx_dev_minor` stand at 136 and 140, `stx_ino` at 32, `stx_mnt_id` at 144.
    [words[17].rotate_left(32), words[4], words[18]]
}

/// Sets the signals that are blocked, and returns those before; `how` 0 adds to them, 2 replaces them.
pub fn block_signals(how: usize, mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: a signal set of the kernel is 8 bytes.
    unsafe { call!(nr::RT_SIGPROCMASK, how, &raw const mask, &raw mut before, 8) };
    before
}

/// The signals that this process ignores.
pub fn ignored_signals() -> u64 {
    const IGNORED: usize = 1;
    let mut mask = 0;
    for signal in 1..=64u32 {
        let mut action = [0usize; 4];
        // SAFETY: the kernel's `struct sigaction` is four words.
        unsafe { call!(nr::RT_SIGACTION, signal, 0, action.as_mut_ptr(), 8) };
        if action[0] == IGNORED {
            mask |= 1 << (signal - 1);
        }
    }
    mask
}

/// The number of this process.
pub fn own_number() -> i32 {
    // SAFETY: no arguments.
    unsafe { call!(nr::GETPID) as i32 }
}

/// Its effective user.
pub fn effective_user() -> u32 {
    // SAFETY: no arguments.
    unsafe { call!(nr::GETEUID) as u32 }
}

/// A descriptor that is readable when one of these signals is pending.
pub fn signal_descriptor(mask: u64) -> Res {
    const FLAGS: usize = 0o2_004_000;
    // SAFETY: a signal set of the kernel is 8 bytes.
    unsafe { call!(nr::SIGNALFD4, -1isize, &raw const mask, 8, FLAGS) }
}

/// A counter that stands at one.
pub fn counter() -> Res {
    const FLAGS: usize = 0o2_004_000;
    // SAFETY: numbers only.
    unsafe { call!(nr::EVENTFD2, 1, FLAGS) }
}

/// Ends this process by a signal, if it can be.
pub fn die_by(signal: i32, blocked: u64) {
    const NOT_DUMPABLE: (u32, usize) = (4, 0);
    prctl(NOT_DUMPABLE.0, NOT_DUMPABLE.1);
    let default = [0usize; 4];
    // SAFETY: the kernel's `struct sigaction`, zero for the default.
    unsafe { call!(nr::RT_SIGACTION, signal, default.as_ptr(), 0, 8) };
    block_signals(2, blocked & !(1 << (signal - 1)));
    // SAFETY: numbers only: this process itself.
    unsafe { call!(nr::KILL, call!(nr::GETPID), signal) };
}

/// A socket that is connected to this address.
pub fn connect(address: &[u8]) -> Res {
    const UNIX: usize = 1;
    const SEQUENCED_PACKETS_CLOEXEC: usize = 5 | 0o2_000_000;
    // SAFETY: numbers, and an address that is live.
    unsafe {
        let socket = call!(nr::SOCKET, UNIX, SEQUENCED_PACKETS_CLOEXEC, 0);
        if socket < 0 {
            return socket;
        }
        let connected = call!(nr::CONNECT, socket, address.as_ptr(), address.len());
        if connected < 0 { connected } else { socket }
    }
}

/// A number that is an option of a socket: the peer's, by `option`.
pub fn peer(socket: i32, option: usize) -> Res {
    const SOCKET_LEVEL: usize = 1;
    let mut value = -1i32;
    let mut bytes = size_of::<i32>() as u32;
    // SAFETY: the kernel writes at most the bytes that are named, into a number that lives.
    let result =
        unsafe { call!(nr::GETSOCKOPT, socket, SOCKET_LEVEL, option, &raw mut value, &raw mut bytes) };
    if result < 0 { result } else { value as Res }
}

/// A copy of another process's descriptor.
pub fn descriptor_of(pidfd: i32, fd: i32) -> Res {
    // SAFETY: numbers only.
    unsafe { call!(nr::PIDFD_GETFD, pidfd, fd, 0) }
}

/// Where a symbolic link leads to; the length.
pub fn read_link(path: *const u8, to: &mut [u8]) -> Res {
    // SAFETY: the path ends in NUL, and the slice is live.
    unsafe { call!(nr::READLINK, path, to.as_mut_ptr(), to.len()) }
}

/// The kernel's `struct msghdr`.
#[repr(C)]
struct Message {
    name: usize,
    name_bytes: usize,
    vector: *const [usize; 2],
    vectors: usize,
    control: *mut u8,
    control_bytes: usize,
    flags: usize,
}

/// Sends one message of some pieces, with what stands in `control`.
pub fn send(socket: i32, pieces: &[[usize; 2]], control: &[u64], control_bytes: usize) -> Res {
    const NO_SIGNAL: usize = 0x4000;
    let message = Message {
        name: 0,
        name_bytes: 0,
        vector: pieces.as_ptr(),
        vectors: pieces.len(),
        control: control.as_ptr().cast_mut().cast(),
        control_bytes,
        flags: 0,
    };
    // SAFETY: the header and all that it points to are live; the kernel reads from the pieces only.
    unsafe { call!(nr::SENDMSG, socket, &raw const message, NO_SIGNAL) }
}

/// Looks at the next message and leaves it where it is; its length.
pub fn peek(socket: i32, to: &mut [u8]) -> Res {
    const PEEK_DONT_WAIT: usize = 0x42;
    // SAFETY: the slice is live.
    unsafe { call!(nr::RECVFROM, socket, to.as_mut_ptr(), to.len(), PEEK_DONT_WAIT, 0, 0) }
}

/// Takes the next message, and the descriptor that comes with it, or -1.
pub fn take(socket: i32, to: &mut [u8]) -> (Res, i32) {
    const CLOEXEC_DONT_WAIT: usize = 0x4000_0040;
    let mut control = [0u64; 3];
    let vector = [to.as_mut_ptr() as usize, to.len()];
    let mut message = Message {
        name: 0,
        name_bytes: 0,
        vector: &raw const vector,
        vectors: 1,
        control: control.as_mut_ptr().cast(),
        control_bytes: size_of_val(&control),
        flags: 0,
    };
    // SAFETY: the header and all that it points to are live.
    let got = unsafe { call!(nr::RECVMSG, socket, &raw mut message, CLOEXEC_DONT_WAIT) };
    // A header of 16 bytes, whose first word is the length, and one number.
    let has_one = got >= 0 && message.control_bytes >= 20 && control[0] == 20;
    (got, if has_one { control[2] as i32 } else { -1 })
}

/// Waits until one of two descriptors is readable. Which of them is.
pub fn wait(one: i32, other: i32) -> (bool, bool) {
    let mut both = [[one, 1], [other, 1]];
    // SAFETY: two of the kernel's `struct pollfd`, the second half of whose second word it writes.
    unsafe { call!(nr::PPOLL, both.as_mut_ptr(), both.len(), 0, 0, 8) };
    (both[0][1] >> 16 != 0, both[1][1] >> 16 != 0)
}

/// Waits until a descriptor is readable, or a signal comes that is not blocked by this mask.
pub fn wait_with_signals(fd: i32, blocked: u64) {
    let mut one = [fd, 1];
    // SAFETY: one `struct pollfd`, and a signal set of 8 bytes.
    unsafe { call!(nr::PPOLL, one.as_mut_ptr(), 1, 0, &raw const blocked, 8) };
}

/// Becomes a program. Returns only when it fails.
///
/// # Safety
/// The path ends in NUL, and the lists of strings in null.
pub unsafe fn execute(path: *const u8, args: *const *const u8, env: *const *const u8) -> Res {
    // SAFETY: see the contract.
    unsafe { call!(nr::EXECVE, path, args, env) }
}
