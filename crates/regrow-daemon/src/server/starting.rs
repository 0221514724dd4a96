//! A run, from the message that asks for it to its start.
//!
//! ```text
//!   message ──admit──> order ──name remembered?── no ──> a thread looks the program up ──┐
//!      │                 └──────────────────── yes ──> ticket ──> start <────────────────┘
//!      └───> declined: the client executes the program itself
//! ```

use std::time::{Duration, Instant};

use regrow_engine::run::creation::{CallerPart, Fallback, RequestPart};
use regrow_engine::run::lookup::Lookup;

use super::Server;
use super::connection::Received;
use super::lookups::{LookedUp, RunOrder, Told};
use super::request;
use super::runs::{ClientRun, declined};
use crate::wire::{OnceMessage, SpawnMessage, ToClient};

/// When the client of a connection for one run is told of its start.
const TOLD_AFTER: Duration = Duration::from_millis(2);

impl Server {
    /// Starts a run, or says why the client is to do it.
    pub(super) fn run(&mut self, client: u64, message: SpawnMessage, received: Received) {
        let told = if message.end_only { Told::Never } else { Told::AtOnce };
        let admitted = self.is_like_us(&message);
        self.ask_for(client, message, received, told, admitted);
    }

    /// Starts a run of a client without a libc. What that does not say the kernel does.
    pub(super) fn run_once(&mut self, client: u64, once: OnceMessage, received: Received) {
        let OnceMessage { secret, said, stays, run: mut message } = once;
        let Some(connection) = self.clients.get_mut(client) else { return };
        connection.is_once = !stays;
        connection.standing.prove(self.listener.proof().is(&secret));
        let own = self.controller.shard().view().domain();
        let cgroup = (!self.options.any_cgroup).then_some(own.cgroup.as_slice());
        let ignored = connection.standing.ignored_signals(&self.security, cgroup);
        let admitted = ignored.and_then(|ignored| {
            if message.task.ignored_signals().is_none() {
                message.task.set_ignored_signals(ignored);
            }
            if said == own.said() { Ok(()) } else { Err(CallerPart::Scheduling) }
        });
        let admitted = admitted.map_err(|what| Fallback::CallerChanged { what });
        self.ask_for(client, message, received, Told::Late, admitted);
    }

    fn ask_for(
        &mut self,
        client: u64,
        message: SpawnMessage,
        received: Received,
        told: Told,
        admitted: Result<(), Fallback>,
    ) {
        if self.clients.get_mut(client).is_none_or(|connection| connection.is_busy()) {
            self.send(client, &ToClient::Failed { text: b"a run is under way on this connection".to_vec() });
            return self.forget(client);
        }
        let program = String::from_utf8_lossy(&message.program).into_owned();
        let held = received.held;
        let admitted = admitted.and_then(|()| self.admit());
        let request = admitted.and_then(|()| request::request(message, &held.descriptors));
        match request {
            Ok((request, ticket)) => {
                let lookup = self.controller.lookup(&request);
                let order = RunOrder { program, told, request, ticket, _held: held };
                match lookup {
                    None => self.start(client, &order),
                    Some(lookup) => self.look_up(client, order, lookup),
                }
            }
            Err(why) => self.decline(client, &program, why),
        }
    }

    /// Whether a run may be started at all.
    pub(super) fn admit(&self) -> Result<(), Fallback> {
        if self.stopping {
            return Err(Fallback::RecyclingOff);
        }
        if self.runs.len() + self.lookups.len() >= self.options.max_runs {
            return Err(Fallback::AllBusy);
        }
        if self.closer.is_behind() {
            return Err(Fallback::NoDescriptors);
        }
        Ok(())
    }

    /// Whether a client says of itself what the daemon is.
    pub(super) fn is_like_us(&self, message: &SpawnMessage) -> Result<(), Fallback> {
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
        }
        self.once += u64::from(order.told == Told::Late);
        let told_at = (order.told == Told::Late).then(|| Instant::now() + TOLD_AFTER);
        self.listen_to_ends();
        self.runs.add(ClientRun { started, client: Some(client), told_at });
        if order.told == Told::AtOnce {
            self.tell_start(pid);
        }
    }

    /// Tells a client that its run has started.
    pub(super) fn tell_start(&mut self, pid: i32) {
        let Some(run) = self.runs.get(pid) else { return };
        if let Some(connection) = run.client.and_then(|client| self.clients.get_mut(client)) {
            let (message, pidfd) = run.start();
            connection.send_with(&message, pidfd.into_iter().collect());
        }
    }

    /// Tells the clients of runs that take longer than most.
    pub(super) fn tell_late_starts(&mut self) {
        for pid in self.runs.take_due(Instant::now()) {
            self.tell_start(pid);
        }
    }

    /// Has a client execute its program itself.
    pub(super) fn decline(&mut self, client: u64, program: &str, why: Fallback) {
        if let Fallback::CallerChanged { .. } = why {
            self.domain = self.controller.shard().view().domain().fingerprint();
        }
        let message = declined(&why);
        self.controller.declined(program, why);
        self.send(client, &message);
        self.close_once(client);
    }

    /// Closes a connection that was for one run, which is over.
    pub(super) fn close_once(&mut self, client: u64) {
        if self.clients.get_mut(client).is_some_and(|connection| connection.is_once) {
            self.forget(client);
        }
    }
}
