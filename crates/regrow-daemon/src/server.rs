//! The daemon: one thread, one shard, no lock.
//!
//! ```text
//!   epoll ──┬─ listener    a new client: its user is looked at, the oldest idle one leaves where there are too many
//!           ├─ client      a message: a run, a question, an end; or it has gone: its run is killed
//!           ├─ children    SIGCHLD: which runs were stopped, go on, have ended
//!           ├─ signals     SIGTERM, SIGINT: no further runs; leave when those that are there have ended
//!           └─ lookups     a thread has looked a program up: its run is started
//! ```
//!
//! Invariants: a run belongs to one connection, which has one run at most; a run whose connection is gone is killed, and
//! stays in the table until it has been waited for. Nothing that a client sends or leaves unread stops the loop: what it
//! does not take is kept up to a number of messages, then it is dropped. The loop makes no call that a file system of somebody else's
//! answers: threads look up what a client names, and close what it sends.

mod answer;
mod arrivals;
mod clients;
mod closing;
mod connection;
mod error;
mod leases;
mod lending;
mod listener;
mod lookups;
mod options;
mod poller;
mod request;
mod runs;
mod standing;
mod starting;
mod workers;

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use regrow_engine::controller::{Control, Controller, Handle, TreeError};
use regrow_engine::log::CreationLog;
use regrow_engine::run::creation::{CallerPart, Fallback};
use regrow_engine::run::started::Change;
use regrow_sys::raw;

use crate::wire::{MAX_FDS, MAX_MESSAGE, Question, ToClient, ToDaemon};
use answer::DaemonState;
use clients::Clients;
use closing::Closer;
use connection::Received;
use error::system;
use leases::Leases;
use lookups::Lookups;
use poller::Poller;
use runs::{Runs, declined};
use standing::Domain;

pub use error::ServeError;
pub use listener::Listener;
pub use options::ServerOptions;

/// A turn of the loop that takes longer is told of.
const SLOW: Duration = Duration::from_millis(500);

/// What the loop calls the listener, the signals, what has been looked up and the ends of processes; clients have numbers from [`FIRST_CLIENT`] on.
const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const LOOKED_UP: u64 = 2;
const CHILDREN: u64 = 3;
const FIRST_CLIENT: u64 = 4;

/// The daemon.
pub struct Server {
    options: ServerOptions,
    controller: Controller,
    poller: Poller,
    listener: Listener,
    signals: OwnedFd,
    /// `SIGCHLD`.
    children: OwnedFd,
    clients: Clients,
    runs: Runs,
    leases: Leases,
    lookups: Lookups,
    closer: Closer,
    user: u32,
    /// What a client must have by the kernel's word.
    security: Domain,
    /// What a client must say that it has.
    domain: Vec<u8>,
    stopping: bool,
    /// How many runs clients of one page have got.
    once: u64,
    /// When the listener is looked at again, while there are no descriptors.
    rests_until: Option<Instant>,
    last_busy: Instant,
    buffer: Vec<u8>,
}

impl Server {
    /// A daemon that listens and has nothing yet, and notes what it creates in `log`.
    ///
    /// # Errors
    /// [`ServeError::System`].
    pub fn new(listener: Listener, options: ServerOptions, log: CreationLog) -> Result<Server, ServeError> {
        let bit = |signal: i32| 1u64 << (signal - 1);
        let (children, _) = raw::signals_as_descriptor(bit(libc::SIGCHLD)).map_err(system("signals"))?;
        let set = bit(libc::SIGTERM) | bit(libc::SIGINT) | bit(libc::SIGHUP);
        let (signals, _) = raw::signals_as_descriptor(set).map_err(system("signals"))?;
        let poller = Poller::new().map_err(system("epoll"))?;
        poller.add(&listener, LISTENER).map_err(system("epoll"))?;
        poller.add(&signals, SIGNALS).map_err(system("epoll"))?;
        poller.add(&children, CHILDREN).map_err(system("epoll"))?;
        let lookups = Lookups::new().map_err(system("an eventfd"))?;
        poller.add(lookups.bell(), LOOKED_UP).map_err(system("epoll"))?;
        let controller = Controller::new(options.pool.clone(), log);
        let domain = controller.shard().view().domain().fingerprint();
        let security = Domain::own().map_err(system("/proc/self/status"))?;
        Ok(Server {
            options,
            controller,
            poller,
            listener,
            signals,
            children,
            clients: Clients::new(FIRST_CLIENT),
            runs: Runs::default(),
            leases: Leases::default(),
            lookups,
            closer: Closer::new(),
            user: rustix::process::geteuid().as_raw(),
            security,
            domain,
            stopping: false,
            once: 0,
            rests_until: None,
            last_busy: Instant::now(),
            buffer: vec![0; MAX_MESSAGE],
        })
    }

