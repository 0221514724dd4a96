//! The client's side: a connection to the daemon, and the run as the client sees it.

mod error;
mod leasing;

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
};

use regrow_sys::strings::Strings;

use crate::place::Place;
use crate::proof;
use crate::ticket::Ticket;
use crate::wire::{
    GRANT_FDS, GrantMessage, MAX_FDS, MAX_MESSAGE, MAX_TARGETS, Question, SpawnMessage, ToClient, ToDaemon,
};
use leasing::{First, Leasing, Outcome};

pub use error::ClientError;

/// What the daemon says to a run that it is asked for.
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
        /// Why the modules that were asked for were not loaded ahead; empty where they were, or will be.
        not_loaded: String,
    },
    /// The caller is to execute the program itself.
    Declined {
        /// The name of the reason.
        reason: String,
        /// The reason in words.
        detail: String,
    },
    /// The run has ended already, with this wait status. Only a client that has taken a connection over gets this.
    Ended(i32),
}

/// What happens to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEvent {
    /// This signal has stopped it.
    Stopped(i32),
    /// It goes on.
    Continued,
    /// It has ended, with this wait status.
    Ended(i32),
    /// Its start was refused on the way: nothing of the program has run, and the caller is to execute it itself.
    Declined(String),
}

/// A body that is lent, and what is used of it.
type Grant = (GrantMessage, Vec<OwnedFd>);

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    ticket: Ticket,
    buffer: Vec<u8>,
    leasing: Leasing,
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
        let ticket = Ticket::new().map_err(|source| ClientError::Caller { what: "an eventfd", source })?;
        introduce(socket.as_fd());
        Ok(Client { socket, ticket, buffer: Vec::new(), leasing: Leasing::new() })
    }

    /// Goes on with a connection on which a run was asked for, and with its ticket: a client of one page hands both over.
    #[must_use]
    pub fn taken_over(socket: OwnedFd, ticket: OwnedFd) -> Client {
        let ticket = Ticket::from(Arc::new(ticket));
        Client { socket, ticket, buffer: Vec::new(), leasing: Leasing::new() }
    }

    /// Asks for a run; `descriptors` get the numbers of `run.targets`.
    ///
    /// # Errors
    /// [`ClientError::Unknown`], or any other: nothing of the program has run.
    pub fn spawn(
        &mut self,
        run: SpawnMessage,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Answer, ClientError> {
        self.send_spawn(run, descriptors)?;
        self.answer()
    }

    /// Waits for the answer to [`Client::send_spawn`]. The connection is readable when it is there.
    ///
    /// # Errors
    /// As [`Client::spawn`].
    pub fn answer(&mut self) -> Result<Answer, ClientError> {
        match self.first_answer()? {
            (ToClient::Started { pid, how, not_loaded }, pidfd) => {
                Ok(Answer::Started { pid, pidfd, how: text(&how), not_loaded: text(&not_loaded) })
            }
            (ToClient::Declined { reason, detail }, _) => {
                Ok(Answer::Declined { reason: text(&reason), detail: text(&detail) })
            }
            (ToClient::Ended { status }, _) => Ok(Answer::Ended(status)),
            (message, _) => Err(unexpected(message)),
        }
    }

    /// Asks for a run and waits for its end. `Ok(None)`: the daemon declines, nothing of the program has run, and the
    /// caller is to execute it by other means.
    ///
    /// A request that is made again and again gets a body on lease, in which runs are started without the daemon.
    ///
    /// # Errors
    /// As [`Client::spawn`].
    pub fn complete(
        &mut self,
        mut run: SpawnMessage,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Option<i32>, ClientError> {
        match self.run_leased(&run, descriptors) {
            Outcome::Ended(status) => return Ok(Some(status)),
            Outcome::Unknown => return Err(unknown(ClientError::Lost(io::ErrorKind::NotFound.into()))),
            Outcome::NotRun => {}
            Outcome::GiveBack(lease) => self.give_back([lease]),
        }
        run.end_only = true;
        let mut returned = Vec::new();
        let asks = self.leasing.note(&run, &mut returned);
        self.give_back(returned);
        let like = asks.then(|| SpawnMessage { args: Strings::new(), ..run.clone() });
        let status = self.complete_by_daemon(run, descriptors)?;
        if let Some(like) = like.filter(|_| status.is_some()) {
            // A connection that is broken is seen at the next request: this one is carried out.
            let granted = self.ask_for_lease(like).ok().flatten();
            self.leasing.granted(granted);
        }
        Ok(status)
    }

    /// How many runs were started without the daemon.
    #[must_use]
    pub fn leased_runs(&self) -> u64 {
        self.leasing.runs()
    }

    /// Has the daemon asked for every run from here on.
    pub fn lease_nothing(&mut self) {
        let returned = self.leasing.turn_off();
        self.give_back(returned);
    }

    /// Starts a run in a body on lease, where there is one for it.
    fn run_leased(&mut self, run: &SpawnMessage, descriptors: &[BorrowedFd<'_>]) -> Outcome {
        match self.leasing.first(run) {
            First::Start => {}
            First::Ask => return Outcome::NotRun,
            First::Renew(lease) => {
                let holds = self.tell(&ToDaemon::Renew(lease)).is_ok();
                self.leasing.renewed(holds);
            }
        }
        self.leasing.run(run, descriptors)
    }

    /// Asks for a lease; `None` when the daemon refuses.
    fn ask_for_lease(&mut self, like: SpawnMessage) -> Result<Option<Grant>, ClientError> {
        self.send(&ToDaemon::Lease(Box::new(like)).to_bytes(), &[])?;
        match self.receive_all()? {
            (ToClient::Leased(grant), fds) => Ok(Some((*grant, fds))),
            (ToClient::Declined { .. }, _) => Ok(None),
            (message, _) => Err(unexpected(message)),
        }
    }

    fn give_back(&self, leases: impl IntoIterator<Item = u32>) {
        for lease in leases {
            // A connection that is broken gives everything back.
            let _ = self.send(&ToDaemon::Return(lease).to_bytes(), &[]);
        }
    }

    fn complete_by_daemon(
        &mut self,
        run: SpawnMessage,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Option<i32>, ClientError> {
        self.send_spawn(run, descriptors)?;
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

    /// Asks for a run and does not wait for the answer: the first half of [`Client::spawn`].
    ///
    /// # Errors
    /// Nothing of the program has run.
    pub fn send_spawn(
        &mut self,
        run: SpawnMessage,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ClientError> {
        if descriptors.len() > MAX_TARGETS {
            let (have, most) = (descriptors.len(), MAX_TARGETS);
            return Err(ClientError::TooLarge { what: "descriptors", have, most });
        }
        self.ticket.issue().map_err(ClientError::Lost)?;
        let descriptors: Vec<_> = descriptors.iter().copied().chain([self.ticket.as_fd()]).collect();
        let sent = self.send(&ToDaemon::Run(Box::new(run)).to_bytes(), &descriptors);
        sent.map_err(|error| self.said_before(error))
    }

    fn first_answer(&mut self) -> Result<(ToClient, Option<OwnedFd>), ClientError> {
        let answer = self.receive();
        answer.map_err(|error| if self.ticket.take() { error } else { unknown(error) })
    }

    /// Waits for what happens next to the run.
    ///
    /// # Errors
    /// [`ClientError::Lost`] when the daemon is gone.
    pub fn next_event(&mut self) -> Result<RunEvent, ClientError> {
        match self.receive()?.0 {
            ToClient::Stopped { signal } => Ok(RunEvent::Stopped(signal)),
            ToClient::Continued => Ok(RunEvent::Continued),
            ToClient::Ended { status } => Ok(RunEvent::Ended(status)),
            ToClient::Declined { detail, .. } => Ok(RunEvent::Declined(text(&detail))),
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
        let (message, descriptors) = self.receive_all()?;
        Ok((message, descriptors.into_iter().next()))
    }

    fn receive_all(&mut self) -> Result<(ToClient, Vec<OwnedFd>), ClientError> {
        self.buffer.resize(MAX_MESSAGE, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(GRANT_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let got = loop {
            match recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        let rights = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let rights: Vec<OwnedFd> = rights.flatten().collect();
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

/// Shows the daemon at the other end of a connection that this process may look into it. A daemon declines the runs of those that
/// cannot, and answers nothing that they ask.
pub fn introduce(socket: BorrowedFd<'_>) {
    if let Some(secret) = proof::of_daemon(socket) {
        let message = ToDaemon::Proof(secret).to_bytes();
        // A connection that is broken is seen when something is asked for.
        let _ = rustix::net::send(socket, &message, SendFlags::NOSIGNAL);
    }
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
