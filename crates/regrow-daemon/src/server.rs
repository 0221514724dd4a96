//! The daemon: one thread, one shard, no lock.
//!
//! ```text
//!   epoll ──┬─ listener    a new client: its user is looked at, the oldest idle one leaves where there are too many
//!           ├─ client      a message: a run, a question, an end; or it has gone: its run is killed
//!           └─ signals     SIGCHLD: which runs were stopped, go on, have ended
//!                          SIGTERM, SIGINT: no further runs; leave when those that are there have ended
//! ```
//!
//! Invariants: a run belongs to one connection, which has one run at most; a run whose connection is gone is killed, and
//! stays in the table until it has been waited for. Nothing that a client sends or leaves unread stops the loop: what it
//! does not take is kept up to a number of messages, then it is dropped.

mod answer;
mod clients;
mod connection;
mod error;
mod listener;
mod options;
mod poller;
mod request;
mod runs;

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use regrow_engine::controller::{Control, Controller, Handle, TreeError};
use regrow_engine::log::CreationLog;
use regrow_engine::run::creation::{CallerPart, Fallback};
use regrow_engine::run::started::{Change, Started};
use regrow_sys::raw;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::wire::{MAX_FDS, MAX_MESSAGE, Question, SpawnMessage, ToClient, ToDaemon};
use answer::DaemonState;
use clients::Clients;
use connection::{Connection, Received};
use error::system;
use poller::Poller;
use runs::{Runs, declined};

pub use error::ServeError;
pub use listener::Listener;
pub use options::ServerOptions;

/// A turn of the loop that takes longer is told of.
const SLOW: Duration = Duration::from_millis(500);
/// How long the listener rests when there are no descriptors for a further client.
const REST: Duration = Duration::from_millis(100);

/// What the loop calls the listener and the signals; clients have numbers from [`FIRST_CLIENT`] on.
const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const FIRST_CLIENT: u64 = 2;

