//! New clients: who may stay, and who leaves when there are too many.

use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::connection::Connection;
use super::{LISTENER, Server};
use crate::wire::ToClient;

/// How long the listener rests when there are no descriptors for a further client.
const REST: Duration = Duration::from_millis(100);

impl Server {
    /// Has new clients wait, or takes them again.
    pub(super) fn listen(&self, on: bool) {
        let events = if on { EventFlags::IN } else { EventFlags::empty() };
        if let Err(error) = self.poller.change(&self.listener, LISTENER, events) {
            tracing::error!(%error, "the listener is not looked at any more");
        }
    }

    pub(super) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match rustix::net::accept_with(&self.listener, flags) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => return self.make_room(),
            // The client has left again.
            Err(_) => return,
        };
        let mut connection = Connection::new(socket, &self.closer);
        if self.closer.is_behind() {
            let text = b"the daemon waits for too many files to be closed".to_vec();
            return connection.send(&ToClient::Failed { text });
        }
        match connection.user() {
            Some(user) if user == self.user => {}
            user => {
                tracing::warn!(?user, "a client of another user is refused");
                return connection.send(&ToClient::Failed { text: b"the daemon is another user's".to_vec() });
            }
        }
        if self.clients.len() >= self.options.max_clients && !self.drop_longest_idle() {
            let text = b"the daemon has as many clients as it may have".to_vec();
            return connection.send(&ToClient::Failed { text });
        }
        // While the client gets its message ready. What differs is told to whoever asks for a run.
        connection.standing.look(&self.security);
        let own = self.controller.shard().view().domain();
        let cgroup = (!self.options.any_cgroup).then_some(own.cgroup.as_slice());
        let _ = connection.standing.look_inside(&self.security, cgroup);
        match self.clients.add(connection, &self.poller) {
            // Its first message may be there already.
            Ok(client) => self.take_message(client),
            Err(error) => tracing::warn!(%error, "a client is turned away"),
        }
    }

    /// There are no descriptors for a further client: who says nothing leaves, or what is kept and used least; the next
    /// turn tries again. Where that does not help, clients wait a little.
    fn make_room(&mut self) {
        if !self.drop_longest_idle() && !self.controller.give_back() {
            self.listen(false);
            self.rests_until = Some(Instant::now() + REST);
        }
    }
}
