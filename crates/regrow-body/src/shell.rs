//! A shell: what is left of a body when its program is unmapped. A task that is there already, in its sandbox, executes
//! any program in the place of a new one (the Tender papers' virtual space without a program).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use regrow_abi::{ARG_AREA_OFFSET, MAX_FDS, State, command};
use regrow_sys::strings::Strings;
use regrow_sys::{child, raw};

use crate::body::{Body, StartError};
use crate::command::COMMAND_TIMEOUT;
use crate::control::{Addressee, ExecPlace};
use crate::reaping::END_TIMEOUT;
use crate::run::Run;

impl Body {
    /// Makes a shell of a body that was made for it ([`Purpose::Shell`](crate::Purpose)) and waits. The memory of its program is
    /// given back.
    ///
    /// # Errors
    /// When it does not wait, or its keeper does not answer: it is dropped.
    pub fn break_up(mut self) -> io::Result<Shell> {
        let busy = || io::Error::from(io::ErrorKind::ResourceBusy);
        self.wait_ready(COMMAND_TIMEOUT);
        let pid = self.take_armed().map_err(|_| busy())?;
        self.line.forget();
        self.is_shell = true;
        // Before the process ends: its keeper may see that at once.
        self.control.set_command(command::BREAK_UP);
        child::end(pid, END_TIMEOUT);
        self.bell().ring();
        if self.wait_ready(COMMAND_TIMEOUT) != Some(State::Armed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(Shell { body: self })
    }
}

/// A task with a blank address space. Dropping it ends it.
#[derive(Debug)]
pub struct Shell {
    body: Body,
}

impl Shell {
    /// The process that holds it.
    #[must_use]
    pub fn keeper(&self) -> i32 {
        self.body.keeper()
    }

    /// As [`Body::is_used_by`].
    #[must_use]
    pub fn is_used_by(&self, pid: i32) -> bool {
        self.body.is_used_by(pid)
    }

    /// Whether it waits for a program.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.body.state() == Some(State::Armed)
    }

    /// Waits until it waits for a program again, after one was executed in it.
    #[must_use]
    pub fn wait_ready(&self, timeout: Duration) -> bool {
        self.body.bell().ring();
        self.body.wait_ready(timeout) == Some(State::Armed)
    }

    /// Executes the program at `path`, and waits until that is done. Returns the pid: a child of the calling process, not
    /// yet waited for. The shell makes another process for the next one.
    ///
    /// # Errors
    /// [`StartError`]: nothing of the program has run. After [`StartError::Broken`] the shell must be dropped.
    pub fn start(&mut self, path: &CStr, run: &Run<'_>) -> Result<i32, StartError> {
        if run.fds.len() >= MAX_FDS {
            return Err(StartError::TooManyDescriptors(run.fds.len()));
        }
        let (bytes, place) = self.lay_out(path, run).ok_or(StartError::TooLarge)?;
        let (read, write) = pipe().map_err(StartError::Broken)?;
        let last = run.fds.iter().map(|fd| fd.1).max().unwrap_or(0);
        let place = ExecPlace { fd: last.saturating_add(1).max(3), ..place };
        let mut fds: Vec<(BorrowedFd<'_>, i32)> = run.fds.to_vec();
        fds.push((write.as_fd(), place.fd));
        let pid = self.body.take_armed()?;
        if run.traced {
            regrow_sys::ptrace::seize_to_exit(pid).map_err(StartError::Broken)?;
        }
        self.body.control.write_args(0, &bytes);
        let to = Addressee { pid, serial: self.body.runs + 1 };
        self.body.control.write_exec_order(to, run, &fds, place);
        self.body.line.send_order(to.serial, &fds).map_err(StartError::Broken)?;
        drop(fds);
        drop(write);
        self.body.is_given(pid);
        // The process has executed its program, or has ended: it uses the memory no more.
        let closed = await_closed(&read);
        self.body.line.set_over(self.body.runs);
        closed.map_err(StartError::Broken)?;
        if let Some((step, errno)) = self.body.line.take_refusal(self.body.runs) {
            let _ = raw::wait_pid(pid, false);
            self.body.bell().ring();
            return Err(StartError::Refused { step, source: io::Error::from_raw_os_error(errno) });
        }
        Ok(pid)
    }

    /// The path, the directory, the strings and the arrays that point to them, as they stand in the arg area.
    fn lay_out(&self, path: &CStr, run: &Run<'_>) -> Option<(Vec<u8>, ExecPlace)> {
        let base = self.body.control_address + ARG_AREA_OFFSET as u64;
        let mut bytes = Vec::with_capacity(run.args.as_bytes().len() + run.env.as_bytes().len() + 1024);
        bytes.extend_from_slice(path.to_bytes_with_nul());
        let cwd_offset = u32::try_from(bytes.len()).ok()?;
        if let Some(directory) = run.directory {
            bytes.extend_from_slice(directory);
            bytes.push(0);
        }
        let mut strings = |list: &Strings| {
            let mut pointers = Vec::with_capacity(list.len() + 1);
            for string in list {
                pointers.push(base + bytes.len() as u64);
                bytes.extend_from_slice(string.to_bytes_with_nul());
            }
            pointers.push(0);
            pointers
        };
        let (argv, envp) = (strings(run.args), strings(run.env));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let mut array = |pointers: &[u64]| {
            let at = base + bytes.len() as u64;
            pointers.iter().for_each(|pointer| bytes.extend_from_slice(&pointer.to_ne_bytes()));
            at
        };
        let (argv, envp) = (array(&argv), array(&envp));
        (bytes.len() <= regrow_abi::ARG_AREA_BYTES)
            .then_some((bytes, ExecPlace { path: base, argv, envp, cwd_offset, fd: 0 }))
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Waits until nobody has the other end of a pipe open any more.
fn await_closed(read: &OwnedFd) -> io::Result<()> {
    let mut byte = [0; 1];
    rustix::io::retry_on_intr(|| rustix::io::read(read, &mut byte))?;
    Ok(())
}
