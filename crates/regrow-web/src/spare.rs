//! The descriptors of a run, made before it is asked for: in the time after a reply, in which nobody waits.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::ioctl_fionbio;
use tokio::net::unix::pipe::Receiver;

/// What a run without a body has as its standard input, and the pipes that it writes to. No other run has or had them.
pub(crate) struct Descriptors {
    pub(crate) empty: OwnedFd,
    /// Its standard output: the gateway's end, and the run's.
    pub(crate) output: (Receiver, OwnedFd),
    /// Its standard error.
    pub(crate) errors: (OwnedFd, OwnedFd),
}

impl Descriptors {
    fn new() -> io::Result<Self> {
        let empty = File::open("/dev/null")?.into();
        let (output, theirs) = io::pipe()?;
        let (errors, theirs_too) = io::pipe()?;
        Ok(Self {
            empty,
            output: (watched(output.into())?, theirs.into()),
            errors: (errors.into(), theirs_too.into()),
        })
    }
}

/// For how many runs they are there: the next may be asked for when the last has replied, and not ended.
const SPARE: usize = 2;

/// The descriptors of the next runs.
#[derive(Default)]
pub(crate) struct Spare(RefCell<Vec<Descriptors>>);

impl Spare {
    /// Makes those that are missing.
    pub(crate) fn fill(&self) {
        let mut spare = self.0.borrow_mut();
        while spare.len() < SPARE {
            // Whoever needs them will be told why there are none.
            let Ok(more) = Descriptors::new() else { return };
            spare.push(more);
        }
    }

    /// Takes those for one run, or makes some.
    pub(crate) fn take(&self) -> io::Result<Descriptors> {
        self.0.borrow_mut().pop().map_or_else(Descriptors::new, Ok)
    }
}

/// The end of a pipe that is read, with its events.
fn watched(pipe: OwnedFd) -> io::Result<Receiver> {
    ioctl_fionbio(&pipe, true)?;
    Receiver::from_owned_fd_unchecked(pipe)
}
