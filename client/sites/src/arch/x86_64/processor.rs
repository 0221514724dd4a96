//! System calls, registers, and what a thread's own area has.

use core::arch::asm;

use gimli::Register;

/// Numbers of the system calls that are made.
pub mod nr {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub const OPEN: usize = 2;
    pub const CLOSE: usize = 3;
    pub const STAT: usize = 4;
    pub const FSTAT: usize = 5;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const GETPID: usize = 39;
    pub const CLOCK_GETTIME: usize = 228;
    pub const GETCWD: usize = 79;
    pub const READLINK: usize = 89;
    pub const GETPPID: usize = 110;
    pub const SCHED_SETATTR: usize = 314;
    pub const SCHED_GETATTR: usize = 315;
}

/// Words of the kernel's `struct stat`, and of what in it is looked at.
pub mod stat {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub const WORDS: usize = 18;
    pub const DEVICE: usize = 0;
    pub const INODE: usize = 1;
    pub const MODE_AND_USER: usize = 3;
    pub const SIZE: usize = 6;
    pub const CHANGED_S: usize = 13;
    pub const CHANGED_NS: usize = 14;
}

/// The registers that a frame is measured from, as unwinding tables number them.
pub const STACK_POINTER: Register = Register(7);
pub const FRAME_POINTER: Register = Register(6);
/// What stands for the return address.
pub const RETURN_ADDRESS: Register = Register(16);

/// A system call. Negative results down to -4095 are errors.
///
/// # Safety
/// The arguments are such as the call takes.
pub unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = args;
    // SAFETY: see the contract. The kernel changes no other register.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The thread's own area, above its stack where the C library has made the thread.
pub fn thread_area() -> usize {
    let address;
    // SAFETY: the first word there is the address of the area, by the ABI of thread-local storage.
    unsafe { asm!("mov {}, fs:0", out(reg) address, options(nostack, readonly, preserves_flags)) };
    address
}

/// Where glibc keeps a thread's number in the thread's own area: the same place since version 2.4.
const THREAD_NUMBER_AT: usize = 720;

/// What stands there: in glibc the thread's number, as the C library has it.
pub fn thread_number() -> u32 {
    // SAFETY: the thread's area in glibc has more than 2000 bytes. Callers ask only where the C library is glibc.
    unsafe { core::ptr::with_exposed_provenance::<u32>(thread_area() + THREAD_NUMBER_AT).read_volatile() }
}

/// Ends the program.
pub fn trap() -> ! {
    // SAFETY: it does not return.
    unsafe { asm!("ud2", options(noreturn)) }
}
