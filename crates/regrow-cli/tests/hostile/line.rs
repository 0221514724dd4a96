//! A connection to the daemon over which anything can be sent.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use regrow_daemon::wire::{MAX_MESSAGE, ToClient, ToDaemon};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, recv, sendmsg,
};

use crate::service::{LIMIT, Service};

/// The most descriptors that the kernel lets pass with one message.
pub(crate) const MOST_FDS: usize = 253;

/// A connection.
pub(crate) struct Line(OwnedFd);

impl Line {
    /// A connection to the daemon of a service.
    pub(crate) fn to(service: &Service) -> Line {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(service.place().socket()).unwrap()).unwrap();
        regrow_daemon::client::introduce(socket.as_fd());
        Line(socket)
    }

    /// Sends a message.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.send_with(bytes, &[])
    }

    /// Sends a message with descriptors. Waits for room.
    pub(crate) fn send_with(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_flags(bytes, descriptors, SendFlags::NOSIGNAL)
    }

    /// Sends a message if there is room for it.
    pub(crate) fn try_send_with(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_flags(bytes, descriptors, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    fn send_flags(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>], flags: SendFlags) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, flags)?;
        Ok(())
    }

    /// The next message; `None` when the daemon has closed the connection.
    pub(crate) fn receive(&self) -> Option<ToClient> {
        assert!(self.has_something(LIMIT), "the daemon says nothing");
        let mut buffer = vec![0; MAX_MESSAGE];
        // What was not read on the other side when it was closed makes this an error.
        let got = recv(self.0.as_fd(), buffer.as_mut_slice(), RecvFlags::empty()).map_or(0, |got| got.0);
        let message = buffer.get(..got).unwrap();
        (got != 0)
            .then(|| ToClient::from_bytes(message).unwrap_or_else(|error| panic!("{error}: {message:?}")))
    }

    /// Whether there is something to be received, or the connection is closed.
    pub(crate) fn has_something(&self, within: Duration) -> bool {
        let timeout = Timespec::try_from(within).unwrap();
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)).unwrap() > 0
    }

    /// Receives until the daemon closes the connection. Returns the last message.
    pub(crate) fn last_words(&self) -> Option<ToClient> {
        let mut last = None;
        while let Some(message) = self.receive() {
            last = Some(message);
        }
        last
    }

    /// Whether the daemon serves this connection.
    pub(crate) fn is_served(&self) -> bool {
        let question = ToDaemon::Ask(regrow_daemon::wire::Question::List(b"/".to_vec()));
        self.send(&question.to_bytes()).is_ok() && matches!(self.receive(), Some(ToClient::Answer { .. }))
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
