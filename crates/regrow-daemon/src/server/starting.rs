//! A run, from the message that asks for it to its start.
//!
//! ```text
//!   message ──admit──> order ──name remembered?── no ──> a thread looks the program up ──┐
//!      │                 └──────────────────── yes ──> ticket ──> start <────────────────┘
//!      └───> declined: the client executes the program itself
//! ```

use regrow_engine::run::creation::{CallerPart, Fallback, RequestPart};
use regrow_engine::run::lookup::Lookup;

use super::Server;
use super::connection::Received;
use super::lookups::{LookedUp, RunOrder};
use super::request;
use super::runs::declined;
use crate::wire::{SpawnMessage, ToClient};

impl Server {
    /// Starts a run, or says why the client is to do it.
    pub(super) fn run(&mut self, client: u64, message: SpawnMessage, received: Received) {
        if self.clients.get_mut(client).is_none_or(|connection| connection.is_busy()) {
            self.send(client, &ToClient::Failed { text: b"a run is under way on this connection".to_vec() });
            return self.forget(client);
        }
        let program = String::from_utf8_lossy(&message.program).into_owned();
        let end_only = message.end_only;
        let held = received.held;
        let request = self.admit(&message).and_then(|()| request::request(message, &held.descriptors));
        match request {
            Ok((request, ticket)) => {
                let lookup = self.controller.lookup(&request);
                let order = RunOrder { program, end_only, request, ticket, _held: held };
                match lookup {
                    None => self.start(client, &order),
                    Some(lookup) => self.look_up(client, order, lookup),
                }
            }
            Err(why) => self.decline(client, &program, why),
        }
    }

    /// Whether a run may be started at all for this client.
    fn admit(&self, message: &SpawnMessage) -> Result<(), Fallback> {
        if self.stopping {
            return Err(Fallback::RecyclingOff);
        }
        if self.runs.len() + self.lookups.len() >= self.options.max_runs {
            return Err(Fallback::AllBusy);
        }
        if self.closer.is_behind() {
            return Err(Fallback::NoDescriptors);
        }
        if message.domain != self.domain {
            return Err(Fallback::CallerChanged { what: CallerPart::Credentials });
        }
        if !self.options.any_cgroup && message.cgroup != self.controller.shard().view().domain().cgroup {
            return Err(Fallback::CallerChanged { what: CallerPart::Cgroup });
        }
        Ok(())
    }

    /// Has a thread look the program up first.
    fn look_up(&mut self, client: u64, order: RunOrder, lookup: Lookup) {
        match self.lookups.begin(client, order, lookup) {
            Ok(()) => {
                if let Some(connection) = self.clients.get_mut(client) {
                    connection.is_starting = true;
                }
            }
            Err(order) => self.decline(client, &order.program, Fallback::AllBusy),
        }
    }

    /// Goes on with the runs whose programs have been looked up.
    pub(super) fn take_looked_up(&mut self) {
        for LookedUp { client, mut order, found } in self.lookups.done() {
            if let Some(connection) = self.clients.get_mut(client) {
                connection.is_starting = false;
            }
            order.request.looked_up = true;
            match found {
                Ok(()) => self.start(client, &order),
                Err(why) => self.decline(client, &order.program, why),
            }
        }
    }

    /// Declines the runs that wait: the daemon is about to leave.
    pub(super) fn decline_waiting(&mut self) {
        for (client, order) in self.lookups.give_up() {
            if let Some(connection) = self.clients.get_mut(client) {
                connection.is_starting = false;
            }
            self.decline(client, &order.program, Fallback::RecyclingOff);
        }
    }

    /// Starts a run, once its ticket is taken, and tells its client.
    fn start(&mut self, client: u64, order: &RunOrder) {
        // A client that has taken it back does not wait any more.
        let taken_back = Fallback::UnsupportedRequest { what: RequestPart::TakenBack };
        let taken = if order.ticket.take() { Ok(()) } else { Err(taken_back) };
        let started = match taken.and_then(|()| self.controller.create(&order.request)) {
            Ok(started) => started,
            Err(why) => return self.decline(client, &order.program, why),
        };
        let pid = started.pid;
        if let Some(connection) = self.clients.get_mut(client) {
            connection.run = Some(pid);
            if !order.end_only {
                let how = started.creation.how().as_bytes().to_vec();
                // Without one the client cannot pass on signals; the run goes on all the same.
                let pidfd = started.pidfd().and_then(|pidfd| pidfd.try_clone_to_owned()).ok();
                let not_loaded = started.not_loaded.clone().unwrap_or_default().into_bytes();
                connection.send_with(&ToClient::Started { pid, how, not_loaded }, pidfd);
            }
        }
        self.runs.add(started, client);
    }

    /// Has a client execute its program itself.
    pub(super) fn decline(&mut self, client: u64, program: &str, why: Fallback) {
        if let Fallback::CallerChanged { .. } = why {
            self.domain = self.controller.shard().view().domain().fingerprint();
        }
        let message = declined(&why);
        self.controller.declined(program, why);
        self.send(client, &message);
    }
}
