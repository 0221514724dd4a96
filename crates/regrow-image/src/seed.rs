//! The seed of an image: the process that bodies are forked from.

#![allow(unsafe_code, reason = "reads the state word of a shared page")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use regrow_abi::{Control, SEED_FORK, SEED_IMAGE, State};
use regrow_sys::child;
use regrow_sys::raw::{self, SharedMapping};

use crate::error::MakeError;

/// How long a seed may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a seed may take to make a body: one that somebody has stopped does not answer.
const FORK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a seed may take to come to its loop.
const SEED_TIMEOUT: Duration = Duration::from_secs(10);

/// The first process of an image. It never runs the program; it makes bodies by `fork`. Killed and reaped on drop.
#[derive(Debug)]
pub struct Seed {
    pid: i32,
    pidfd: OwnedFd,
    /// `None` only while it is dropped.
    socket: Option<OwnedFd>,
    /// Held from a question to its answer.
    asked: Mutex<()>,
    /// The process that it is a child of: a forked copy of the caller has the value, but not the child.
    parent: u32,
}

impl Seed {
    /// Takes over a process that has just been let go in the agent, and waits until it has come to its loop.
    pub(crate) fn adopt(pid: i32, socket: OwnedFd, control: &SharedMapping) -> Result<Seed, MakeError> {
        let pidfd = raw::pidfd_open(pid).map_err(MakeError::tracing("opening the seed's pidfd"))?;
        let seed =
            Seed { pid, pidfd, socket: Some(socket), asked: Mutex::new(()), parent: std::process::id() };
        // SAFETY: the mapping has `CONTROL_BYTES` zeroed bytes at first, and the agent writes only atomics there; it
        // lives to the end of this function.
        let state = unsafe { &(*control.as_ptr().cast::<Control>()).state };
        let started = Instant::now();
        loop {
            let word = state.load(Ordering::SeqCst);
            match State::from_raw(word) {
                Some(State::Clean) => return Ok(seed),
                Some(State::Starting) if started.elapsed() < SEED_TIMEOUT => {}
                _ => return Err(MakeError::SeedSilent(started.elapsed())),
            }
            if raw::wait_pid(pid, true).is_ok_and(|status| status.is_some()) {
                return Err(MakeError::Died { step: "the start of its seed" });
            }
            raw::futex_wait(state, word, Duration::from_micros(200));
        }
    }

    /// Kills it (tests of faults): no further body can be made.
    pub fn kill(&self) {
        let _ = raw::pidfd_kill(self.pidfd.as_fd(), libc::SIGKILL);
    }

    /// Whether it is there: without it there are no further bodies.
    #[must_use]
    pub fn lives(&self) -> bool {
        !raw::ends_within(self.pidfd.as_fd(), Duration::ZERO)
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Makes a body: a copy of the seed with this control memfd and this socket. Returns the keeper's pid; the keeper is
    /// a child of the calling process.
    ///
    /// # Errors
    /// When the seed is gone, or its `clone` fails. `UnexpectedEof`: it has died meanwhile, and may have made the body.
    pub fn fork(&self, control: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> io::Result<i32> {
        let pid = self.ask(SEED_FORK, &[control, socket])?;
        i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Has it map another memfd of its image in the place of the one that it has, for the bodies that it makes from then on.
    ///
    /// # Errors
    /// When the seed is gone, could not open its own memory for its bodies, or the kernel refuses the mapping.
    pub(crate) fn map_image(&self, image: BorrowedFd<'_>) -> io::Result<()> {
        self.ask(SEED_IMAGE, &[image]).map(|_| ())
    }

    /// Sends a message, and waits for the answer.
    fn ask(&self, message: u8, fds: &[BorrowedFd<'_>]) -> io::Result<i64> {
        use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
        let channel = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let _one_at_a_time = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
        let bytes = [io::IoSlice::new(std::slice::from_ref(&message))];
        sendmsg(channel, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?;
        if !raw::readable_within(channel.as_fd(), FORK_TIMEOUT) {
            // What it says later would be taken for the answer to another question.
            self.kill();
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the seed does not answer"));
        }
        let mut answer = [0u8; 8];
        let got = loop {
            match recv(channel, &mut answer, RecvFlags::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?.0,
            }
        };
        if got != answer.len() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the seed is gone"));
        }
        match i64::from_ne_bytes(answer) {
            value @ 0.. => Ok(value),
            error => Err(io::Error::from_raw_os_error(i32::try_from(-error).unwrap_or(libc::EINVAL))),
        }
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        // The seed ends when its socket is closed; killing it only makes that sooner, and may not be allowed any more.
        self.socket = None;
        if std::process::id() == self.parent {
            let _ = raw::pidfd_kill(self.pidfd.as_fd(), libc::SIGKILL);
            child::reap_by(self.pidfd.as_fd(), END_TIMEOUT);
        }
    }
}
