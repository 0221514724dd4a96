//! Hardware breakpoints: the debug registers of a stopped task.

use std::io;
use std::mem::offset_of;

use crate::ptrace::request::{peek_user, poke_user};

/// How many hardware breakpoints there are.
pub const BREAKPOINTS: usize = 4;

/// The register that tells which breakpoints fired.
const STATUS: usize = 6;
/// The register that turns breakpoints on.
const CONTROL: usize = 7;

fn offset(index: usize) -> usize {
    offset_of!(libc::user, u_debugreg) + index * 8
}

/// Which breakpoints fired since this was asked last: bit 0 is breakpoint 0.
pub(crate) fn take_fired_breakpoints(pid: i32) -> io::Result<u64> {
    let fired = peek_user(pid, offset(STATUS))?;
    poke_user(pid, offset(STATUS), 0)?;
    Ok(fired & ((1 << BREAKPOINTS) - 1))
}

/// Sets or clears breakpoint `index`: the task traps before it executes the address.
pub(crate) fn set_breakpoint(pid: i32, index: usize, address: Option<u64>) -> io::Result<()> {
    let enabled = 1u64 << (index * 2);
    let control = peek_user(pid, offset(CONTROL))?;
    poke_user(pid, offset(CONTROL), control & !enabled)?;
    if let Some(address) = address {
        poke_user(pid, offset(index), address)?;
        // Type (bits 16 and 17 of each group) 0: execution; length 0: one byte.
        let group = 0xfu64 << (16 + index * 4);
        poke_user(pid, offset(CONTROL), (control & !group) | enabled)?;
    }
    Ok(())
}
