//! How a task is scheduled: policy, flags, niceness, slice; and what it has run.

#![allow(unsafe_code, reason = "raw system calls with a structure on the stack")]

use std::io;

use regrow_abi::SchedAttr;

use crate::raw::{check, syscall, word};

/// How the calling thread is scheduled.
///
/// # Errors
/// As `sched_getattr(2)`.
pub fn read() -> io::Result<SchedAttr> {
    read_of(0)
}

/// How a thread is scheduled, by its number; 0: the calling one.
///
/// # Errors
/// As `sched_getattr(2)`.
pub fn read_of(thread: i32) -> io::Result<SchedAttr> {
    let mut read = SchedAttr::default();
    let bytes = size_of::<SchedAttr>();
    // SAFETY: the kernel writes at most the size that is named.
    check(unsafe {
        syscall(libc::SYS_sched_getattr, [word(thread), &raw mut read as usize, bytes, 0, 0, 0])
    })?;
    Ok(read)
}

/// Has the calling thread be scheduled so.
///
/// # Errors
/// As `sched_setattr(2)`.
pub fn set(attributes: &SchedAttr) -> io::Result<()> {
    set_of(0, attributes)
}

/// Has a thread be scheduled so, by its number; 0: the calling one.
///
/// # Errors
/// As `sched_setattr(2)`.
pub fn set_of(thread: i32, attributes: &SchedAttr) -> io::Result<()> {
    let at = std::ptr::from_ref(attributes) as usize;
    // SAFETY: the structure says its own size, and is only read.
    check(unsafe { syscall(libc::SYS_sched_setattr, [word(thread), at, 0, 0, 0, 0]) }).map(drop)
}

/// The numbers of the threads of a process; empty when it is no more.
#[must_use]
pub fn threads(process: i32) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task"));
    let number = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    entries.map_or_else(|_| Vec::new(), |entries| entries.filter_map(number).collect())
}

/// The processor time of all threads of a process, in nanoseconds: its clock (`clock_getcpuclockid(3)`). One that has ended and was not waited for
/// has it still.
///
/// # Errors
/// As `clock_gettime(2)`: there is no such process.
pub fn processor_time_ns(process: i32) -> io::Result<u64> {
    const SCHEDULER: i32 = 2;
    let clock = !process << 3 | SCHEDULER;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is live.
    check(unsafe { syscall(libc::SYS_clock_gettime, [word(clock), &raw mut time as usize, 0, 0, 0, 0]) })?;
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec))
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

    #[test]
    fn another_process_is_scheduled_as_is_said_and_its_time_is_read() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let pid = i32::try_from(child.id()).expect("a number");
        let before = read_of(pid).expect("it is there");
        let slice = 20_000_000;
        set_of(pid, &before.with_slice(slice).expect("an ordinary policy")).expect("it is ours");
        // Kernels before 6.12 have no slices.
        let has = read_of(pid).expect("it is there").runtime;
        assert!(has == slice || has == before.runtime, "{has}");
        assert_eq!(threads(pid), [pid]);
        let time = processor_time_ns(pid).expect("it is there");
        assert!(time > 0 && time < 10_000_000_000, "{time}");
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        assert!(processor_time_ns(pid).is_err() && read_of(pid).is_err() && threads(pid).is_empty());
    }
}
