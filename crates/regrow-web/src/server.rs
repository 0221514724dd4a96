//! Listens, hands out connections, and stops.
//!
//! ```text
//!  one thread:  listeners ──> a task for each connection
//!               reaper: processes that have ended        signals: SIGTERM, SIGINT stop; SIGHUP reloads
//! ```

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::net::sockopt::set_tcp_nodelay;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::runtime::LocalOptions;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use crate::error::WebError;
use crate::function::Lock;
use crate::gateway::Gateway;
use crate::metrics;
use crate::orphans::Orphans;
use crate::settings::{Content, FastCgiAddress, Settings};
use crate::{fastcgi, http};

/// How long a listener that cannot accept (there are no descriptors) waits.
const PAUSE: Duration = Duration::from_millis(50);
/// How often it is looked what scripts have left behind.
const SWEEP: Duration = Duration::from_millis(250);
/// How many scripts of a folder are prepared before they are asked for.
const MAX_PREPARED: usize = 64;
/// The longest request for the metrics.
const MAX_ASKED_BYTES: u64 = 8192;

/// Serves until it is told to stop by a signal. `listening` is told each address, once it is listened at.
///
/// # Errors
///
/// When an address cannot be listened at, or a file or folder of the settings cannot be used.
pub fn serve(settings: Settings, listening: impl FnMut(&str)) -> Result<(), WebError> {
    if settings.http.is_empty() && settings.fastcgi.is_empty() {
        return Err(WebError::Setting("there is no address to serve at"));
    }
    if matches!(settings.content, Content::Function(_)) && !settings.fastcgi.is_empty() {
        return Err(WebError::Setting("functions are served by HTTP, not by FastCGI"));
    }
    let cannot = |what| move |source| WebError::System { what, source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(cannot("the event loop cannot be made"))?;
    runtime.block_on(run(settings, listening))
}

async fn run(settings: Settings, mut listening: impl FnMut(&str)) -> Result<(), WebError> {
    // All handlers are there before anything is prepared: which signals are ignored belongs to an image.
    let signals = Signals::new()?;
    let (gateway, mut endings) = Gateway::new(settings)?;
    let orphans = Orphans::take_over(gateway.under_way.clone(), gateway.pool.clone())
        .map_err(|source| WebError::System { what: "what scripts leave cannot be taken over", source })?;
    let orphans = Rc::new(RefCell::new(orphans));
    let may_be_left = Rc::new(Cell::new(false));
    tokio::task::spawn_local(sweep(Rc::clone(&gateway), Rc::clone(&orphans), Rc::clone(&may_be_left)));
    prepare(&gateway);
    let server =
        Server { gateway: Rc::clone(&gateway), open: Rc::default(), stop: watch::Sender::new(false) };
    let paths = server.listen(&mut listening).await?;
    let lock = Lock::new(&gateway)?;
    let reaped_for = Rc::clone(&gateway);
    tokio::task::spawn_local(async move {
        while let Some(ending) = endings.recv().await {
            let (may_be_left, gateway) = (Rc::clone(&may_be_left), Rc::clone(&reaped_for));
            tokio::task::spawn_local(async move {
                ending.reap().await;
                may_be_left.set(true);
                gateway.spare.fill();
            });
        }
    });
    signals.await_stop(&gateway).await;
    drop(lock);
    paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
    let _ = server.stop.send(true);
    stop(&gateway, &server.open, &orphans).await;
    Ok(())
}

/// Waits for what is under way, and leaves nothing.
async fn stop(gateway: &Gateway, open: &Cell<usize>, orphans: &RefCell<Orphans>) {
    // Listeners end first, so nothing comes that was not there.
    let done = async {
        while open.get() > 0 || !gateway.under_way.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    if timeout(gateway.settings.limits.grace, done).await.is_err() {
        tracing::warn!(connections = open.get(), "requests that are under way are broken off");
        gateway.under_way.end_all(&gateway.reaper);
    }
    // The end of one leaves its children.
    let last = async {
        while !gateway.under_way.is_empty() || orphans.borrow().end_all() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = timeout(SWEEP, last).await;
}

/// Ends what takes too long, and what scripts have left when some have ended.
async fn sweep(gateway: Rc<Gateway>, orphans: Rc<RefCell<Orphans>>, may_be_left: Rc<Cell<bool>>) {
    loop {
        sleep(SWEEP).await;
        gateway.under_way.expire(Instant::now(), &gateway.reaper);
        if may_be_left.take() {
            may_be_left.set(orphans.borrow_mut().sweep());
        }
    }
}

/// Makes what first requests need. It takes long, but a request that came meanwhile would take as long.
fn prepare(gateway: &Gateway) {
    match &gateway.settings.content {
        Content::Directory(_) => {
            for script in scripts(&gateway.root).into_iter().take(MAX_PREPARED) {
                gateway.prepare(vec![script.into_os_string()]);
            }
        }
        Content::Program(command) => gateway.prepare(command.clone()),
        Content::Function(function) => gateway.prepare(function.command.clone()),
        Content::Application(_) => gateway.prepare(gateway.application_command()),
    }
}

/// The files below a folder that may be executed.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut scripts = Vec::new();
    for path in paths {
        if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            scripts.extend(self::scripts(&path));
        } else if crate::target::runnable(folder, &path).is_ok() {
            scripts.push(path);
        }
    }
    scripts
}

/// The signals that mean something to a gateway.
struct Signals {
    end: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// A process that does not read its request to the end is no reason to end. A handler, unlike a signal that is ignored, is not passed
    /// on to the processes.
    _pipe: Signal,
}

impl Signals {
    fn new() -> Result<Self, WebError> {
        let awaited = |kind| {
            signal(kind).map_err(|source| WebError::System { what: "signals cannot be awaited", source })
        };
        Ok(Self {
            end: awaited(SignalKind::terminate())?,
            interrupt: awaited(SignalKind::interrupt())?,
            hangup: awaited(SignalKind::hangup())?,
            _pipe: awaited(SignalKind::pipe())?,
        })
    }

    /// Waits for the signal to stop, and reloads at the one for that.
    async fn await_stop(mut self, gateway: &Gateway) {
        loop {
            tokio::select! {
                _ = self.end.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {
                    tracing::info!("reloaded");
                    gateway.reload();
                }
            }
        }
    }
}

struct Server {
    gateway: Rc<Gateway>,
    /// Connections that are open.
    open: Rc<Cell<usize>>,
    stop: watch::Sender<bool>,
}

/// One more of something, as long as it is there.
struct One(Rc<Cell<usize>>);

impl One {
    fn of(counted: &Rc<Cell<usize>>) -> Self {
        counted.set(counted.get() + 1);
        Self(Rc::clone(counted))
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Server {
    /// Listens everywhere. Gives the sockets that are files.
    async fn listen(&self, listening: &mut impl FnMut(&str)) -> Result<Vec<PathBuf>, WebError> {
        let settings = &self.gateway.settings;
        let mut paths = Vec::new();
        for &address in &settings.http {
            let (listener, address) = tcp(address).await?;
            listening(&format!("http://{address}/"));
            let next = async move || {
                let (stream, peer) = listener.accept().await?;
                // The address that everybody asks at is known already.
                let local = if address.ip().is_unspecified() { stream.local_addr()? } else { address };
                Ok(http::Connection { stream, peer, local })
            };
            self.accept(next, http::serve);
        }
        for address in &settings.fastcgi {
            match address {
                FastCgiAddress::Tcp(address) => {
                    let (listener, address) = tcp(*address).await?;
                    listening(&format!("FastCGI at {address}"));
                    self.accept(async move || Ok(listener.accept().await?.0), fastcgi::serve);
                }
                FastCgiAddress::Unix(path) => {
                    let listener = unix(path)?;
                    listening(&format!("FastCGI at unix:{}", path.display()));
                    paths.push(path.clone());
                    self.accept(async move || Ok(listener.accept().await?.0), fastcgi::serve);
                }
            }
        }
        if let Some(address) = settings.metrics {
            let (listener, address) = tcp(address).await?;
            listening(&format!("metrics at http://{address}/metrics"));
            self.accept(
                async move || Ok(listener.accept().await?.0),
                |gateway, stream, _| tell_metrics(gateway, stream),
            );
        }
        Ok(paths)
    }
}

impl Server {
    /// Accepts connections until the server stops, each served by a task of its own.
    fn accept<S: 'static, F: Future<Output = ()> + 'static>(
        &self,
        next: impl AsyncFn() -> io::Result<S> + 'static,
        serve: impl Fn(Rc<Gateway>, S, watch::Receiver<bool>) -> F + 'static,
    ) {
        let (gateway, open) = (Rc::clone(&self.gateway), Rc::clone(&self.open));
        let (stop, mut stopped) = (self.stop.clone(), self.stop.subscribe());
        tokio::task::spawn_local(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = next() => accepted,
                    _ = stopped.wait_for(|&stop| stop) => return,
                };
                match accepted {
                    Ok(stream) => {
                        let one = One::of(&open);
                        let served = serve(Rc::clone(&gateway), stream, stop.subscribe());
                        tokio::task::spawn_local(async move {
                            served.await;
                            drop(one);
                        });
                        // It is served before the next one is looked for.
                        yield_now().await;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection cannot be accepted");
                        sleep(PAUSE).await;
                    }
                }
                while open.get() >= gateway.settings.limits.connections {
                    sleep(PAUSE).await;
                }
            }
        });
    }
}

