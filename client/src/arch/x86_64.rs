//! x86-64: the entry, system calls, and what the compiler expects of a C library.

use core::arch::asm;

/// Numbers of the system calls that the client makes.
pub mod nr {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const OPEN: usize = 2;
    pub const CLOSE: usize = 3;
    pub const STAT: usize = 4;
    pub const LSTAT: usize = 6;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const PREAD64: usize = 17;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const RECVFROM: usize = 45;
    pub const SENDMSG: usize = 46;
    pub const RECVMSG: usize = 47;
    pub const GETSOCKOPT: usize = 55;
    pub const EXECVE: usize = 59;
    pub const KILL: usize = 62;
    pub const FCNTL: usize = 72;
    pub const GETCWD: usize = 79;
    pub const READLINK: usize = 89;
    pub const UMASK: usize = 95;
    pub const GETEUID: usize = 107;
    pub const PERSONALITY: usize = 135;
    pub const PRCTL: usize = 157;
    pub const SCHED_GETAFFINITY: usize = 204;
    pub const GETDENTS64: usize = 217;
    pub const EXIT_GROUP: usize = 231;
    pub const IOPRIO_GET: usize = 252;
    pub const PPOLL: usize = 271;
    pub const SIGNALFD4: usize = 289;
    pub const EVENTFD2: usize = 290;
    pub const PRLIMIT64: usize = 302;
    pub const SCHED_GETATTR: usize = 315;
    pub const STATX: usize = 332;
    pub const PIDFD_GETFD: usize = 438;
    pub const FACCESSAT2: usize = 439;
}

/// Where the fields stand in the kernel's `struct stat`, in bytes.
pub mod stat {
    /// Its size.
    pub const BYTES: usize = 144;
    /// The device, 8 bytes.
    pub const DEVICE: usize = 0;
    /// The inode, 8 bytes.
    pub const INODE: usize = 8;
    /// The mode, 4 bytes.
    pub const MODE: usize = 24;
    /// The owner, 4 bytes.
    pub const USER: usize = 28;
    /// The size, 8 bytes.
    pub const SIZE: usize = 48;
}

/// The entry of a program. The kernel hands over a stack on which argc, argv, the environment and the auxiliary vector stand.
#[macro_export]
macro_rules! entry {
    () => {
        core::arch::global_asm!(
            ".globl client_entry",
            "client_entry:",
            "xor ebp, ebp",
            "mov rdi, rsp",
            "and rsp, -16",
            "call client_start",
            "ud2",
        );
    };
}

/// One system call. Returns what the kernel returns: negative values down to -4095 are errors.
///
/// # Safety
/// The arguments must be what the call `number` takes; pointers among them must be valid for it.
#[inline(always)]
pub unsafe fn syscall6(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the `syscall` instruction clobbers rcx and r11, and memory as the caller's contract says.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Copies bytes.
///
/// # Safety
/// Both are valid for as many bytes, and do not overlap.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: see the contract; the instruction changes its three registers.
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
}

/// What the compiler makes of a copy.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: see the contract.
    unsafe { copy(to, from, bytes) };
    to
}

/// What the compiler makes of a loop that fills memory.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
    // SAFETY: see the contract; the instruction changes its two registers.
    unsafe {
        asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}

/// What the compiler makes of a comparison of two slices.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, bytes: usize) -> i32 {
    let mut at = 0;
    while at < bytes {
        // SAFETY: `at` is below the number of bytes of both. A volatile read keeps the compiler from making a call of this very function.
        let (a, b) = unsafe { (one.add(at).read_volatile(), other.add(at).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
        at += 1;
    }
    0
}

/// As [`memcmp`], of which only equal or not is asked for.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, bytes: usize) -> i32 {
    // SAFETY: see the contract.
    unsafe { memcmp(one, other, bytes) }
}

/// The length of a string that ends in NUL, eight bytes at a time: an aligned word lies in one page, so that reading beyond the end is
/// allowed.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(string: *const u8) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut at = string;
    // SAFETY: reads no byte behind the NUL, or none of another page. A volatile read keeps the compiler from making a call of this very
    // function.
    unsafe {
        while !(at as usize).is_multiple_of(8) {
            if at.read_volatile() == 0 {
                return at.offset_from(string) as usize;
            }
            at = at.add(1);
        }
        loop {
            let word = at.cast::<u64>().read_volatile();
            let zeros = word.wrapping_sub(ONES) & !word & ONES << 7;
            if zeros != 0 {
                return at.offset_from(string) as usize + zeros.trailing_zeros() as usize / 8;
            }
            at = at.add(8);
        }
    }
}
