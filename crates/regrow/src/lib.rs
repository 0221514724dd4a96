//! Start fresh processes of unmodified programs in microseconds.
//!
//! Regrow keeps the address space that a finished process leaves, puts it back byte for byte, and runs
//! the next process of the same program in it. The run is an ordinary child of the caller: its own pid,
//! descriptors, directory, signals and limits, and its real wait status. What cannot be recycled is started
//! by exec, and [`Child::creation`] says why.
//!
//! The interface is that of [`std::process`], so that switching is a change of the `use` line:
//!
//! ```
//! use regrow::{Command, Stdio};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut child = Command::new("sort").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
//! if let Some(mut stdin) = child.stdin.take() {
//!     std::io::Write::write_all(&mut stdin, b"b\na\n")?;
//! }
//! let output = child.wait_with_output()?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"a\nb\n");
//! # Ok(())
//! # }
//! ```
//!
//! What `std::process` has is there under the same names, and what a body cannot give goes by exec, with its reason:
//!
//! | of `std` | here | the process is |
//! |---|---|---|
//! | `Command`: `arg`, `args`, `env…`, `current_dir`, `stdin`, `stdout`, `stderr`, `spawn`, `output`, `status`, `get_…` | [`Command`] | recycled |
//! | `os::unix::process::CommandExt`: `arg0`, `process_group` | [`Command::arg0`], [`Command::process_group`], or the trait | recycled |
//! | … `uid`, `gid`, `groups` | [`os::unix::process::CommandExt`] | started by exec, `unsupported_request` |
//! | … `pre_exec` | [`os::unix::process::CommandExt`] | started by exec, `unsupported_request`; for directory, umask, limits, session, niceness and descriptors there are methods of [`Command`], whose processes are recycled |
//! | … `exec` | [`os::unix::process::CommandExt`] | the caller; what the pool keeps is dropped first |
//! | … `setsid`, `chroot` (unstable in `std`) | [`Command::setsid`]; `chroot` by `pre_exec` | recycled; started by exec |
//! | `os::linux::process::CommandExt`: `create_pidfd` (unstable in `std`) | [`os::unix::process::CommandExt`] | recycled |
//! | … `ChildExt`: `pidfd` (unstable in `std`) | [`Child::pidfd`] | |
//! | `Child`: `id`, `kill`, `wait`, `try_wait`, `wait_with_output`, `stdin`, `stdout`, `stderr` | [`Child`] | |
//! | … `fd` (unstable in `std`) | [`Command::fd`], whose run has no descriptors but those | recycled |
//! | … `dup2_file_action` (unstable in `std`) | [`Command::fd`] with a copy of the descriptor | recycled |
//! | `Command`: `get_env_clear`, `get_resolved_envs` (unstable in `std`) | not there | |
//! | `Child`: `into_pidfd`; `PidFd` (unstable in `std`) | a copy of [`Child::pidfd`], which the caller's [`Child`] still waits for | |
//! | `Stdio`: `null`, `piped`, `inherit`, from files, pipes, `OwnedFd` and `from_raw_fd` | [`Stdio`] | recycled |
//! | … `makes_pipe` (unstable in `std`) | not there | |
//! | `tokio::process`: waiting, pipes, `kill_on_drop` | [`Child::wait_async`], or [`Child::pidfd`] and the pipes in the runtime's poller; a guard that kills | recycled |
//! | `ExitStatus`, `Output`, `ChildStdin`, `ChildStdout`, `ChildStderr`, `ExitStatusExt` | the same types | |
//!
//! Two things differ from `std::process`, both on purpose and for exec as for recycled runs:
//!
//! - A run has the descriptors that it was given and no others. A descriptor of the caller that is open over
//!   exec is not passed on: give it with [`Command::fd`].
//! - A file whose format the kernel does not know is `ENOEXEC`, and never given to a shell.
//!
//! A recycled run is a child of the caller like any other. So are the processes that keep images and bodies
//! ([`Pool::keepers`]): a `wait` for any child, elsewhere in the caller, sees them when they end.
//!
//! Linux 5.9 or later is needed, also for exec: a run that cannot be kept from the caller's descriptors is not started.

#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("Regrow recycles Linux processes");

mod child;
mod command;
mod environment;
pub mod os;
mod per_process;
mod pool;
mod readable;
mod stdio;
pub mod work;

pub use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus, Output};

pub use child::Child;
pub use command::{Command, CommandArgs, Completed};
pub use environment::CommandEnvs;
pub use pool::{Pool, PoolBuilder};
pub use regrow_abi::Refused;
pub use regrow_abi::task::{Resource, UNLIMITED};
pub use regrow_engine::keeping::inspection::Reports;
pub use regrow_engine::listing::PoolUser;
pub use regrow_engine::run::creation::{
    CallerPart, Creation, Fallback, Point, PointCounts, PrepareError, RequestPart, Stats,
};
pub use regrow_engine::run::request::Warm;
pub use regrow_engine::settings::{PointChoice, Reuse};
pub use regrow_engine::view::RunTimes;
pub use regrow_macros::fresh;
pub use regrow_pool::policy::PolicyChoice as Policy;
pub use regrow_sys::disable::FeatureSet;
pub use regrow_sys::probe::Feature;
pub use regrow_sys::strings::Strings;
pub use stdio::Stdio;
