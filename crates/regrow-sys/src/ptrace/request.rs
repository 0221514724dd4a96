//! The bare `ptrace` calls.

#![allow(unsafe_code, reason = "ptrace takes pointers")]

use std::io;

use crate::raw::{check, syscall, word};

/// One request. What it takes beside the process is its own affair: numbers, or the addresses of live memory.
pub(crate) fn request(request: u32, pid: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: callers pass the pointers that their request takes, to memory that lives across the call.
    let result = unsafe { libc::ptrace(request, pid, address, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Reads a word of the kernel's `struct user` of a stopped task.
pub(crate) fn peek_user(pid: i32, offset: usize) -> io::Result<u64> {
    let mut value = 0u64;
    let args = [libc::PTRACE_PEEKUSER as usize, word(pid), offset, &raw mut value as usize, 0, 0];
    // SAFETY: the raw call writes the word to `value`.
    check(unsafe { syscall(libc::SYS_ptrace, args) })?;
    Ok(value)
}

/// Writes a word of the kernel's `struct user` of a stopped task.
pub(crate) fn poke_user(pid: i32, offset: usize, value: u64) -> io::Result<()> {
    let value = usize::try_from(value).map_err(|_| io::ErrorKind::InvalidInput)?;
    request(libc::PTRACE_POKEUSER, pid, offset, value).map(drop)
}

/// The number that goes with the event that stopped a task: of a fork, the task that it made.
pub(crate) fn event_message(pid: i32) -> io::Result<i32> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, pid, 0, &raw mut message as usize)?;
    i32::try_from(message).map_err(|_| io::ErrorKind::InvalidData.into())
}
