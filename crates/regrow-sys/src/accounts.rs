//! The ids of users and groups that somebody names, as the C library finds them.

#![allow(unsafe_code, reason = "the C library writes an entry into memory of the caller")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;

/// The size with which the search begins. Few entries are longer.
const FIRST_BYTES: usize = 1024;
/// The longest entry. A group may have many members.
const MAX_BYTES: usize = 1 << 20;

/// A search of the C library: name, entry, memory of the entry, its size, and where the result goes.
type Search<T> = unsafe extern "C" fn(*const c_char, *mut T, *mut c_char, usize, *mut *mut T) -> c_int;

/// The id of a user by name or by number; `None` if there is no such user.
///
/// # Errors
/// When the system cannot tell.
pub fn user(name: &str) -> io::Result<Option<u32>> {
    id(name, libc::getpwnam_r, |user: &libc::passwd| user.pw_uid)
}

/// The id of a group by name or by number; `None` if there is no such group.
///
/// # Errors
/// When the system cannot tell.
pub fn group(name: &str) -> io::Result<Option<u32>> {
    id(name, libc::getgrnam_r, |group: &libc::group| group.gr_gid)
}

/// The id of an account. A name goes before a number, as with chown.
fn id<T>(name: &str, search: Search<T>, id_of: impl Fn(&T) -> u32) -> io::Result<Option<u32>> {
    // No account has a NUL byte in its name.
    let Ok(text) = CString::new(name) else { return Ok(None) };
    let found = find(&text, search, id_of)?;
    // The largest number says `no id`.
    Ok(found.or_else(|| name.parse().ok().filter(|&number| number != u32::MAX)))
}

fn find<T>(name: &CStr, search: Search<T>, id_of: impl Fn(&T) -> u32) -> io::Result<Option<u32>> {
    let mut memory: Vec<c_char> = vec![0; FIRST_BYTES];
    loop {
        let mut entry = MaybeUninit::<T>::uninit();
        let mut result: *mut T = std::ptr::null_mut();
        // SAFETY: the name ends with a NUL byte, and the C library writes within `entry`, `memory` of this length, and `result`.
        let error = unsafe {
            search(name.as_ptr(), entry.as_mut_ptr(), memory.as_mut_ptr(), memory.len(), &raw mut result)
        };
        match error {
            // SAFETY: the C library sets the result to `entry`, which it has written, or to null.
            0 => return Ok(unsafe { result.as_ref() }.map(&id_of)),
            libc::ERANGE if memory.len() < MAX_BYTES => memory.resize(memory.len() * 2, 0),
            libc::EINTR => {}
            // What POSIX lets systems say for a name that they do not know.
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_a_name_or_a_number() {
        assert_eq!((user("root").expect("an answer"), group("root").expect("an answer")), (Some(0), Some(0)));
        assert_eq!((user("4711").expect("an answer"), group("0").expect("an answer")), (Some(4711), Some(0)));
        for wrong in ["", "no such account", "a\0b", "-1", "4294967295", "4294967296"] {
            assert_eq!(user(wrong).expect("an answer"), None, "{wrong:?}");
            assert_eq!(group(wrong).expect("an answer"), None, "{wrong:?}");
        }
    }
}
