//! System calls that neither rustix nor libc wraps, or that must not touch `errno`.
//!
//! A task that shares memory with another (see [`crate::helper`]) shares its `errno` too, so the few calls that such
//! a task makes while the other runs go through [`syscall`], which returns the kernel's result as it is.

#![allow(unsafe_code, reason = "raw system calls are what this file is for")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// One system call without `errno`: values from -4095 to -1 are negative error numbers.
///
/// # Safety
/// The arguments are what the call takes; pointers among them are valid for it.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn syscall(number: i64, args: [usize; 6]) -> isize {
    let result: i64;
    // SAFETY: the instruction clobbers rcx and r11; the rest is the caller's contract.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // A register is as wide as a pointer on this architecture.
    isize::try_from(result).unwrap_or(isize::MIN)
}

/// A number as the kernel takes it: one register, sign kept.
#[must_use]
pub fn word(number: i32) -> usize {
    isize::try_from(number).map_or(0, isize::cast_unsigned)
}

/// Turns a raw result into a value or an error.
///
/// # Errors
/// The error that the kernel returned.
pub fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result)
        .map_err(|_| io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EINVAL)))
}

/// Sleeps while `word` has this value, at most `timeout`. The word may lie in memory shared between processes.
pub fn futex_wait(word: &AtomicU32, value: u32, timeout: Duration) {
    let time = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    let args = [word.as_ptr() as usize, 0, value as usize, &raw const time as usize, 0, 0];
    // SAFETY: the word and the time are live references; FUTEX_WAIT writes nothing.
    unsafe { syscall(libc::SYS_futex, args) };
}

/// Wakes all that sleep on `word`.
pub fn futex_wake(word: &AtomicU32) {
    let args = [word.as_ptr() as usize, 1, i32::MAX as usize, 0, 0, 0];
    // SAFETY: the word is a live reference.
    unsafe { syscall(libc::SYS_futex, args) };
}

/// A descriptor for a process.
///
/// # Errors
/// As `pidfd_open(2)`.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: numbers only.
    let fd = check(unsafe { syscall(libc::SYS_pidfd_open, [word(pid), 0, 0, 0, 0, 0]) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?) })
}

/// Sends a signal to a process by its descriptor.
///
/// # Errors
/// As `pidfd_send_signal(2)`.
pub fn pidfd_kill(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let args = [word(pidfd.as_raw_fd()), word(signal), 0, 0, 0, 0];
    // SAFETY: numbers only.
    check(unsafe { syscall(libc::SYS_pidfd_send_signal, args) }).map(drop)
}

/// Waits for a child by its pid, whatever its exit signal, and reaps it. `None` when `no_hang` and it still lives.
/// Returns the raw wait status.
///
/// # Errors
/// As `wait4(2)`: `ECHILD` when somebody else has reaped it.
pub fn wait_pid(pid: i32, no_hang: bool) -> io::Result<Option<i32>> {
    let flags = libc::__WALL | if no_hang { libc::WNOHANG } else { 0 };
    let mut status = 0;
    loop {
        // SAFETY: `status` is a live reference.
        let got = unsafe { libc::waitpid(pid, &raw mut status, flags) };
        if got == pid {
            return Ok(Some(status));
        }
        if got == 0 {
            return Ok(None);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Whether a pidfd becomes readable (its process is gone) in time.
#[must_use]
pub fn ends_within(pidfd: BorrowedFd<'_>, timeout: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).ok();
    matches!(poll(&mut fds, timeout.as_ref()), Ok(1..))
}

/// Waits for a child that is about to end and reaps it. One that does not end in time stays.
pub fn reap_within(pid: i32, pidfd: BorrowedFd<'_>, timeout: Duration) {
    let no_hang = !ends_within(pidfd, timeout);
    // Somebody else may have reaped it.
    let _ = wait_pid(pid, no_hang);
}

/// A memfd of this size that nobody else sees, close-on-exec and sealable.
///
/// # Errors
/// As `memfd_create(2)` and `ftruncate(2)`.
pub fn memfd(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, bytes)?;
    Ok(fd)
}

/// Memory shared with a body: a mapping of a memfd that stays as long as the value lives.
#[derive(Debug)]
pub struct SharedMapping {
    address: std::ptr::NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; all access goes through raw pointers whose users
// synchronise (see `as_ptr`).
unsafe impl Send for SharedMapping {}

// SAFETY: as above; a shared reference gives out nothing but the address.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the first `bytes` bytes of a memfd, readable and writable.
    ///
    /// # Errors
    /// As `mmap(2)`.
    pub fn new(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<SharedMapping> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
        let address = unsafe { mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, fd, 0)? };
        let address = std::ptr::NonNull::new(address.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(SharedMapping { address, bytes })
    }

    /// The first byte. Others write this memory at any time: use atomics, or a protocol that hands parts over.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// Its length.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and nothing outlives the value.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}
