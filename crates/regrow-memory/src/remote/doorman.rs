//! The doorman: the thread of a domain that waits at its sockets, for clients that come, and for the end of those that are there.
//!
//! A socket ends with its process, however that ends, and after the last of its threads: nobody writes to the blocks any more.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recv, send, socket_with,
};

use super::error::DomainError;
use super::hello::QUESTION;
use super::memory::SharedMemory;
use super::porter::Event;
use crate::shared::layout::DESKS;

/// Clients that wait to be let in.
const BACKLOG: i32 = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Doorman {
    pub(super) listener: OwnedFd,
    /// Has something when the domain ends.
    pub(super) stop: Arc<OwnedFd>,
    pub(super) porter: Sender<Event>,
    pub(super) shared: Arc<SharedMemory>,
    /// Says how the service is.
    pub(super) report: Report,
}

/// See [`Doorman::report`].
pub(super) struct Report(pub(super) Box<dyn Fn() -> Vec<u8> + Send>);

impl std::fmt::Debug for Report {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Report")
    }
}

fn socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

fn failed(what: &'static str, path: &Path) -> impl Fn(Errno) -> DomainError {
    move |source| DomainError::Socket { what, path: path.to_owned(), source: source.into() }
}

/// A connection to the domain at a path.
pub(super) fn call(path: &Path) -> Result<OwnedFd, DomainError> {
    let failed = failed("cannot connect to", path);
    let socket = socket().map_err(&failed)?;
    connect(&socket, &SocketAddrUnix::new(path).map_err(&failed)?).map_err(&failed)?;
    let (ours, theirs) = (rustix::process::geteuid(), socket_peercred(&socket).map_err(&failed)?.uid);
    if ours == theirs {
        Ok(socket)
    } else {
        Err(DomainError::User { theirs: theirs.as_raw(), ours: ours.as_raw() })
    }
}

/// Listens at a path. A socket that nobody listens at, of a process that was killed, is replaced.
pub(super) fn listen_at(path: &Path) -> Result<OwnedFd, DomainError> {
    let failed = failed("cannot listen at", path);
    let listener = socket().map_err(&failed)?;
    // The file has this mode from its beginning.
    fchmod(&listener, Mode::RUSR | Mode::WUSR).map_err(&failed)?;
    let address = SocketAddrUnix::new(path).map_err(&failed)?;
    match bind(&listener, &address) {
        Err(Errno::ADDRINUSE) if is_deserted(&address) => {
            rustix::fs::unlink(path).map_err(&failed)?;
            bind(&listener, &address).map_err(&failed)?;
        }
        other => other.map_err(&failed)?,
    }
    listen(&listener, BACKLOG).map_err(&failed)?;
    Ok(listener)
}

fn is_deserted(address: &SocketAddrUnix) -> bool {
    socket().is_ok_and(|socket| connect(&socket, address) == Err(Errno::CONNREFUSED))
}

/// Whether the other side of a socket has ended.
pub(super) fn has_ended(socket: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok()
        && fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

impl Doorman {
    /// Its life, until the domain ends.
    pub(super) fn work(self) {
        let mut sockets: Vec<Arc<OwnedFd>> = Vec::new();
        loop {
            let own = [(&*self.stop, PollFlags::IN), (&self.listener, PollFlags::IN)];
            let all = own.into_iter().chain(sockets.iter().map(|socket| (&**socket, PollFlags::IN)));
            let mut fds: Vec<_> =
                all.map(|(fd, flags)| PollFd::from_borrowed_fd(fd.as_fd(), flags)).collect();
            if let Err(error) = poll(&mut fds, None)
                && error != Errno::INTR
            {
                break;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ready.first() == Some(&true) {
                break;
            }
            let mut is_ready = ready.iter().skip(2);
            sockets.retain(|socket| !(is_ready.next() == Some(&true) && self.is_over(socket)));
            if ready.get(1) == Some(&true) {
                sockets.extend(self.let_in());
            }
        }
        // The porter ends when nobody can tell it anything.
        drop(self.porter);
        self.shared.head().bell.insist(0);
    }

    fn tell(&self, event: Event) {
        // The porter is there as long as this one is.
        let _ = self.porter.send(event);
        self.shared.head().bell.insist(0);
    }

    /// Whether a process has ended: the porter is told. A client may ask how the service is; what else comes is passed over.
    fn is_over(&self, socket: &Arc<OwnedFd>) -> bool {
        let mut bytes = [0u8; 64];
        match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => {}
            Ok((length, _)) if bytes.get(..length) == Some(QUESTION) => {
                // Who does not read its answers gets no more of them.
                let _ = send(socket, &(self.report.0)(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
                return false;
            }
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => return false,
            Err(_) => {}
        }
        self.tell(Event::Departure(Arc::clone(socket)));
        true
    }

    fn let_in(&self) -> Option<Arc<OwnedFd>> {
        let socket = match accept_with(&self.listener, SocketFlags::CLOEXEC) {
            Ok(socket) => Arc::new(socket),
            Err(error) => {
                if error == Errno::MFILE || error == Errno::NFILE {
                    // It waits in the queue until a descriptor is free; this thread does not go round for it.
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                return None;
            }
        };
        let is_own = socket_peercred(&socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid());
        if !is_own {
            return None;
        }
        self.tell(Event::Arrival(Arc::clone(&socket)));
        Some(socket)
    }
}

/// Something for the doorman to see when the domain ends.
pub(super) fn stop_signal() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?)
}

const _: () = assert!(DESKS < 1024, "a process may have so many descriptors, by the usual limit");