async fn tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), WebError> {
    let cannot = |source| WebError::Listen { address: address.to_string(), source };
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    // The port is not known where it was left to the kernel.
    let address = listener.local_addr().map_err(cannot)?;
    // Connections have it from here. Without it the end of a reply waits for the client's acknowledgement of its start.
    set_tcp_nodelay(&listener, true).map_err(|error| cannot(error.into()))?;
    Ok((listener, address))
}

/// Listens at a socket that is a file. One that nobody listens at any more is replaced.
fn unix(path: &Path) -> Result<UnixListener, WebError> {
    let cannot = |source| WebError::Listen { address: path.display().to_string(), source };
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path).map_err(cannot)?;
    }
    UnixListener::bind(path).map_err(cannot)
}

/// Answers one question for the metrics.
async fn tell_metrics(gateway: Rc<Gateway>, mut stream: TcpStream) {
    let mut asked = Vec::new();
    let mut reader = (&mut stream).take(MAX_ASKED_BYTES);
    let read = async {
        while !asked.windows(4).any(|four| four == b"\r\n\r\n") {
            if reader.read_buf(&mut asked).await.unwrap_or(0) == 0 {
                break;
            }
        }
    };
    if timeout(gateway.settings.limits.header_timeout, read).await.is_err() {
        return;
    }
    let (status, text) = if asked.starts_with(b"GET /metrics ") {
        ("200 OK", gateway.metrics.text())
    } else {
        ("404 Not Found", "only /metrics is here\n".to_owned())
    };
    let (kind, length) = (metrics::CONTENT_TYPE, text.len());
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    // The client may have gone.
    let _ = stream.write_all((head + &text).as_bytes()).await;
}
