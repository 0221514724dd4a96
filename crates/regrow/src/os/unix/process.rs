//! What a process can be told on Unix, by the names of `std::os::unix::process`.
//!
//! ```
//! use regrow::Command;
//! use regrow::os::unix::process::CommandExt;
//!
//! # fn main() -> std::io::Result<()> {
//! let mut command = Command::new("id");
//! // SAFETY: the function calls nothing that a forked copy of a process with threads may not call.
//! unsafe { command.pre_exec(|| Ok(())) };
//! let child = command.stdout(regrow::Stdio::piped()).spawn()?;
//! assert_eq!(child.creation().how(), "exec");
//! let why = child.creation().fallback().map(ToString::to_string).unwrap_or_default();
//! assert!(why.contains("pre_exec"), "{why}");
//! # child.wait_with_output()?;
//! # Ok(())
//! # }
//! ```

#![allow(unsafe_code, reason = "`pre_exec` is unsafe in the standard library too")]

use std::ffi::OsStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use regrow_sys::exec::Hook;

use crate::{Command, Stdio};

/// What [`Command`] has on Unix, by the names of the standard library.
///
/// A body has the user of its keeper, and its program runs already: what sets a user, groups or a function before the exec goes by
/// exec, with the reason `unsupported_request`.
pub trait CommandExt: sealed::Sealed {
    /// Sets the user of the process: real, effective and saved. Where [`CommandExt::groups`] says nothing, the process has no
    /// supplementary groups, if the caller may say so. By exec.
    fn uid(&mut self, id: u32) -> &mut Command;

    /// Sets the group of the process: real, effective and saved. By exec.
    fn gid(&mut self, id: u32) -> &mut Command;

    /// Sets the supplementary groups of the process. By exec.
    fn groups(&mut self, groups: &[u32]) -> &mut Command;

    /// Has the process call a function just before it executes the program; of several, in the order in which they were added. An error
    /// of it is the error of the start; without an `errno` that is `EINVAL`. A panic ends the process by `SIGABRT`. By exec.
    ///
    /// It is called when all else is done: descriptors, user, directory, limits and signal mask are those of the run. The
    /// caller's other descriptors are open still, and are closed by the exec unless the function says otherwise.
    ///
    /// # Safety
    /// The function runs in a forked copy of a process that may have threads: it must call nothing that takes a lock which another
    /// thread may have held, and write to no memory that is shared with the caller, as [`std::os::unix::process::CommandExt::pre_exec`] says.
    unsafe fn pre_exec<F>(&mut self, function: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static;

    /// Makes the calling process the program: its own descriptors, but for those of the command, are closed, its threads end, and no
    /// destructor is called. What the pool of the command keeps is dropped before. Returns only with an error; then the process goes
    /// on with what was set until then: standard descriptors, user, groups, directory, limits, signal mask, and each other
    /// descriptor marked close-on-exec.
    fn exec(&mut self) -> io::Error;

    /// Whether the process is opened as a descriptor when it starts. Without it the first [`Child::pidfd`](crate::Child::pidfd) opens it, which is
    /// the same process as long as nobody else has waited for it. The standard library has it in `std::os::linux::process`.
    fn create_pidfd(&mut self, opens: bool) -> &mut Command;

    /// As [`Command::arg0`].
    fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command;

    /// As [`Command::process_group`].
    fn process_group(&mut self, group: i32) -> &mut Command;
}

impl CommandExt for Command {
    fn uid(&mut self, id: u32) -> &mut Command {
        self.identity.uid = Some(id);
        self
    }

    fn gid(&mut self, id: u32) -> &mut Command {
        self.identity.gid = Some(id);
        self
    }

    fn groups(&mut self, groups: &[u32]) -> &mut Command {
        self.identity.groups = Some(groups.to_owned());
        self
    }

    unsafe fn pre_exec<F>(&mut self, function: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        self.hooks.push(Hook::new(function));
        self
    }

    fn exec(&mut self) -> io::Error {
        self.replace_caller()
    }

    fn create_pidfd(&mut self, opens: bool) -> &mut Command {
        self.opens_pidfd = opens;
        self
    }

    fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        Command::arg0(self, arg)
    }

    fn process_group(&mut self, group: i32) -> &mut Command {
        Command::process_group(self, group)
    }
}

/// A descriptor by its number, as the standard library's `Stdio` takes it.
impl FromRawFd for Stdio {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller says that the number is that of an open descriptor, which nothing else owns from here on.
        unsafe { OwnedFd::from_raw_fd(fd) }.into()
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Command {}
}
