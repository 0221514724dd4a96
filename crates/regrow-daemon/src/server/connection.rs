//! A client's connection: its messages with their descriptors, and what waits to be sent to it.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::closing::{Closer, Held};
use super::standing::Standing;
use crate::wire::{GRANT_FDS, MAX_FDS, ToClient};

/// Most descriptors that the kernel passes with a message. It closes by itself, at once, those for which there is no room.
const MOST_OF_KERNEL: usize = 253;

/// A message that has come.
#[derive(Debug)]
pub(super) struct Received {
    /// How many bytes of the buffer it has.
    pub(super) bytes: usize,
    /// The descriptors that came with it.
    pub(super) held: Held,
}

/// A connection; it is closed in such a way that its client can read what it was sent.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Arc<OwnedFd>,
    /// The run that it waits for.
    pub(super) run: Option<i32>,
    /// It is for one run, and the daemon closes it afterwards.
    pub(super) is_once: bool,
    /// The program of a run that it waits for is being looked up.
    pub(super) is_starting: bool,
    pub(super) last_used: Instant,
    /// Whether its process is of the daemon's security domain.
    pub(super) standing: Standing,
    outbox: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    watched: bool,
    broken: bool,
    closer: Closer,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, closer: &Closer) -> Connection {
        Connection {
            standing: Standing::of(socket.as_fd()),
            socket: Arc::new(socket),
            run: None,
            is_once: false,
            is_starting: false,
            last_used: Instant::now(),
            outbox: VecDeque::new(),
            watched: false,
            broken: false,
            closer: closer.clone(),
        }
    }

    /// Whether it waits for a run.
    pub(super) fn is_busy(&self) -> bool {
        self.run.is_some() || self.is_starting
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whose process has connected.
    pub(super) fn user(&self) -> Option<u32> {
        rustix::net::sockopt::socket_peercred(&*self.socket).ok().map(|peer| peer.uid.as_raw())
    }

    /// The next message; `None` when there is none.
    ///
    /// # Errors
    /// When the client is gone, or has sent more than a message may hold.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_OF_KERNEL))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = match recvmsg(&*self.socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags) {
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let rights = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let held = Held::new(rights.flatten(), &self.closer);
        if got.bytes == 0 {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let is_cut = got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
        if is_cut || held.descriptors.len() > MAX_FDS {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(Received { bytes: got.bytes, held }))
    }

    pub(super) fn send(&mut self, message: &ToClient) {
        self.send_with(message, Vec::new());
    }

    pub(super) fn send_with(&mut self, message: &ToClient, descriptors: Vec<OwnedFd>) {
        self.outbox.push_back((message.to_bytes(), descriptors));
        self.flush();
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self) {
        while let Some((bytes, descriptors)) = self.outbox.front() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(GRANT_FDS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let list: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            if !list.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(&list));
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(&*self.socket, &[IoSlice::new(bytes)], &mut ancillary, flags) {
                Ok(_) => drop(self.outbox.pop_front()),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => {
                    self.broken = true;
                    self.outbox.clear();
                }
            }
        }
    }

    /// Whether it is gone, or has left more unread than is kept for it.
    pub(super) fn is_hopeless(&self, most: usize) -> bool {
        self.broken || self.outbox.len() > most
    }

    /// Whether something waits to be sent, if that has changed since the last time.
    pub(super) fn wants_changed(&mut self) -> Option<bool> {
        let wants = !self.outbox.is_empty();
        let changed = wants != self.watched;
        self.watched = wants;
        changed.then_some(wants)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
        if has_something(&self.socket) {
            // Descriptors may have come with it.
            let socket = Arc::clone(&self.socket);
            self.closer.hand_over(1, move || drain(&socket));
        }
    }
}

/// Whether something has come that was not looked at.
fn has_something(socket: &OwnedFd) -> bool {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    matches!(rustix::net::recv(socket, &mut [0u8], flags), Ok((_, 1..)))
}

/// Takes what has come and was not looked at, after which nothing comes any more. A socket that is closed with
/// messages in it is reset, and its client would not find what was sent to it last.
fn drain(socket: &OwnedFd) {
    let mut byte = [0u8];
    while let Ok((_, got)) = rustix::net::recv(socket, &mut byte, RecvFlags::DONTWAIT)
        && got > 0
    {}
}
