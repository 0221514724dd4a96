//! The doorman: the thread of a domain that waits at its sockets, for clients that come, and for the end of those that are there.
//!
//! A socket ends with its process, however that ends, and after the last of its threads: nobody writes to the blocks any more.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use super::hello::QUESTION;
use super::memory::SharedMemory;
use super::porter::Event;
use super::socket_file::is_own;
use crate::shared::layout::DESKS;

/// How long the doorman rests when nobody can be let in: descriptors or memory are short. Who comes waits in the socket's queue.
const REST: Duration = Duration::from_millis(10);

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

/// See [`Doorman::report`]. It is given how many clients there are, whoever asks among them.
pub(super) struct Report(pub(super) Box<dyn Fn(u64) -> Vec<u8> + Send>);

impl std::fmt::Debug for Report {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Report")
    }
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
            let mut clients = sockets.len() as u64;
            // Who has come first is looked at first: a client that has ended is not counted for one that has come after that.
            sockets.retain(|socket| {
                let is_over = is_ready.next() == Some(&true) && self.is_over(socket, clients);
                clients -= u64::from(is_over);
                !is_over
            });
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
    fn is_over(&self, socket: &Arc<OwnedFd>, clients: u64) -> bool {
        let mut bytes = [0u8; 64];
        match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => {}
            Ok((length, _)) if bytes.get(..length) == Some(QUESTION) => {
                // Who does not read its answers gets no more of them.
                let _ = send(socket, &(self.report.0)(clients), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
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
            Err(Errno::INTR | Errno::AGAIN | Errno::CONNABORTED) => return None,
            Err(_) => {
                // This thread does not go round for it.
                std::thread::sleep(REST);
                return None;
            }
        };
        if !is_own(socket.as_fd()) {
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
