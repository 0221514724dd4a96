//! The C library's number of the last error, and an end that names a fault.

#![allow(unsafe_code, reason = "the number stands at an address that the C library tells")]

use std::fmt::{Display, Write as _};

use libc::c_int;

/// Sets the number.
pub(crate) fn set(number: c_int) {
    // SAFETY: the C library gives the address of this thread's own number.
    unsafe { *libc::__errno_location() = number };
}

/// The number.
pub(crate) fn get() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// A line that is put together without memory of the heap; what does not fit is cut off.
pub(crate) struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Line {
    pub(crate) fn new() -> Line {
        Line { bytes: [0; 512], length: 0 }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for (to, &byte) in self.bytes.iter_mut().skip(self.length).zip(text.as_bytes()) {
            *to = byte;
            self.length += 1;
        }
        Ok(())
    }
}

/// Says something on standard error.
pub(crate) fn say(what: impl Display) {
    let mut line = Line::new();
    let _ = writeln!(line, "regrow_memory: {what}");
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}

/// Ends the program: its caller has broken a rule that no code can report.
pub(crate) fn fault(function: &str, what: impl Display) -> ! {
    say(format_args!("{function}: {what}"));
    // SAFETY: it takes nothing, and does not return.
    unsafe { libc::abort() }
}