/// The daemon.
pub struct Server {
    options: ServerOptions,
    controller: Controller,
    poller: Poller,
    listener: Listener,
    signals: OwnedFd,
    clients: Clients,
    runs: Runs,
    user: u32,
    /// What the domain of a client must be.
    domain: Vec<u8>,
    stopping: bool,
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
        let set = bit(libc::SIGCHLD) | bit(libc::SIGTERM) | bit(libc::SIGINT) | bit(libc::SIGHUP);
        let (signals, _) = raw::signals_as_descriptor(set).map_err(system("signals"))?;
        let poller = Poller::new().map_err(system("epoll"))?;
        poller.add(&listener, LISTENER).map_err(system("epoll"))?;
        poller.add(&signals, SIGNALS).map_err(system("epoll"))?;
        let controller = Controller::new(options.pool.clone(), log);
        let domain = controller.shard().view().domain().fingerprint();
        Ok(Server {
            options,
            controller,
            poller,
            listener,
            signals,
            clients: Clients::new(FIRST_CLIENT),
            runs: Runs::default(),
            user: rustix::process::geteuid().as_raw(),
            domain,
            stopping: false,
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
                    client => self.take_message(client),
                }
            }
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
        let quiet = self.runs.is_empty();
        let idle = |limit: Duration| self.clients.is_empty() && self.last_busy.elapsed() >= limit;
        quiet && (self.stopping || self.options.idle.is_some_and(idle))
    }

    /// How long to wait for an event.
    fn timeout(&self) -> Option<rustix::event::Timespec> {
        let idle = self.options.idle.filter(|_| self.clients.is_empty() && self.runs.is_empty());
        let idle = idle.map(|idle| idle.saturating_sub(self.last_busy.elapsed()));
        let rest = self.rests_until.map(|until| until.saturating_duration_since(Instant::now()));
        let work = self.controller.next_work().map(|next| next.saturating_duration_since(Instant::now()));
        let time = [idle, rest, work].into_iter().flatten().min()?;
        // Not before the time has come: the kernel rounds up.
        rustix::event::Timespec::try_from(time).ok()
    }

    /// Has new clients wait, or takes them again.
    fn listen(&self, on: bool) {
        let events = if on { EventFlags::IN } else { EventFlags::empty() };
        if let Err(error) = self.poller.change(&self.listener, LISTENER, events) {
            tracing::error!(%error, "the listener is not looked at any more");
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match rustix::net::accept_with(&self.listener, flags) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => return self.make_room(),
            // The client has left again.
            Err(_) => return,
        };
        let mut connection = Connection::new(socket);
        match connection.user() {
            Some(user) if user == self.user => {}
            user => {
                tracing::warn!(?user, "a client of another user is refused");
                connection.send(&ToClient::Failed { text: b"the daemon is another user's".to_vec() });
                return;
            }
        }
        if self.clients.len() >= self.options.max_clients && !self.clients.drop_longest_idle() {
            connection
                .send(&ToClient::Failed { text: b"the daemon has as many clients as it may have".to_vec() });
            return;
        }
        if let Err(error) = self.clients.add(connection, &self.poller) {
            tracing::warn!(%error, "a client is turned away");
        }
    }

    /// There are no descriptors for a further client: who says nothing leaves, or what is kept and used least; the next
    /// turn tries again. Where that does not help, clients wait a little.
    fn make_room(&mut self) {
        if !self.clients.drop_longest_idle() && !self.controller.give_back() {
            self.listen(false);
            self.rests_until = Some(Instant::now() + REST);
        }
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
        match message {
            ToDaemon::Run(message) => self.run(client, *message, received),
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
        }
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
        while self.controller.work() {}
        raw::trim_heap();
        let answer = match done {
            Ok(()) => ToClient::Done,
            Err(error) => ToClient::Failed { text: error.to_string().into_bytes() },
        };
        self.send(client, &answer);
    }

    fn answer(&mut self, client: u64, question: &Question) {
        // The one that asks is not counted.
        let clients = self.clients.len().saturating_sub(1);
        let state = DaemonState { clients, runs: self.runs.len(), stopping: self.stopping };
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

    /// Starts a run, or says why the client is to do it.
    fn run(&mut self, client: u64, message: SpawnMessage, received: Received) {
        if self.clients.get_mut(client).is_none_or(|connection| connection.run.is_some()) {
            self.send(client, &ToClient::Failed { text: b"a run is under way on this connection".to_vec() });
            return self.forget(client);
        }
        let program = String::from_utf8_lossy(&message.program).into_owned();
        let end_only = message.end_only;
        let started = match self.start(message, received) {
            Ok(started) => started,
            Err(why) => {
                if let Fallback::CallerChanged { .. } = why {
                    self.domain = self.controller.shard().view().domain().fingerprint();
                }
                let message = declined(&why);
                self.controller.declined(&program, why);
                return self.send(client, &message);
            }
        };
        let pid = started.pid;
        if let Some(connection) = self.clients.get_mut(client) {
            connection.run = Some(pid);
            if !end_only {
                let how = started.creation.how().as_bytes().to_vec();
                // Without one the client cannot pass on signals; the run goes on all the same.
                let pidfd = started.pidfd().and_then(|pidfd| pidfd.try_clone_to_owned()).ok();
                connection.send_with(&ToClient::Started { pid, how }, pidfd);
            }
        }
        self.runs.add(started, client);
    }

    /// Starts a run, once its ticket is taken.
    fn start(&mut self, message: SpawnMessage, received: Received) -> Result<Started, Fallback> {
        self.admit(&message)?;
        let (request, ticket) = request::request(message, received.descriptors)?;
        if !ticket.take() {
            // A client that has taken it back does not wait any more.
            return Err(Fallback::UnsupportedRequest);
        }
        self.controller.create(&request)
    }

    /// Whether a run may be started at all for this client.
    fn admit(&self, message: &SpawnMessage) -> Result<(), Fallback> {
        if self.stopping {
            return Err(Fallback::RecyclingOff);
        }
        if self.runs.len() >= self.options.max_runs {
            return Err(Fallback::AllBusy);
        }
        if message.domain != self.domain {
            return Err(Fallback::CallerChanged { what: CallerPart::Credentials });
        }
        if !self.options.any_cgroup && message.cgroup != self.controller.shard().view().domain().cgroup {
            return Err(Fallback::CallerChanged { what: CallerPart::Cgroup });
        }
        Ok(())
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
        // The client first: it waits.
        if let Some(client) = client {
            self.send(client, &message);
        }
        if let Some(run) = run {
            run.started.give_back();
            self.controller.ended(&run.started);
        }
    }

    fn send(&mut self, client: u64, message: &ToClient) {
        if !self.clients.send(client, message, &self.poller) {
            self.forget(client);
        }
    }

    /// A client is gone: so is its run.
    fn forget(&mut self, client: u64) {
        if let Some(pid) = self.clients.remove(client).and_then(|connection| connection.run) {
            self.runs.abandon(pid);
        }
    }
}
