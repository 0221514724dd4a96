//! The first message over the socket: what a new client is, and the three files that it maps. The only other one is a question.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::error::DomainError;
use super::peer::Peer;
use crate::shared::layout::DESKS;

/// What a client may ask ([`super::status`]).
pub(super) const QUESTION: &[u8] = b"how is the service";
const MAGIC: u64 = u64::from_le_bytes(*b"regrowmd");
/// Grows with each change of what processes share.
const VERSION: u64 = 1;
const WORDS: usize = 6;
const FILES: usize = 3;

/// Why there is no room for another client: one of these numbers stands where otherwise a peer's would, or the number of an error of the system.
const IS_FULL: u64 = 0;

/// Why a client is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There are as many clients as there may be.
    Full,
    /// What it needs cannot be made.
    Short(Errno),
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) chunks: u32,
    /// Of the domain's tickets.
    pub(super) key: u64,
    pub(super) peer: Result<Peer, Refusal>,
}

/// The range, what all share, and the client's lane.
pub(super) type Files<T> = [T; FILES];

impl Hello {
    /// Sends it. Nothing is waited for: a new socket has room for a message.
    pub(super) fn send(&self, socket: BorrowedFd<'_>, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let peer = match self.peer {
            Ok(peer) => peer.to_bits(),
            Err(Refusal::Full) => IS_FULL,
            Err(Refusal::Short(error)) => u64::from(error.raw_os_error().unsigned_abs()),
        };
        let words = [MAGIC, VERSION, u64::from(self.chunks), self.key, u64::from(self.peer.is_ok()), peer];
        let bytes = words.map(u64::to_le_bytes);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        let slices = [IoSlice::new(bytes.as_flattened())];
        sendmsg(socket, &slices, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Waits for it.
    pub(super) fn receive(socket: BorrowedFd<'_>) -> Result<(Hello, Files<OwnedFd>), DomainError> {
        let wrong = |what| DomainError::Version { what };
        let mut bytes = [[0; 8]; WORDS];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(bytes.as_flattened_mut())];
        let received = loop {
            match recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other.map_err(|_| DomainError::Gone)?,
            }
        };
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Err(DomainError::Gone);
        }
        let [magic, version, chunks, key, has_peer, peer] = bytes.map(u64::from_le_bytes);
        if (received.bytes, magic, version) != (WORDS * 8, MAGIC, VERSION) {
            return Err(wrong("its first message"));
        }
        if has_peer == 0 {
            return Err(match i32::try_from(peer) {
                Ok(error) if peer != IS_FULL => {
                    DomainError::Short { source: io::Error::from_raw_os_error(error) }
                }
                _ => DomainError::Full { most: DESKS },
            });
        }
        // The kernel leaves out what this process has no descriptors for.
        if received.flags.contains(ReturnFlags::CTRUNC) && files.len() < FILES {
            return Err(DomainError::OutOfDescriptors);
        }
        let files = Files::try_from(files).map_err(|_| wrong("the files that come with it"))?;
        let chunks = u32::try_from(chunks).map_err(|_| wrong("the size of the range"))?;
        let peer = Peer::from_bits(peer);
        if peer.desk as usize >= DESKS {
            return Err(wrong("the number of the desk"));
        }
        Ok((Hello { chunks, key, peer: Ok(peer) }, files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, send, socketpair};
    use std::os::fd::AsFd;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("sockets")
    }

    #[test]
    fn a_hello_comes_as_it_was_sent_and_what_is_none_is_refused() {
        let (one, other) = pair();
        let hello = Hello { chunks: 7, key: u64::MAX - 5, peer: Ok(Peer { desk: 3, number: 12 }) };
        let file = one.as_fd();
        hello.send(one.as_fd(), &[file, file, file]).expect("there is room");
        assert_eq!(Hello::receive(other.as_fd()).expect("it comes").0, hello);
        hello.send(one.as_fd(), &[file]).expect("there is room");
        let received = Hello::receive(other.as_fd());
        assert!(matches!(received, Err(DomainError::Version { what }) if what.contains("files")));
        Hello { peer: Err(Refusal::Full), ..hello }.send(one.as_fd(), &[]).expect("there is room");
        assert!(matches!(Hello::receive(other.as_fd()), Err(DomainError::Full { most: DESKS })));
        Hello { peer: Err(Refusal::Short(Errno::MFILE)), ..hello }
            .send(one.as_fd(), &[])
            .expect("there is room");
        let short = Hello::receive(other.as_fd());
        assert!(matches!(short, Err(DomainError::Short { source }) if source.raw_os_error() == Some(24)));
        let no_desk = Hello { peer: Ok(Peer { desk: 256, number: 1 }), ..hello };
        no_desk.send(one.as_fd(), &[file, file, file]).expect("there is room");
        assert!(matches!(Hello::receive(other.as_fd()), Err(DomainError::Version { .. })));
        for text in [&b"HTTP/1.1 200 OK"[..], &[0; 48], &[255; 48], &[7; 200]] {
            send(&one, text, SendFlags::empty()).expect("there is room");
            assert!(matches!(Hello::receive(other.as_fd()), Err(DomainError::Version { .. })), "{text:?}");
        }
        drop(one);
        assert!(matches!(Hello::receive(other.as_fd()), Err(DomainError::Gone)));
    }
}
