//! The environment of this process, copied as it stands.
//!
//! `std::env::vars_os` allocates twice for every variable: four microseconds for a usual environment, where a
//! whole recycled run takes twenty. This copies the strings into one block in about a tenth of that.

#![allow(unsafe_code, reason = "reads the `environ` array of the C library, and changes it")]

use std::ffi::{CStr, c_char};

use crate::strings::Strings;

/// Room for a usual environment.
const USUAL_BYTES: usize = 4096;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The environment of this process, entry by entry, also those that have no `=`.
///
/// Like every function of the C library that reads the environment, it needs that no other thread changes it
/// meanwhile: that is what the safety section of [`std::env::set_var`] asks of who changes it.
#[must_use]
pub fn current() -> Strings {
    let mut strings = Strings::with_capacity(USUAL_BYTES);
    // SAFETY: `environ` is a variable of the C library, set before `main`; whoever writes to it while other
    // threads run breaks the contract of `set_var` (or of `setenv`), so this read does not race.
    let mut entry = unsafe { environ };
    if entry.is_null() {
        return strings;
    }
    loop {
        // SAFETY: `entry` is at or before the null that ends the array: the loop has stopped at that one.
        let string = unsafe { *entry };
        if string.is_null() {
            return strings;
        }
        // SAFETY: a pointer of `environ` that is not null points to a string ended by a NUL byte. It is copied
        // before anything else runs on this thread.
        strings.push_c_str(unsafe { CStr::from_ptr(string) });
        // SAFETY: the entry was not the last, so the array goes on behind it.
        entry = unsafe { entry.add(1) };
    }
}

/// Removes variables from the environment of this process, which has no other thread.
pub fn remove(names: &[&str]) {
    for name in names {
        // SAFETY: the caller is the only thread, so that nobody reads the environment meanwhile.
        unsafe { std::env::remove_var(name) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn it_is_the_environment_that_std_sees() {
        let ours = super::current();
        let ours: Vec<&[u8]> =
            ours.iter().map(std::ffi::CStr::to_bytes).filter(|entry| entry.contains(&b'=')).collect();
        let std: Vec<Vec<u8>> = std::env::vars_os()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
            .collect();
        assert!(!std.is_empty());
        assert_eq!(ours, std);
    }
}
