//! The clients of a daemon, by the numbers under which the loop knows them.
//!
//! Invariant: a client that has left more unread than is kept for it, or whose connection is broken, is dropped by the
//! caller of [`Clients::send`].

use std::collections::HashMap;
use std::io;

use rustix::event::epoll::EventFlags;

use super::connection::Connection;
use super::poller::Poller;
use crate::wire::ToClient;

/// Most messages that wait for a client that does not read.
const OUTBOX: usize = 16;

/// The connections.
#[derive(Debug)]
pub(super) struct Clients {
    connections: HashMap<u64, Connection>,
    next: u64,
}

impl Clients {
    /// No clients; the first one has this number.
    pub(super) fn new(first: u64) -> Clients {
        Clients { connections: HashMap::new(), next: first }
    }

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    pub(super) fn get_mut(&mut self, client: u64) -> Option<&mut Connection> {
        self.connections.get_mut(&client)
    }

    pub(super) fn remove(&mut self, client: u64, poller: &Poller) -> Option<Connection> {
        let connection = self.connections.remove(&client)?;
        // It may be closed later, by somebody else.
        poller.remove(connection.descriptor());
        Some(connection)
    }

    /// Takes a client in, under the number that is returned.
    pub(super) fn add(&mut self, connection: Connection, poller: &Poller) -> io::Result<u64> {
        let number = self.next;
        self.next += 1;
        poller.add(connection.descriptor(), number)?;
        self.connections.insert(number, connection);
        Ok(number)
    }

    /// The client that has been idle for longest; `None` when every client has a run, or a body on lease.
    pub(super) fn longest_idle(&self, has_lease: impl Fn(u64) -> bool) -> Option<u64> {
        let is_idle =
            |(number, connection): &(&u64, &Connection)| !connection.is_busy() && !has_lease(**number);
        let idle = self.connections.iter().filter(is_idle);
        idle.min_by_key(|(_, connection)| connection.last_used).map(|(&number, _)| number)
    }

    /// Sends a client something. False when the client is to be dropped.
    pub(super) fn send(&mut self, client: u64, message: &ToClient, poller: &Poller) -> bool {
        let Some(connection) = self.connections.get_mut(&client) else { return true };
        connection.send(message);
        if connection.is_hopeless(OUTBOX) {
            return false;
        }
        self.watch_outbox(client, poller);
        true
    }

    /// Looks for room in a client's socket as long as something waits to be sent.
    pub(super) fn watch_outbox(&mut self, client: u64, poller: &Poller) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        if let Some(wants) = connection.wants_changed() {
            let out = if wants { EventFlags::OUT } else { EventFlags::empty() };
            let _ = poller.change(connection.descriptor(), client, EventFlags::IN | out);
        }
    }
}
