//! The ends of a channel between processes: a ring in shared memory, and a pair of sockets that wakes who waits.
//!
//! ```text
//!   senders ── socket ═══ socket ── receivers       a byte: look again; the end of the other side: nobody is there any more
//!      └────────── ring (memfd) ──────────┘
//! ```
//!
//! The kernel counts the copies of each socket, so that an end whose process was killed is closed as any other. Each end of a process has its own copy.
//! A forked copy of the process has copies of all of them. It keeps those that its work holds, and closes the others ([`Inheritance`]).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use std::cell::RefCell;

use regrow_sys::raw::SharedMapping;
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use super::handover;
use super::ring::{Broken, Pop, Push, Ring};

/// The memory for records.
const AREA_BYTES: usize = 1 << 20;

/// One end of a channel. Which one, its owner knows.
#[derive(Debug)]
pub(crate) struct End {
    number: u64,
    memory: Arc<Memory>,
    socket: OwnedFd,
}

#[derive(Debug)]
struct Memory {
    file: OwnedFd,
    mapping: SharedMapping,
}

/// Why nothing was sent or received.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no end on the other side any more.
    Closed,
    /// Not now.
    NotNow,
    /// The record is larger than the ring: the most that it takes.
    TooLarge(usize),
    /// The kernel's word, or a ring that cannot be used any more.
    Io(io::Error),
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// The sockets of all ends of this process.
static ENDS: Mutex<BTreeMap<u64, RawFd>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The ends that the work of a copy holds, while they are dropped here.
    static DROPPED: RefCell<Option<Vec<u64>>> = const { RefCell::new(None) };
}

fn ends() -> MutexGuard<'static, BTreeMap<u64, RawFd>> {
    ENDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A channel for so many values at a time: the end that sends, and the one that receives.
pub(crate) fn pair(capacity: usize) -> io::Result<(End, End)> {
    let bytes = Ring::bytes_for(AREA_BYTES);
    let file = regrow_sys::raw::memfd("regrow-channel", bytes as u64)?;
    // Memory that somebody else could take away would crash whoever looks at it.
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let memory = Arc::new(Memory { mapping: SharedMapping::new(file.as_fd(), bytes)?, file });
    memory.ring()?.set_capacity(capacity);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok((End::new(Arc::clone(&memory), one), End::new(memory, other)))
}

