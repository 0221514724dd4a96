//! An image: what is kept of a program at a snapshot point, and its seed, the process that bodies are forked from.

#![allow(unsafe_code, reason = "reads the state word of a shared page")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use regrow_abi::{Control, ImageHeader, PageEntry, SEED_FORK, State, VmaEntry};
use regrow_sys::maps::{ReadMapsError, SmapsEntry, read_smaps};
use regrow_sys::raw::{self, SharedMapping};

use crate::initial_stack::StackPlan;
use crate::load::Made;
use crate::make::{Dependencies, MakeError, Point, Recipe};
pub use crate::snapshot::PatchKind;

/// How long a seed may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a seed may take to make a body: one that somebody has stopped does not answer.
const FORK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a seed may take to come to its loop.
const SEED_TIMEOUT: Duration = Duration::from_secs(10);

/// A program at a snapshot point, kept.
#[derive(Debug)]
pub struct Image {
    /// What the agent knows of it.
    pub header: ImageHeader,
    /// Its mappings.
    pub vmas: Vec<VmaEntry>,
    /// Its saved pages.
    pub pages: Vec<PageEntry>,
    /// Where a run's argument block goes.
    pub stack: StackPlan,
    /// The pointers that each run gets anew.
    pub patches: Vec<(u64, PatchKind)>,
    /// Files that it depends on.
    pub dependencies: Dependencies,
    /// Names of the environment variables that were read before the point: their values are part of the key.
    pub learned: Vec<Vec<u8>>,
    /// What a front end has reported.
    pub report: Vec<u8>,
    /// The point.
    pub point: Point,
    seed: Seed,
    store: OwnedFd,
    seed_smaps: OnceLock<Vec<SmapsEntry>>,
}

impl Image {
    pub(crate) fn new(made: Made, seed: Seed, store: OwnedFd, recipe: &Recipe<'_>, report: Vec<u8>) -> Image {
        Image {
            header: made.header,
            vmas: made.memory.vmas,
            pages: made.memory.pages,
            stack: made.stack,
            patches: made.patches,
            dependencies: made.dependencies,
            learned: made.learned,
            report,
            point: recipe.point,
            seed,
            store,
            seed_smaps: OnceLock::new(),
        }
    }

    /// The process that bodies are forked from.
    #[must_use]
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The seed's mappings with the kernel's flags. They are read once: the seed never changes them.
    ///
    /// # Errors
    /// When the seed is gone, or what the kernel tells of it is not understood.
    pub fn seed_smaps(&self) -> Result<&[SmapsEntry], ReadMapsError> {
        if let Some(known) = self.seed_smaps.get() {
            return Ok(known);
        }
        let read = read_smaps(self.seed.pid())?;
        Ok(self.seed_smaps.get_or_init(|| read))
    }

    /// The sealed memfd with tables and saved pages.
    #[must_use]
    pub fn store(&self) -> BorrowedFd<'_> {
        self.store.as_fd()
    }

    /// Whether its bodies are told what their runs write, where they can be.
    #[must_use]
    pub fn tracks_writes(&self) -> bool {
        self.header.features & regrow_abi::features::TRACK_WRITES != 0
    }

    /// Bytes of saved pages.
    #[must_use]
    pub fn saved_bytes(&self) -> u64 {
        self.pages.len() as u64 * regrow_abi::PAGE_BYTES
    }
}

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
        use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
        let channel = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let _one_at_a_time = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let fds = [control, socket];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let message = [io::IoSlice::new(&[SEED_FORK])];
        sendmsg(channel, &message, &mut ancillary, SendFlags::NOSIGNAL)?;
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
        let pid = i64::from_ne_bytes(answer);
        if pid < 0 {
            return Err(io::Error::from_raw_os_error(i32::try_from(-pid).unwrap_or(libc::EINVAL)));
        }
        i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        // The seed ends when its socket is closed; killing it only makes that sooner, and may not be allowed any more.
        self.socket = None;
        if std::process::id() == self.parent {
            let _ = raw::pidfd_kill(self.pidfd.as_fd(), libc::SIGKILL);
            raw::reap_within(self.pid, self.pidfd.as_fd(), END_TIMEOUT);
        }
    }
}
