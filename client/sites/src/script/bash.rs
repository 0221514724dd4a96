//! GNU bash: the line that it executes, by what its executable exports for builtins that are loaded.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::teller::{Teller, hash};
use crate::next;

/// Addresses: 0: not looked for, 1: not there.
static LINE: AtomicUsize = AtomicUsize::new(0);
static VARIABLE: AtomicUsize = AtomicUsize::new(0);
static TEXT: AtomicUsize = AtomicUsize::new(0);

fn address(kept: &AtomicUsize, name: &CStr) -> Option<usize> {
    let mut address = kept.load(Relaxed);
    if address == 0 {
        address = next::of_program(name).expose_provenance().max(1);
        kept.store(address, Relaxed);
    }
    (address > 1).then_some(address)
}

/// File and line.
pub fn place(tell: Teller<'_>) -> Option<(u64, u64)> {
    let line = address(&LINE, c"executing_line_number")?;
    let variable = address(&VARIABLE, c"get_string_value")?;
    let text = address(&TEXT, c"command_execution_string")?;
    // SAFETY: bash has functions of these types under these names, and a variable that is a string or null; its one thread is in a call of `fork`,
    // which none of them changes anything for.
    unsafe {
        let line = core::mem::transmute::<usize, unsafe extern "C" fn() -> c_int>(line)();
        let variable =
            core::mem::transmute::<usize, unsafe extern "C" fn(*const c_char) -> *const c_char>(variable);
        let mut file = variable(c"BASH_SOURCE".as_ptr());
        if file.is_null() {
            file = core::ptr::with_exposed_provenance::<*const c_char>(text).read();
        }
        let file = if file.is_null() { c"".to_bytes() } else { CStr::from_ptr(file).to_bytes() };
        Some((hash(file, tell), u64::from(line.max(0).unsigned_abs())))
    }
}
