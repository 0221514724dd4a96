//! The daemon: one thread, one shard, no lock.
//!
//! ```text
//!   epoll ──┬─ listener    a new client: its user is looked at, the oldest idle one leaves where there are too many
//!           ├─ client      a message: an order, a question, an end; or it has gone: its run is killed
//!           └─ signals     SIGCHLD: which runs were stopped, go on, have ended
//!                          SIGTERM, SIGINT: no further runs; leave when those that are there have ended
//! ```
//!
//! Invariants: a run belongs to one connection, which has one run at most; a run whose connection is gone is killed, and
//! stays in the table until it has been waited for. Nothing that a client sends or leaves unread stops the loop: what it
//! does not take is kept up to a number of messages, then it is dropped.

mod answer;
mod connection;
mod order;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use regrow_engine::controller::{Control, Controller, Handle, TreeError};
use regrow_engine::creation::Fallback;
use regrow_engine::log::CreationLog;
use regrow_engine::settings::Settings;
use regrow_engine::started::{Change, Started};
use regrow_sys::raw;
use rustix::event::epoll;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::place::Place;
use crate::wire::{MAX_FDS, MAX_MESSAGE, Question, ToClient, ToDaemon};
use answer::Own;
use connection::{Connection, Received};

/// Most messages that wait for a client that does not read.
const OUTBOX: usize = 16;
/// Clients that may wait to be accepted.
const BACKLOG: i32 = 256;
/// Events that are taken at once.
const EVENTS: usize = 64;
/// A turn of the loop that takes longer is told of.
const SLOW: Duration = Duration::from_millis(500);
/// How long the listener rests when there are no descriptors for a further client.
const REST: Duration = Duration::from_millis(100);

/// What epoll calls the listener and the signals; clients have numbers from [`FIRST_CLIENT`] on.
const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const FIRST_CLIENT: u64 = 2;

/// How a daemon works.
#[derive(Debug, Clone)]
pub struct Options {
    /// The pool's settings.
    pub pool: Settings,
    /// Most clients at a time.
    pub max_clients: usize,
    /// Most runs at a time; a client that orders one more is to execute the program itself.
    pub max_runs: usize,
    /// How long the daemon stays without a client; `None` for ever.
    pub idle: Option<Duration>,
    /// Serve clients of other control groups too: their runs are accounted to the daemon's.
    pub any_cgroup: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pool: Settings { shells: false, ..Settings::default() },
            max_clients: 512,
            max_runs: 128,
            idle: Some(Duration::from_secs(600)),
            any_cgroup: false,
        }
    }
}

/// Why a daemon does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another one serves this place.
    #[error("{}: a daemon is there already", path.display())]
    AlreadyThere {
        /// The file that it holds locked.
        path: std::path::PathBuf,
    },
    /// A step of its start, or its loop, failed.
    #[error("{what}: {source}")]
    System {
        /// What failed.
        what: String,
        /// Why.
        source: io::Error,
    },
}

fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> ServeError {
    move |source| ServeError::System { what: what.into(), source: source.into() }
}

/// Where a daemon listens.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// What is removed and unlocked at the end; nothing when somebody else made the socket.
    own: Option<(Place, OwnedFd)>,
}

impl Listener {
    /// Takes a place and listens there.
    ///
    /// # Errors
    /// [`ServeError::AlreadyThere`]: of two daemons that start at once, one gets this.
    pub fn bind(place: &Place) -> Result<Listener, ServeError> {
        use rustix::fs::{Mode, OFlags};
        let path = place.lock();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)
            .map_err(system(path.display().to_string()))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(ServeError::AlreadyThere { path }),
            Err(error) => return Err(system(path.display().to_string())(error)),
        }
        let path = place.socket();
        // Whoever holds the lock may remove what a daemon that was killed has left.
        let _ = std::fs::remove_file(&path);
        let named = |error: Errno| system(path.display().to_string())(error);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(named)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).map_err(named)?).map_err(named)?;
        rustix::net::listen(&socket, BACKLOG).map_err(named)?;
        Ok(Listener { socket, own: Some((place.clone(), lock)) })
    }

    /// A listening socket that a service manager has made.
    ///
    /// # Errors
    /// When it cannot be set to not block.
    pub fn given(socket: OwnedFd) -> Result<Listener, ServeError> {
        rustix::io::ioctl_fionbio(&socket, true).map_err(system("the socket that was passed"))?;
        Ok(Listener { socket, own: None })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((place, _lock)) = &self.own {
            let _ = std::fs::remove_file(place.socket());
        }
    }
}

/// A run, and the connection that ordered it.
#[derive(Debug)]
struct Run {
    started: Started,
    client: Option<u64>,
}

