//! How a task is scheduled: policy, flags, niceness, slice.

#![allow(unsafe_code, reason = "raw system calls with a structure on the stack")]

use std::io;

use regrow_abi::SchedAttr;

use crate::raw::{check, syscall};

/// How the calling thread is scheduled.
///
/// # Errors
/// As `sched_getattr(2)`.
pub fn read() -> io::Result<SchedAttr> {
    let mut read = SchedAttr::default();
    let bytes = size_of::<SchedAttr>();
    // SAFETY: the kernel writes at most the size that is named.
    check(unsafe { syscall(libc::SYS_sched_getattr, [0, &raw mut read as usize, bytes, 0, 0, 0]) })?;
    Ok(read)
}

/// Has the calling thread be scheduled so.
///
/// # Errors
/// As `sched_setattr(2)`.
pub fn set(attributes: &SchedAttr) -> io::Result<()> {
    let at = std::ptr::from_ref(attributes) as usize;
    // SAFETY: the structure says its own size, and is only read.
    check(unsafe { syscall(libc::SYS_sched_setattr, [0, at, 0, 0, 0, 0]) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read() {
        let before = read().expect("it can be read");
        assert_eq!(before.size, 48);
        // A thread of its own: nothing else is scheduled otherwise.
        std::thread::spawn(move || {
            let nicer = SchedAttr { nice: before.nice.max(0) + 1, ..before };
            set(&nicer).expect("a higher niceness is always allowed");
            assert_eq!(read().expect("it can be read").nice, nicer.nice);
        })
        .join()
        .expect("it is as it was set");
        assert_eq!(read().expect("it can be read"), before);
    }
}
