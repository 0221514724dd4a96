//! How a task is scheduled: policy, flags, niceness, slice.

#![allow(unsafe_code, reason = "raw system calls with a structure on the stack")]

use std::io;

use crate::raw::{check, syscall};

/// The kernel's `struct sched_attr`, its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    size: u32,
    /// The policy, by its `SCHED_` number.
    pub policy: u32,
    /// The `SCHED_FLAG_` bits.
    pub flags: u64,
    /// Niceness.
    pub nice: i32,
    priority: u32,
    /// Under an ordinary policy the slice in nanoseconds, from Linux 6.12 on.
    pub runtime: u64,
    deadline: u64,
    period: u64,
}

impl Scheduling {
    /// That of the calling thread.
    ///
    /// # Errors
    /// As `sched_getattr(2)`.
    pub fn read() -> io::Result<Scheduling> {
        let mut read = Scheduling::default();
        let bytes = size_of::<Scheduling>();
        // SAFETY: the kernel writes at most the size that is named.
        check(unsafe { syscall(libc::SYS_sched_getattr, [0, &raw mut read as usize, bytes, 0, 0, 0]) })?;
        Ok(read)
    }

    /// Has the calling thread be scheduled so.
    ///
    /// # Errors
    /// As `sched_setattr(2)`.
    pub fn set(&self) -> io::Result<()> {
        let at = std::ptr::from_ref(self) as usize;
        // SAFETY: the structure says its own size, and is only read.
        check(unsafe { syscall(libc::SYS_sched_setattr, [0, at, 0, 0, 0, 0]) }).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read() {
        let before = Scheduling::read().expect("it can be read");
        assert_eq!(before.size, 48);
        // A thread of its own: nothing else is scheduled otherwise.
        std::thread::spawn(move || {
            let nicer = Scheduling { nice: before.nice.max(0) + 1, ..before };
            nicer.set().expect("a higher niceness is always allowed");
            assert_eq!(Scheduling::read().expect("it can be read").nice, nicer.nice);
        })
        .join()
        .expect("it is as it was set");
        assert_eq!(Scheduling::read().expect("it can be read"), before);
    }
}
