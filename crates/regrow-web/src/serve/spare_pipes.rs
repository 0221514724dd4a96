//! The pipes of the next processes. The gateway makes them after a reply, when nobody waits.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::ioctl_fionbio;
use tokio::net::unix::pipe::Receiver;

/// The descriptors of one process. No other process has had them.
pub(crate) struct StdioPipes {
    /// `/dev/null`, for a request without a body.
    pub(crate) empty: OwnedFd,
    /// The pipe of standard output: the gateway's end, and the process's.
    pub(crate) output: (Receiver, OwnedFd),
    /// The pipe of standard error.
    pub(crate) errors: (OwnedFd, OwnedFd),
}

impl StdioPipes {
    fn new() -> io::Result<Self> {
        let empty = File::open("/dev/null")?.into();
        let (output, theirs) = io::pipe()?;
        let (errors, theirs_too) = io::pipe()?;
        Ok(Self {
            empty,
            output: (receiver(output.into())?, theirs.into()),
            errors: (errors.into(), theirs_too.into()),
        })
    }
}

/// For how many processes the gateway has pipes: the next request may come between the reply of a process and its end.
const SPARE: usize = 2;

/// The pipes of the next processes.
#[derive(Default)]
pub(crate) struct SparePipes(RefCell<Vec<StdioPipes>>);

impl SparePipes {
    /// Makes pipes until there are enough.
    pub(crate) fn fill(&self) {
        let mut spare = self.0.borrow_mut();
        while spare.len() < SPARE {
            // Whoever takes them next reports the error.
            let Ok(more) = StdioPipes::new() else { return };
            spare.push(more);
        }
    }

    /// Takes the pipes of one process, or makes them.
    pub(crate) fn take(&self) -> io::Result<StdioPipes> {
        self.0.borrow_mut().pop().map_or_else(StdioPipes::new, Ok)
    }
}

/// The read end of a pipe, watched by the event loop.
fn receiver(pipe: OwnedFd) -> io::Result<Receiver> {
    ioctl_fionbio(&pipe, true)?;
    Receiver::from_owned_fd_unchecked(pipe)
}
