//! Another user than the caller.

use std::io;

/// The user and the groups that a process is to have. What is not said it has from the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user: real, effective and saved.
    pub uid: Option<u32>,
    /// The group: real, effective and saved.
    pub gid: Option<u32>,
    /// The supplementary groups. Where a user is named and these are not, there are none, if the caller may say so.
    pub groups: Option<Vec<u32>>,
}

impl Identity {
    /// Whether all of it is the caller's.
    #[must_use]
    pub fn is_callers(&self) -> bool {
        *self == Self::default()
    }

    /// Gives it to this process: the user last, as it may take the right to the rest.
    pub(super) fn take_on(&self) -> Result<(), i32> {
        if let Some(groups) = &self.groups {
            // SAFETY: the groups are as many as is said, and are only read.
            check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
        }
        if let Some(gid) = self.gid {
            // SAFETY: a number only.
            check(unsafe { libc::setgid(gid) })?;
        }
        let Some(uid) = self.uid else { return Ok(()) };
        if self.groups.is_none() {
            // SAFETY: no group is read.
            match check(unsafe { libc::setgroups(0, std::ptr::null()) }) {
                Ok(()) | Err(libc::EPERM) => {}
                Err(errno) => return Err(errno),
            }
        }
        // SAFETY: a number only.
        check(unsafe { libc::setuid(uid) })
    }
}

/// The result of a call of the C library, -1 when it failed.
fn check(result: i32) -> Result<(), i32> {
    if result < 0 { Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)) } else { Ok(()) }
}
