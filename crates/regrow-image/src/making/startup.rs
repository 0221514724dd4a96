//! What a program may do between exec and `main` if its state there is to be given to later runs.
//!
//! Every system call on the way is looked at. Those that only build memory from files are harmless, and the files become
//! part of what the image depends on. Anything that could make the state of one process differ from that of the next
//! (its id, the time, random numbers, output, other processes) refuses the point: the program is then kept at `entry`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use regrow_sys::ptrace::SyscallEntry;

use crate::error::MakeError;
use crate::making::remote::Remote;

/// What was learned on the way to `main`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Startup {
    /// Files that were opened, by the name that they were asked for.
    pub(crate) opened: BTreeSet<PathBuf>,
    /// Files that were looked for and not found.
    pub(crate) absent: BTreeSet<PathBuf>,
    /// Environment variables that constructors asked for.
    pub(crate) asked: Vec<Vec<u8>>,
}

/// What is to be done at the end of a system call.
#[derive(Debug)]
pub(crate) enum AtCallEnd {
    /// Nothing.
    Nothing,
    /// The file of this name was asked for; the result tells whether it is there.
    File { path: PathBuf, opens: bool },
}

/// The flags with which a file is changed.
pub(super) const WRITES: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;

/// Calls that build memory, read files that were opened, or ask for what is the same in every run of one key.
const HARMLESS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_arch_prctl,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_getdents64,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sched_getaffinity,
    libc::SYS_sysinfo,
];

impl Startup {
    /// Judges a system call at its start.
    ///
    /// # Errors
    /// [`MakeError::Refused`] names the call that makes the state at `main` unfit for other runs.
    pub(crate) fn enter(&mut self, remote: &Remote, call: SyscallEntry) -> Result<AtCallEnd, MakeError> {
        let number = i64::try_from(call.number).unwrap_or(-1);
        let refuse = |what: &str| Err(MakeError::Refused(format!("{what} before main")));
        match number {
            libc::SYS_open if call.args[1] & WRITES != 0 => refuse("a file was opened for writing"),
            libc::SYS_openat if call.args[2] & WRITES != 0 => refuse("a file was opened for writing"),
            libc::SYS_open => self.file(remote, call.args[0], true),
            libc::SYS_openat => self.file(remote, call.args[1], true),
            libc::SYS_access | libc::SYS_stat | libc::SYS_lstat | libc::SYS_readlink => {
                self.file(remote, call.args[0], false)
            }
            libc::SYS_newfstatat
            | libc::SYS_faccessat
            | libc::SYS_faccessat2
            | libc::SYS_readlinkat
            | libc::SYS_statx => self.file(remote, call.args[1], false),
            // malloc's tcache key: eight bytes that are no secret to the program itself.
            libc::SYS_getrandom if call.args[1] == 8 && call.args[2] == 1 => Ok(AtCallEnd::Nothing),
            // Reading a limit; the stack limit, which libc keeps, is part of the key.
            libc::SYS_prlimit64 if call.args[2] == 0 => Ok(AtCallEnd::Nothing),
            libc::SYS_getrlimit => Ok(AtCallEnd::Nothing),
            _ if HARMLESS.contains(&number) => Ok(AtCallEnd::Nothing),
            _ => refuse(&format!("system call {number}")),
        }
    }

    fn file(&mut self, remote: &Remote, address: u64, opens: bool) -> Result<AtCallEnd, MakeError> {
        use std::os::unix::ffi::OsStringExt;
        if address == 0 {
            return Ok(AtCallEnd::Nothing);
        }
        let path = PathBuf::from(std::ffi::OsString::from_vec(remote.read_string(address)?));
        let own = format!("/proc/{}", remote.pid());
        if opens
            && (path.starts_with("/proc/self")
                || path.starts_with("/proc/thread-self")
                || path.starts_with(own))
        {
            return Err(MakeError::Refused(format!("{} was opened before main", path.display())));
        }
        Ok(AtCallEnd::File { path, opens })
    }

    /// Notes the outcome of a system call.
    pub(crate) fn exit(&mut self, pending: AtCallEnd, result: i64) {
        let AtCallEnd::File { path, opens } = pending else { return };
        if !path.is_absolute()
            || path.starts_with("/proc")
            || path.starts_with("/sys")
            || path.starts_with("/dev")
        {
            return;
        }
        let list = if result >= 0 && opens {
            &mut self.opened
        } else if result == -i64::from(libc::ENOENT) {
            &mut self.absent
        } else {
            return;
        };
        list.insert(path);
    }
}
