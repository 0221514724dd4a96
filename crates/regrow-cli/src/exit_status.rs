//! The exit statuses of the command: those of `env` where it runs a program.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;

/// The command line is wrong, or the command could not do what it was asked to.
pub(crate) const FAILED: u8 = 2;
/// Regrow itself failed to run a program.
pub(crate) const REGROW_FAILED: u8 = 125;
/// The program is there and cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
pub(crate) const NOT_FOUND: u8 = 127;
/// What is added to the number of the signal that ended a run.
const SIGNALLED: i32 = 128;

/// The exit status that `env` has when it cannot execute a program.
pub(crate) fn of_error(error: &io::Error) -> u8 {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => NOT_FOUND,
        // No further process can be made: nothing is wrong with the program.
        None | Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => REGROW_FAILED,
        Some(_) => NOT_EXECUTABLE,
    }
}

/// The exit status of a run, as a shell tells it.
pub(crate) fn of_run(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
        (None, Some(signal)) => of_signal(signal),
        (None, None) => REGROW_FAILED,
    }
}

/// The exit status of a run that a signal ended.
pub(crate) fn of_signal(signal: i32) -> u8 {
    u8::try_from(SIGNALLED + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_has_the_status_that_a_shell_gives_it() {
        assert_eq!(of_run(ExitStatus::from_raw(0)), 0);
        assert_eq!(of_run(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(of_run(ExitStatus::from_raw(255 << 8)), 255);
        assert_eq!(of_run(ExitStatus::from_raw(libc::SIGTERM)), 143);
        assert_eq!(of_run(ExitStatus::from_raw(libc::SIGKILL)), 137);
        assert_eq!(of_run(ExitStatus::from_raw(libc::SIGSEGV | 0x80)), 139);
    }

    #[test]
    fn a_start_that_failed_has_the_status_that_env_has() {
        let status = |errno| of_error(&io::Error::from_raw_os_error(errno));
        assert_eq!(status(libc::ENOENT), 127);
        for errno in [libc::EACCES, libc::ENOEXEC, libc::ENOTDIR, libc::E2BIG, libc::ELOOP] {
            assert_eq!(status(errno), 126);
        }
        for errno in [libc::EAGAIN, libc::ENOMEM, libc::EMFILE] {
            assert_eq!(status(errno), 125);
        }
        assert_eq!(of_error(&io::Error::from(io::ErrorKind::InvalidInput)), 125);
    }
}