/// The daemon.
pub struct Server {
    options: Options,
    controller: Controller,
    epoll: OwnedFd,
    listener: Listener,
    signals: OwnedFd,
    clients: HashMap<u64, Connection>,
    runs: HashMap<i32, Run>,
    next: u64,
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
    pub fn new(listener: Listener, options: Options, log: CreationLog) -> Result<Server, ServeError> {
        let bit = |signal: i32| 1u64 << (signal - 1);
        let set = bit(libc::SIGCHLD) | bit(libc::SIGTERM) | bit(libc::SIGINT) | bit(libc::SIGHUP);
        let (signals, _) = raw::signals_as_descriptor(set).map_err(system("signals"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll"))?;
        for (descriptor, name) in [(listener.socket.as_fd(), LISTENER), (signals.as_fd(), SIGNALS)] {
            let data = epoll::EventData::new_u64(name);
            epoll::add(&epoll, descriptor, data, epoll::EventFlags::IN).map_err(system("epoll"))?;
        }
        let controller = Controller::new(options.pool.clone(), log);
        let domain = controller.shard().domain().fingerprint();
        Ok(Server {
            options,
            controller,
            epoll,
            listener,
            signals,
            clients: HashMap::new(),
            runs: HashMap::new(),
            next: FIRST_CLIENT,
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
        let mut events = Vec::with_capacity(EVENTS);
        while !self.is_done() {
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(system("epoll")(error)),
            }
            let began = Instant::now();
            if events.is_empty() && self.controller.next_work().is_some_and(|next| next <= Instant::now()) {
                self.controller.work();
            }
            for event in &events {
                match event.data.u64() {
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
                tracing::warn!(
                    ?took,
                    events = events.len(),
                    clients = self.clients.len(),
                    "others had to wait"
                );
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
        let flags = if on { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        let data = epoll::EventData::new_u64(LISTENER);
        if let Err(error) = epoll::modify(&self.epoll, &self.listener.socket, data, flags) {
            tracing::error!(%error, "the listener is not looked at any more");
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match rustix::net::accept_with(&self.listener.socket, flags) {
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
        if self.clients.len() >= self.options.max_clients && !self.drop_longest_idle() {
            connection
                .send(&ToClient::Failed { text: b"the daemon has as many clients as it may have".to_vec() });
            return;
        }
        let name = self.next;
        self.next += 1;
        let data = epoll::EventData::new_u64(name);
        match epoll::add(&self.epoll, connection.descriptor(), data, epoll::EventFlags::IN) {
            Ok(()) => drop(self.clients.insert(name, connection)),
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

    /// Makes room for a client. False when every client has a run.
    fn drop_longest_idle(&mut self) -> bool {
        let idle = self.clients.iter().filter(|(_, client)| client.run.is_none());
        let longest = idle.min_by_key(|(_, client)| client.last_used).map(|(&name, _)| name);
        longest.is_some_and(|name| self.clients.remove(&name).is_some())
    }

    fn take_message(&mut self, name: u64) {
        let Some(connection) = self.clients.get_mut(&name) else { return };
        connection.last_used = Instant::now();
        connection.flush();
        let received = match connection.receive(&mut self.buffer) {
            Ok(None) => return self.watch_outbox(name),
            Ok(Some(received)) => received,
            Err(error) => {
                if error.kind() == io::ErrorKind::FileTooLarge {
                    let text =
                        format!("a message holds {MAX_MESSAGE} bytes and {MAX_FDS} descriptors at most");
                    self.send(name, &ToClient::Failed { text: text.into_bytes() });
                }
                tracing::debug!(%error, "a client is gone");
                return self.forget(name);
            }
        };
        match ToDaemon::from_bytes(self.buffer.get(..received.bytes).unwrap_or_default()) {
            Ok(message) => self.carry_out(name, message, received),
            Err(error) => {
                self.send(name, &ToClient::Failed { text: error.to_string().into_bytes() });
                self.forget(name);
            }
        }
    }

    fn carry_out(&mut self, name: u64, message: ToDaemon, received: Received) {
        match message {
            ToDaemon::Run(order) => self.run(name, *order, received),
            ToDaemon::Ask(question) => self.answer(name, &question),
            ToDaemon::Clear => {
                self.change_pool(name, |controller, pool| controller.control(pool, Control::Drop));
            }
            ToDaemon::Budget(bytes) => {
                self.change_pool(name, |controller, pool| controller.write(pool, "budget_bytes", bytes));
            }
            ToDaemon::Stop => {
                self.stopping = true;
                self.send(name, &ToClient::Done);
            }
        }
    }

    /// Changes something of the pool, has that carried out, and tells the client.
    fn change_pool(
        &mut self,
        name: u64,
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
        self.send(name, &answer);
    }

    fn answer(&mut self, name: u64, question: &Question) {
        // The one that asks is not counted.
        let clients = self.clients.len().saturating_sub(1);
        let own = Own { clients, runs: self.runs.len(), stopping: self.stopping };
        let text = match answer::answer(&mut self.controller, question, own) {
            Ok(text) => text.into_bytes(),
            Err(error) => {
                return self.send(name, &ToClient::Failed { text: error.to_string().into_bytes() });
            }
        };
        let mut parts = text.chunks(MAX_MESSAGE / 2).peekable();
        while let Some(part) = parts.next() {
            let message = ToClient::Answer { more: parts.peek().is_some(), text: part.to_vec() };
            self.send(name, &message);
        }
    }

    /// Starts a run, or says why the client is to do it.
    fn run(&mut self, name: u64, order: crate::wire::Order, received: Received) {
        if self.clients.get(&name).is_none_or(|client| client.run.is_some()) {
            self.send(name, &ToClient::Failed { text: b"a run is under way on this connection".to_vec() });
            return self.forget(name);
        }
        let program = String::from_utf8_lossy(&order.program).into_owned();
        let end_only = order.end_only;
        let started = self.admit(&order).and_then(|()| {
            let (request, bequest, ticket) = order::request(order, received.descriptors)?;
            if !crate::client::take_ticket(ticket.as_fd()) {
                // A client that has taken it back does not wait any more.
                return Err(Fallback::UnsupportedRequest);
            }
            self.controller.create(&request, &bequest)
        });
        let started = match started {
            Ok(started) => started,
            Err(why) => {
                if let Fallback::CallerChanged { .. } = why {
                    self.domain = self.controller.shard().domain().fingerprint();
                }
                let declined = ToClient::Declined {
                    reason: why.name().as_bytes().to_vec(),
                    detail: why.to_string().into_bytes(),
                };
                self.controller.declined(&program, why);
                return self.send(name, &declined);
            }
        };
        let pid = started.pid;
        if let Some(client) = self.clients.get_mut(&name) {
            client.run = Some(pid);
            if !end_only {
                let how = started.creation.how().as_bytes().to_vec();
                // Without one the client cannot pass on signals; the run goes on all the same.
                let pidfd = started.pidfd().and_then(|pidfd| pidfd.try_clone_to_owned()).ok();
                client.send_with(&ToClient::Started { pid, how }, pidfd);
            }
        }
        self.runs.insert(pid, Run { started, client: Some(name) });
    }

    /// Whether a run may be started at all for this client.
    fn admit(&self, order: &crate::wire::Order) -> Result<(), Fallback> {
        use regrow_engine::creation::CallerPart;
        if self.stopping {
            return Err(Fallback::RecyclingOff);
        }
        if self.runs.len() >= self.options.max_runs {
            return Err(Fallback::AllBusy);
        }
        if order.domain != self.domain {
            return Err(Fallback::CallerChanged { what: CallerPart::Credentials });
        }
        if !self.options.any_cgroup && order.cgroup != self.controller.shard().domain().cgroup {
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
        self.look_at_runs();
    }

    /// Tells the clients what has happened to their runs.
    fn look_at_runs(&mut self) {
        let mut news = Vec::new();
        for (&pid, run) in &self.runs {
            match run.started.try_change() {
                Ok(None) => {}
                Ok(Some(change)) => news.push((pid, Some(change))),
                Err(error) => {
                    tracing::error!(pid, %error, "the end of a run cannot be seen");
                    news.push((pid, None));
                }
            }
        }
        for (pid, change) in news {
            self.tell(pid, change);
        }
    }

    fn tell(&mut self, pid: i32, change: Option<Change>) {
        let client = self.runs.get(&pid).and_then(|run| run.client);
        let message = match change {
            Some(Change::Stopped(signal)) => ToClient::Stopped { signal },
            Some(Change::Continued) => ToClient::Continued,
            Some(Change::Ended(status)) => self.ended(pid, status),
            None => ToClient::Failed { text: b"the end of the run cannot be seen".to_vec() },
        };
        let over = !matches!(change, Some(Change::Stopped(_) | Change::Continued));
        let run = if over { self.runs.remove(&pid) } else { None };
        if let Some(client) = client.and_then(|name| self.clients.get_mut(&name)).filter(|_| over) {
            client.run = None;
        }
        // The client first: it waits.
        if let Some(name) = client {
            self.send(name, &message);
        }
        if let Some(run) = run {
            run.started.give_back();
            self.controller.ended(&run.started);
        }
    }

    /// A start that was refused inside the body is the client's to carry out.
    fn ended(&self, pid: i32, status: std::process::ExitStatus) -> ToClient {
        if self.runs.get(&pid).is_some_and(|run| run.started.was_refused()) {
            let why = Fallback::UnsupportedRequest;
            return ToClient::Declined {
                reason: why.name().as_bytes().to_vec(),
                detail: why.to_string().into_bytes(),
            };
        }
        ToClient::Ended { status: status.into_raw() }
    }

    fn send(&mut self, name: u64, message: &ToClient) {
        if let Some(client) = self.clients.get_mut(&name) {
            client.send(message);
            if client.is_hopeless(OUTBOX) {
                self.forget(name);
            } else {
                self.watch_outbox(name);
            }
        }
    }

    /// Looks for room in the socket as long as something waits to be sent.
    fn watch_outbox(&mut self, name: u64) {
        let Some(client) = self.clients.get_mut(&name) else { return };
        if let Some(wants) = client.wants_changed() {
            let out = if wants { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(name);
            let _ = epoll::modify(&self.epoll, client.descriptor(), data, epoll::EventFlags::IN | out);
        }
    }

    /// A client is gone: so is its run.
    fn forget(&mut self, name: u64) {
        let Some(client) = self.clients.remove(&name) else { return };
        if let Some(run) = client.run.and_then(|pid| self.runs.get_mut(&pid)) {
            run.client = None;
            let _ = run.started.kill();
        }
    }
}
