//! The client's side: a connection to the daemon, orders, and the run as the client sees it.

use std::ffi::{CStr, OsStr};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use regrow_engine::environ;
use regrow_sys::caller::{Caller, signal_mask};
use rustix::event::EventfdFlags;
use rustix::io::{Errno, FdFlags, ReadWriteFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
};

use crate::place::Place;
use crate::wire::{
    MAX_FDS, MAX_MESSAGE, MAX_TARGETS, Order, Question, Strings, ToClient, ToDaemon, WireError,
};

/// Why the daemon was no help.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no daemon at this place.
    #[error("{}: there is no daemon", path.display())]
    NoDaemon {
        /// The socket.
        path: std::path::PathBuf,
        /// Why it cannot be connected to.
        source: io::Error,
    },
    /// The connection is broken.
    #[error("the connection to the daemon is lost")]
    Lost(#[source] io::Error),
    /// The daemon is gone, and had begun to start the run.
    #[error("the daemon is gone, and whether the program has run is not known")]
    Unknown(#[source] Box<ClientError>),
    /// What the daemon says cannot be understood.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The daemon refuses.
    #[error("the daemon refuses: {0}")]
    Refused(String),
    /// The order does not fit in a message.
    #[error("{what}: {have} where a message to the daemon holds {most}")]
    TooLarge {
        /// What does not.
        what: &'static str,
        /// How much there is.
        have: usize,
        /// How much fits.
        most: usize,
    },
    /// A property of the calling process cannot be read.
    #[error("{what} cannot be read")]
    Caller {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl From<Errno> for ClientError {
    fn from(error: Errno) -> Self {
        Self::Lost(error.into())
    }
}

/// What became of an order.
#[derive(Debug)]
pub enum Answer {
    /// The run is there.
    Started {
        /// Its number.
        pid: i32,
        /// The process; `None` when the daemon had no descriptor left.
        pidfd: Option<OwnedFd>,
        /// The name of how it was created.
        how: String,
    },
    /// The caller is to execute the program itself.
    Declined {
        /// The name of the reason.
        reason: String,
        /// The reason in words.
        detail: String,
    },
}

/// What happens to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// This signal has stopped it.
    Stopped(i32),
    /// It goes on.
    Continued,
    /// It has ended, with this wait status.
    Ended(i32),
    /// Its start was refused on the way: nothing of the program has run, and the caller is to execute it itself.
    Declined(String),
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    /// See [`Order`].
    ticket: OwnedFd,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects to the daemon of a place.
    ///
    /// # Errors
    /// [`ClientError::NoDaemon`].
    pub fn connect(place: &Place) -> Result<Client, ClientError> {
        let path = place.socket();
        let connect = || -> Result<OwnedFd, Errno> {
            let flags = SocketFlags::CLOEXEC;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(&path)?)?;
            Ok(socket)
        };
        let socket = connect().map_err(|error| ClientError::NoDaemon { path, source: error.into() })?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let ticket = rustix::event::eventfd(0, flags)
            .map_err(|source| ClientError::Caller { what: "an eventfd", source: source.into() })?;
        Ok(Client { socket, ticket, buffer: Vec::new() })
    }

    /// Orders a run; `descriptors` get the numbers of `order.targets`.
    ///
    /// # Errors
    /// [`ClientError::Unknown`], or any other: nothing of the program has run.
    pub fn order(&mut self, order: Order, descriptors: &[BorrowedFd<'_>]) -> Result<Answer, ClientError> {
        self.send_order(order, descriptors)?;
        self.answer()
    }

    /// Waits for the answer to [`Client::send_order`]. The connection is readable when it is there.
    ///
    /// # Errors
    /// As [`Client::order`].
    pub fn answer(&mut self) -> Result<Answer, ClientError> {
        match self.first_answer()? {
            (ToClient::Started { pid, how }, pidfd) => Ok(Answer::Started { pid, pidfd, how: text(&how) }),
            (ToClient::Declined { reason, detail }, _) => {
                Ok(Answer::Declined { reason: text(&reason), detail: text(&detail) })
            }
            (message, _) => Err(unexpected(message)),
        }
    }

    /// Orders a run and waits for its end. `Ok(None)`: the daemon declines, nothing of the program has run, and the
    /// caller is to execute it by other means.
    ///
    /// # Errors
    /// As [`Client::order`].
    pub fn complete(
        &mut self,
        mut order: Order,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Option<i32>, ClientError> {
        order.end_only = true;
        self.send_order(order, descriptors)?;
        let mut message = self.first_answer()?.0;
        loop {
            match message {
                ToClient::Ended { status } => return Ok(Some(status)),
                ToClient::Declined { .. } => return Ok(None),
                ToClient::Stopped { .. } | ToClient::Continued => {}
                message => return Err(unexpected(message)),
            }
            message = self.receive().map_err(unknown)?.0;
        }
    }

    /// Sends an order, which is the first half of [`Client::order`].
    ///
    /// # Errors
    /// Nothing of the program has run.
    pub fn send_order(&mut self, order: Order, descriptors: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        if descriptors.len() > MAX_TARGETS {
            let (have, most) = (descriptors.len(), MAX_TARGETS);
            return Err(ClientError::TooLarge { what: "descriptors", have, most });
        }
        // One that the daemon did not take is not there twice.
        take_ticket(self.ticket.as_fd());
        rustix::io::write(&self.ticket, &1u64.to_ne_bytes())?;
        let descriptors: Vec<_> = descriptors.iter().copied().chain([self.ticket.as_fd()]).collect();
        let order = ToDaemon::Run(Box::new(order)).to_bytes();
        let sent = self.send(&order, &descriptors);
        sent.map_err(|error| self.said_before(error))
    }

    fn first_answer(&mut self) -> Result<(ToClient, Option<OwnedFd>), ClientError> {
        let answer = self.receive();
        answer.map_err(|error| if take_ticket(self.ticket.as_fd()) { error } else { unknown(error) })
    }

    /// Waits for what happens next to the run that was ordered.
    ///
    /// # Errors
    /// [`ClientError::Lost`] when the daemon is gone.
    pub fn next_event(&mut self) -> Result<Event, ClientError> {
        match self.receive()?.0 {
            ToClient::Stopped { signal } => Ok(Event::Stopped(signal)),
            ToClient::Continued => Ok(Event::Continued),
            ToClient::Ended { status } => Ok(Event::Ended(status)),
            ToClient::Declined { detail, .. } => Ok(Event::Declined(text(&detail))),
            message => Err(unexpected(message)),
        }
    }

    /// Asks the daemon something; the answer is JSON.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Refused`] when there is no such thing.
    pub fn ask(&mut self, question: Question) -> Result<String, ClientError> {
        let sent = self.send(&ToDaemon::Ask(question).to_bytes(), &[]);
        sent.map_err(|error| self.said_before(error))?;
        let mut whole = Vec::new();
        loop {
            match self.receive()?.0 {
                ToClient::Answer { more, text: part } => {
                    whole.extend_from_slice(&part);
                    if !more {
                        return Ok(text(&whole));
                    }
                }
                message => return Err(unexpected(message)),
            }
        }
    }

    /// Has the daemon drop everything that it keeps.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn clear(&mut self) -> Result<(), ClientError> {
        self.tell(&ToDaemon::Clear)
    }

    /// Has the daemon keep at most so many bytes that are in no use. What is more is given back before this returns.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn set_budget(&mut self, bytes: u64) -> Result<(), ClientError> {
        self.tell(&ToDaemon::Budget(bytes))
    }

    /// Has the daemon take no further runs, and leave when those that are there have ended.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn stop(&mut self) -> Result<(), ClientError> {
        self.tell(&ToDaemon::Stop)
    }

    /// Waits until the daemon has closed the connection.
    pub fn wait_gone(&mut self) {
        while self.receive().is_ok() {}
    }

    fn tell(&mut self, message: &ToDaemon) -> Result<(), ClientError> {
        let sent = self.send(&message.to_bytes(), &[]);
        sent.map_err(|error| self.said_before(error))?;
        match self.receive()?.0 {
            ToClient::Done => Ok(()),
            message => Err(unexpected(message)),
        }
    }

    fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        if bytes.len() > MAX_MESSAGE {
            let (have, most) = (bytes.len(), MAX_MESSAGE);
            return Err(ClientError::TooLarge { what: "bytes of arguments and environment", have, most });
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let send = || sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL);
        rustix::io::retry_on_intr(send)?;
        Ok(())
    }

    /// Why nothing could be sent: what the daemon has said before it closed the connection, if it has.
    fn said_before(&mut self, error: ClientError) -> ClientError {
        let is_closed = |source: &io::Error| {
            matches!(source.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
        };
        match &error {
            ClientError::Lost(source) if is_closed(source) => match self.receive() {
                Ok((message, _)) => unexpected(message),
                Err(wire @ ClientError::Wire(_)) => wire,
                Err(_) => error,
            },
            _ => error,
        }
    }

    fn receive(&mut self) -> Result<(ToClient, Option<OwnedFd>), ClientError> {
        self.buffer.resize(MAX_MESSAGE, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let got = loop {
            match recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        let rights = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        if got.bytes == 0 {
            return Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok((ToClient::from_bytes(self.buffer.get(..got.bytes).unwrap_or_default())?, rights))
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Takes an order's ticket. False when somebody else has, or it cannot be had. Does not wait, whatever the descriptor is
/// that somebody has sent.
pub(crate) fn take_ticket(ticket: BorrowedFd<'_>) -> bool {
    const AT_ITS_POSITION: u64 = u64::MAX;
    let mut value = [0u8; 8];
    let mut parts = [IoSliceMut::new(&mut value)];
    let taken = rustix::io::preadv2(ticket, &mut parts, AT_ITS_POSITION, ReadWriteFlags::NOWAIT);
    matches!(taken, Ok(8))
}

fn unknown(error: ClientError) -> ClientError {
    ClientError::Unknown(Box::new(error))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn unexpected(message: ToClient) -> ClientError {
    match message {
        ToClient::Failed { text: why } => ClientError::Refused(text(&why)),
        message => ClientError::Refused(format!("it has sent {message:?}")),
    }
}

/// An order for a run that is what the calling process would become by executing the program, but for its descriptors.
///
/// # Errors
/// [`ClientError::Caller`] when there is no working directory.
pub fn order_of_caller<A: AsRef<OsStr>>(program: &OsStr, args: &[A]) -> Result<Order, ClientError> {
    let caller = Caller::read();
    let directory = rustix::process::getcwd(Vec::new())
        .map_err(|source| ClientError::Caller { what: "the working directory", source: source.into() })?;
    // There is no way to read the mask but to set it; a process that orders a run has one thread.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    let mut block = Vec::new();
    for arg in args {
        block.extend_from_slice(arg.as_ref().as_bytes());
        block.push(0);
    }
    let settable = caller.settable;
    Ok(Order {
        program: program.as_bytes().to_vec(),
        arg0: None,
        args: Strings(block),
        env: Strings(environ::current().as_bytes().to_vec()),
        directory: directory.into_bytes(),
        umask: umask.bits(),
        nice: settable.nice,
        limits: settable.limits,
        ignored: settable.ignored,
        blocked: signal_mask(),
        affinity: settable.affinity,
        domain: caller.domain.fingerprint(),
        cgroup: caller.domain.cgroup,
        targets: Vec::new(),
        end_only: false,
        preload: Strings::default(),
    })
}

/// The numbers of the descriptors that exec would pass on, in rising order.
///
/// # Errors
/// When `/proc/self/fd` cannot be read.
pub fn inherited_descriptors() -> Result<Vec<RawFd>, ClientError> {
    let failed = |source: Errno| ClientError::Caller { what: "/proc/self/fd", source: source.into() };
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let folder = rustix::fs::open(c"/proc/self/fd", flags, rustix::fs::Mode::empty()).map_err(failed)?;
    let mut space = [MaybeUninit::uninit(); 2048];
    let mut entries = rustix::fs::RawDir::new(&folder, &mut space);
    let mut numbers = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(failed)?;
        numbers.extend(number(entry.file_name()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn number(name: &CStr) -> Option<RawFd> {
    let number: RawFd = name.to_str().ok()?.parse().ok()?;
    is_inherited(number).then_some(number)
}

fn is_inherited(number: RawFd) -> bool {
    rustix::io::fcntl_getfd(borrow(number)).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
}

/// A descriptor of the calling process by its number.
#[must_use]
#[allow(unsafe_code, reason = "descriptors that the caller was given are known by number only")]
pub fn borrow<'a>(number: RawFd) -> BorrowedFd<'a> {
    // SAFETY: what was given to the process before it started is closed by nobody in it; a number that is closed
    // makes the calls that use it fail.
    unsafe { BorrowedFd::borrow_raw(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_taken_once_and_nothing_else_is_waited_for() {
        let ticket = rustix::event::eventfd(1, EventfdFlags::empty()).expect("an eventfd");
        assert!(take_ticket(ticket.as_fd()));
        assert!(!take_ticket(ticket.as_fd()));
        let (read, _write) = rustix::pipe::pipe().expect("a pipe");
        assert!(!take_ticket(read.as_fd()));
    }
}