impl Memory {
    fn ring(&self) -> io::Result<Ring<'_>> {
        Ring::of(self.mapping.words()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl End {
    fn new(memory: Arc<Memory>, socket: OwnedFd) -> Self {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        ends().insert(number, socket.as_raw_fd());
        Self { number, memory, socket }
    }

    /// A further end of the same side.
    pub(crate) fn again(&self) -> io::Result<Self> {
        Ok(Self::new(Arc::clone(&self.memory), self.socket.try_clone()?))
    }

    /// Gives a copy to the process whose arguments are being written down; its place there.
    pub(crate) fn hand_over(&self) -> io::Result<Option<u32>> {
        Ok(handover::give([self.memory.file.try_clone()?, self.socket.try_clone()?]))
    }

    /// The end at a place of this process's arguments.
    pub(crate) fn taken(place: u32) -> io::Result<Self> {
        let file = handover::take(place)?;
        let socket = handover::take(place + 1)?;
        let bytes = Ring::bytes_for(AREA_BYTES);
        if u64::try_from(rustix::fs::fstat(&file)?.st_size).is_ok_and(|size| size < bytes as u64) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mapping = SharedMapping::new(file.as_fd(), bytes)?;
        Ok(Self::new(Arc::new(Memory { file, mapping }), socket))
    }

    /// Sends a record if there is room.
    pub(crate) fn try_send(&self, record: &[u8]) -> Result<(), Failure> {
        let ring = self.memory.ring()?;
        if self.is_alone() {
            return Err(Failure::Closed);
        }
        match ring.push(record, || self.ring_bell(), || _ = self.drain())? {
            Push::Done => Ok(()),
            Push::Full => Err(Failure::NotNow),
            Push::TooLarge => Err(Failure::TooLarge(ring.most())),
        }
    }

    /// Receives a record if there is one.
    pub(crate) fn try_receive(&self) -> Result<Vec<u8>, Failure> {
        let ring = self.memory.ring()?;
        let mut is_alone = false;
        match ring.pop(|| self.ring_bell(), || is_alone = self.drain())? {
            Pop::Done(record) => Ok(record),
            Pop::Empty if is_alone => Err(Failure::Closed),
            Pop::Empty => Err(Failure::NotNow),
        }
    }

    /// Does something until it can be done, or until the time.
    pub(crate) fn until<T>(
        &self,
        deadline: Option<Instant>,
        mut attempt: impl FnMut(&Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        loop {
            match attempt(self) {
                Err(Failure::NotNow) => {}
                other => return other,
            }
            if !super::waiting::readable(self.socket.as_fd(), deadline)? {
                return Err(Failure::NotNow);
            }
        }
    }

    /// Whether the other side has no end any more.
    fn is_alone(&self) -> bool {
        let mut byte = [0];
        matches!(recv(&self.socket, &mut byte[..], RecvFlags::DONTWAIT | RecvFlags::PEEK), Ok((0, _)))
    }

    /// Takes all bytes out; whether the other side has no end any more.
    fn drain(&self) -> bool {
        let mut bytes = [0; 64];
        loop {
            match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return true,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Has the other side look again. Where there is no room for a byte, enough are on their way.
    fn ring_bell(&self) {
        let _ = send(&self.socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        ends().remove(&self.number);
        DROPPED.with_borrow_mut(|dropped| {
            if let Some(dropped) = dropped {
                dropped.push(self.number);
            }
        });
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Broken> for Failure {
    fn from(Broken(why): Broken) -> Self {
        Self::Io(io::Error::new(io::ErrorKind::InvalidData, format!("the channel is broken: {why}")))
    }
}

/// What a copy of this process is to have of the ends: made before it, used on both sides.
pub(crate) struct Inheritance {
    ends: MutexGuard<'static, BTreeMap<u64, RawFd>>,
    /// By which the copy learns which of them are its own. Where there is none at all, it need not.
    gate: Option<(OwnedFd, OwnedFd)>,
}

impl Inheritance {
    /// Nobody makes or drops an end until the copy is there.
    pub(crate) fn begin() -> io::Result<Self> {
        let ends = ends();
        let gate = if ends.is_empty() {
            None
        } else {
            Some(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
        };
        Ok(Self { ends, gate })
    }

    /// In the copy: closes all ends but those that its work holds.
    pub(crate) fn take_up(mut self) -> io::Result<()> {
        let Some((ours, theirs)) = self.gate.take() else { return Ok(()) };
        // Where the original dies before it has told, there is an end, and not a wait for ever.
        drop(theirs);
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut std::fs::File::from(ours), &mut bytes)?;
        let own: Vec<u64> =
            bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes)).collect();
        self.ends.retain(|number, socket| {
            let is_own = own.contains(number);
            if !is_own {
                regrow_sys::copy::close_by_number(*socket);
            }
            is_own
        });
        Ok(())
    }

    /// In the original: drops the work, and tells the copy what it holds.
    pub(crate) fn pass_on(self, drop_work: impl FnOnce()) {
        let Self { ends, gate } = self;
        drop(ends);
        let before = DROPPED.replace(Some(Vec::new()));
        drop_work();
        let dropped = DROPPED.replace(before).unwrap_or_default();
        if let Some((ours, theirs)) = gate {
            drop(ours);
            let bytes: Vec<u8> = dropped.into_iter().flat_map(u64::to_le_bytes).collect();
            // A copy that has died needs nothing.
            let _ = send_all(&theirs, &bytes);
        }
    }
}

fn send_all(socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = send(socket, bytes, SendFlags::NOSIGNAL)?;
        bytes = &bytes[sent..];
    }
    Ok(())
}