    /// Serves until it is told to stop and the last run has ended, or until it was idle for long enough.
    ///
    /// # Errors
    /// [`ServeError::System`] when the loop itself cannot go on.
    pub fn serve(&mut self) -> Result<(), ServeError> {
        let mut events = Vec::new();
        while !self.is_done() {
            let timeout = self.timeout();
            self.poller.wait(timeout.as_ref(), &mut events).map_err(system("epoll"))?;
            let began = Instant::now();
            if events.is_empty() && self.controller.next_work().is_some_and(|next| next <= Instant::now()) {
                self.controller.work();
            }
            for &event in &events {
                match event {
                    LISTENER => self.accept(),
                    SIGNALS => self.take_signals(),
                    LOOKED_UP => self.take_looked_up(),
                    CHILDREN => self.take_ends(),
                    client => self.take_message(client),
                }
            }
            self.tell_late_starts();
            if self.stopping {
                self.decline_waiting();
            }
            self.look_after_leases();
            if self.rests_until.is_some_and(|until| until <= Instant::now()) {
                self.rests_until = None;
                self.listen(true);
            }
            let took = began.elapsed();
            if took > SLOW {
                let (events, clients) = (events.len(), self.clients.len());
                tracing::warn!(?took, events, clients, "others had to wait");
            }
            if !self.clients.is_empty() || !self.runs.is_empty() {
                self.last_busy = Instant::now();
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let quiet = self.runs.is_empty() && self.leases.is_empty();
        let idle = |limit: Duration| self.clients.is_empty() && self.last_busy.elapsed() >= limit;
        quiet && (self.stopping || self.options.idle.is_some_and(idle))
    }

    /// How long to wait for an event.
    fn timeout(&self) -> Option<rustix::event::Timespec> {
        let idle = self.options.idle.filter(|_| self.clients.is_empty() && self.runs.is_empty());
        let idle = idle.map(|idle| idle.saturating_sub(self.last_busy.elapsed()));
        let rest = self.rests_until.map(|until| until.saturating_duration_since(Instant::now()));
        let work = self.controller.next_work().map(|next| next.saturating_duration_since(Instant::now()));
        let told = self.runs.told_at().map(|at| at.saturating_duration_since(Instant::now()));
        let leases = self.leases.next_due().map(|due| due.saturating_duration_since(Instant::now()));
        let time = [idle, rest, work, told, leases].into_iter().flatten().min()?;
        // Not before the time has come: the kernel rounds up.
        rustix::event::Timespec::try_from(time).ok()
    }

    fn take_message(&mut self, client: u64) {
        let Some(connection) = self.clients.get_mut(client) else { return };
        connection.last_used = Instant::now();
        connection.flush();
        let received = match connection.receive(&mut self.buffer) {
            Ok(None) => return self.clients.watch_outbox(client, &self.poller),
            Ok(Some(received)) => received,
            Err(error) => {
                if error.kind() == io::ErrorKind::FileTooLarge {
                    let text =
                        format!("a message holds {MAX_MESSAGE} bytes and {MAX_FDS} descriptors at most");
                    self.send(client, &ToClient::Failed { text: text.into_bytes() });
                }
                tracing::debug!(%error, "a client is gone");
                return self.forget(client);
            }
        };
        match ToDaemon::from_bytes(self.buffer.get(..received.bytes).unwrap_or_default()) {
            Ok(message) => self.carry_out(client, message, received),
            Err(error) => {
                self.send(client, &ToClient::Failed { text: error.to_string().into_bytes() });
                self.forget(client);
            }
        }
    }

    fn carry_out(&mut self, client: u64, message: ToDaemon, received: Received) {
        let Some(connection) = self.clients.get_mut(client) else { return };
        if let ToDaemon::Proof(secret) = &message {
            return connection.standing.prove(self.listener.proof().is(secret));
        }
        if let ToDaemon::Once(once) = message {
            return self.run_once(client, *once, received);
        }
        if !connection.standing.is_of(&self.security) {
            return self.refuse(client, &message);
        }
        match message {
            ToDaemon::Run(message) => self.run(client, *message, received),
            ToDaemon::Lease(message) => self.lend(client, *message),
            ToDaemon::Renew(lease) => self.renew(client, lease),
            ToDaemon::Return(lease) => self.take_back(client, lease),
            ToDaemon::Ask(question) => self.answer(client, &question),
            ToDaemon::Clear => {
                self.change_pool(client, |controller, pool| controller.control(pool, Control::Drop));
            }
            ToDaemon::Budget(bytes) => {
                self.change_pool(client, |controller, pool| controller.write(pool, "budget_bytes", bytes));
            }
            ToDaemon::Stop => {
                self.stopping = true;
                self.send(client, &ToClient::Done);
            }
            ToDaemon::Proof(_) | ToDaemon::Once(_) => {}
        }
    }

    /// Refuses what a client of another security domain asks for.
    fn refuse(&mut self, client: u64, message: &ToDaemon) {
        let why = Fallback::CallerChanged { what: CallerPart::Confinement };
        let answer = match message {
            ToDaemon::Run(message) => {
                self.controller.declined(&String::from_utf8_lossy(&message.program), why.clone());
                declined(&why)
            }
            _ => ToClient::Failed {
                text: b"the client is of another security domain than the daemon".to_vec(),
            },
        };
        self.send(client, &answer);
    }

    /// Changes something of the pool, has that carried out, and tells the client.
    fn change_pool(
        &mut self,
        client: u64,
        change: impl FnOnce(&mut Controller, Handle) -> Result<(), TreeError>,
    ) {
        let done = self.controller.open("/.").and_then(|pool| {
            let done = change(&mut self.controller, pool);
            self.controller.close(pool);
            done
        });
        self.controller.revoke_leases();
        self.end_revoked();
        while self.controller.work() {}
        raw::trim_heap();
        let answer = match done {
            Ok(()) => ToClient::Done,
            Err(error) => ToClient::Failed { text: error.to_string().into_bytes() },
        };
        self.send(client, &answer);
    }

    fn answer(&mut self, client: u64, question: &Question) {
        self.take_ended();
        // The one that asks is not counted.
        let clients = self.clients.len().saturating_sub(1);
        let state = DaemonState {
            clients,
            runs: self.runs.len(),
            leases: self.leases.len(),
            stopping: self.stopping,
            once: self.once,
        };
        let text = match answer::answer(&mut self.controller, question, state) {
            Ok(text) => text.into_bytes(),
            Err(error) => {
                return self.send(client, &ToClient::Failed { text: error.to_string().into_bytes() });
            }
        };
        let mut parts = text.chunks(MAX_MESSAGE / 2).peekable();
        while let Some(part) = parts.next() {
            let message = ToClient::Answer { more: parts.peek().is_some(), text: part.to_vec() };
            self.send(client, &message);
        }
    }

    fn take_signals(&mut self) {
        let mut buffer = [0u8; 128 * 16];
        // Records of 128 bytes, of which the first four are the number.
        // Where there are more, epoll tells it again.
        let bytes = rustix::io::read(&self.signals, &mut buffer).unwrap_or(0);
        for record in buffer.get(..bytes).unwrap_or_default().chunks_exact(128) {
            let number = record.first_chunk::<4>().map_or(0, |number| i32::from_ne_bytes(*number));
            if number == libc::SIGTERM || number == libc::SIGINT || number == libc::SIGHUP {
                tracing::info!(signal = number, "the daemon was told to leave");
                self.stopping = true;
            }
        }
    }

    /// Reads that processes have ended, and tells the clients of those that are their runs.
    fn read_ends(&mut self) {
        let mut buffer = [0u8; 128];
        let _ = rustix::io::read(&self.children, &mut buffer);
        for (pid, change) in self.runs.changes() {
            self.tell(pid, change);
        }
    }

    /// Tells a client what has happened to its run.
    fn tell(&mut self, pid: i32, change: Option<Change>) {
        let Some(run) = self.runs.get(pid) else { return };
        let (client, message) = (run.client, run.message(change));
        let over = !matches!(change, Some(Change::Stopped(_) | Change::Continued));
        let run = if over { self.runs.remove(pid) } else { None };
        if let Some(connection) = client.and_then(|client| self.clients.get_mut(client)).filter(|_| over) {
            connection.run = None;
        }
        if !over && self.runs.take_untold(pid) {
            self.tell_start(pid);
        }
        // The client first: it waits.
        if let Some(client) = client {
            self.send(client, &message);
        }
        if let Some(run) = run {
            run.started.give_back();
            self.controller.ended(&run.started);
            if let Some(client) = client {
                self.close_once(client);
            }
        }
    }

    fn send(&mut self, client: u64, message: &ToClient) {
        if !self.clients.send(client, message, &self.poller) {
            self.forget(client);
        }
    }

    /// Drops the client that has been idle for longest. False when there is none.
    fn drop_longest_idle(&mut self) -> bool {
        let longest = self.clients.longest_idle(|client| self.leases.has(client));
        longest.is_some_and(|client| {
            self.forget(client);
            true
        })
    }

    /// A client is gone: so is its run.
    fn forget(&mut self, client: u64) {
        self.lookups.forget(client);
        self.end_leases_of(client);
        let connection = self.clients.remove(client, &self.poller);
        if let Some(pid) = connection.and_then(|connection| connection.run) {
            self.runs.abandon(pid);
        }
    }
}
