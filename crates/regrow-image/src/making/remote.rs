//! A stopped process as a thing to work on: its memory, and system calls made in it.
//!
//! A system call is made by pointing the process at an instruction for it that it has anyway (the vdso's) and letting
//! it step once, so that none of its code is changed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use regrow_abi::{PAGE_BYTES, PAGE_LEN};
use regrow_sys::maps::{MapName, Mapping, read_maps};
use regrow_sys::ptrace::{Resume, Stop, Stopped};

use crate::arch::SYSTEM_CALL;
use crate::error::MakeError;

/// A stopped process, its memory file, and where it has an instruction that makes a system call.
#[derive(Debug)]
pub(crate) struct Remote {
    stopped: Stopped,
    access: Access,
}

/// What is known of a process while it runs, to work on it again when it stops.
#[derive(Debug)]
pub(crate) struct Access {
    memory: File,
    gadget: u64,
}

impl Access {
    /// Works on the process again.
    pub(crate) fn stopped(self, stopped: Stopped) -> Remote {
        Remote { stopped, access: self }
    }
}

/// The mappings of a process.
pub(crate) fn mappings(pid: i32) -> Result<Vec<Mapping>, MakeError> {
    Ok(read_maps(pid)?)
}

impl Remote {
    /// Takes a stopped process.
    pub(crate) fn new(stopped: Stopped) -> Result<Remote, MakeError> {
        let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", stopped.pid()));
        let memory = memory.map_err(MakeError::tracing("opening its memory"))?;
        let mut remote = Remote { stopped, access: Access { memory, gadget: 0 } };
        remote.access.gadget = remote.find_gadget()?;
        Ok(remote)
    }

    /// Takes a stopped process to read its memory alone: no system call can be made in it.
    pub(crate) fn to_look_at(stopped: Stopped) -> Result<Remote, MakeError> {
        let memory = File::open(format!("/proc/{}/mem", stopped.pid()));
        let memory = memory.map_err(MakeError::tracing("opening its memory"))?;
        Ok(Remote { stopped, access: Access { memory, gadget: 0 } })
    }

    fn find_gadget(&self) -> Result<u64, MakeError> {
        let mut candidates = mappings(self.pid())?;
        candidates.retain(|mapping| mapping.exec && mapping.read && mapping.name != MapName::Vsyscall);
        candidates.sort_by_key(|mapping| u8::from(mapping.name != MapName::Vdso));
        for mapping in candidates {
            let length = usize::try_from(mapping.len_bytes()).unwrap_or(0).min(4 << 20);
            let code = self.read(mapping.start, length)?;
            if let Some(at) = code.windows(SYSTEM_CALL.len()).position(|bytes| bytes == SYSTEM_CALL) {
                return Ok(mapping.start + at as u64);
            }
        }
        Err(MakeError::Refused("no system call instruction".to_owned()))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.stopped.pid()
    }

    /// The process, to read and set its registers.
    pub(crate) fn stopped(&self) -> &Stopped {
        &self.stopped
    }

    /// Gives the process back, to be resumed.
    pub(crate) fn release(self) -> (Stopped, Access) {
        (self.stopped, self.access)
    }

    pub(crate) fn read(&self, address: u64, bytes: usize) -> Result<Vec<u8>, MakeError> {
        let mut buffer = vec![0; bytes];
        self.access
            .memory
            .read_exact_at(&mut buffer, address)
            .map_err(MakeError::tracing("reading its memory"))?;
        Ok(buffer)
    }

    pub(crate) fn read_into(&self, address: u64, buffer: &mut [u8]) -> Result<(), MakeError> {
        self.access.memory.read_exact_at(buffer, address).map_err(MakeError::tracing("reading its memory"))
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MakeError> {
        self.access.memory.write_all_at(bytes, address).map_err(MakeError::tracing("writing its memory"))
    }

    /// A NUL-terminated string, at most a page of it.
    pub(crate) fn read_string(&self, address: u64) -> Result<Vec<u8>, MakeError> {
        let mut string = Vec::new();
        let mut at = address;
        while string.len() < PAGE_LEN {
            // No read crosses a page, so that a string at the end of a mapping is read too.
            let room = 256.min(usize::try_from(PAGE_BYTES - at % PAGE_BYTES).unwrap_or(256));
            let part = self.read(at, room)?;
            if let Some(end) = part.iter().position(|&byte| byte == 0) {
                string.extend_from_slice(part.get(..end).unwrap_or_default());
                return Ok(string);
            }
            string.extend_from_slice(&part);
            at += room as u64;
        }
        Ok(string)
    }

    /// Makes a system call in the process. Its registers are as before afterwards.
    pub(crate) fn syscall(mut self, number: i64, args: [u64; 6]) -> Result<(Remote, i64), MakeError> {
        let saved = self.stopped.registers().map_err(MakeError::tracing("reading registers"))?;
        let mut call = saved;
        call.make_call(self.access.gadget, number.unsigned_abs(), args);
        self.stopped.set_registers(call).map_err(MakeError::tracing("setting registers"))?;
        let running = self.stopped.resume(Resume::Step, 0).map_err(MakeError::tracing("stepping"))?;
        match running.wait().map_err(MakeError::tracing("waiting"))? {
            Stop::Trap(stopped, _) => {
                let result = stopped.registers().map_err(MakeError::tracing("reading registers"))?.result();
                stopped.set_registers(saved).map_err(MakeError::tracing("setting registers"))?;
                self.stopped = stopped;
                Ok((self, result.cast_signed()))
            }
            Stop::Gone(_) => Err(MakeError::Died { step: "a system call made in it" }),
            other => Err(MakeError::Refused(format!("an event during a system call made in it: {other:?}"))),
        }
    }

    /// A system call whose failure means that no image can be made.
    pub(crate) fn must(
        self,
        what: &'static str,
        number: i64,
        args: [u64; 6],
    ) -> Result<(Remote, u64), MakeError> {
        let (remote, result) = self.syscall(number, args)?;
        match u64::try_from(result) {
            Ok(value) => Ok((remote, value)),
            Err(_) => {
                let errno = i32::try_from(-result).unwrap_or(libc::EINVAL);
                Err(MakeError::Tracing { step: what, source: io::Error::from_raw_os_error(errno) })
            }
        }
    }
}
