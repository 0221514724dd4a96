//! The sockets at which a gateway listens, and their connections.
//!
//! ```text
//!  one thread:  each listener ──> a task for each connection      stop: listeners end first, connections after their request
//! ```

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rustix::net::sockopt::set_tcp_nodelay;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::ask::fastcgi::responder;
use crate::ask::http::connection::{self, HttpConnection};
use crate::ask::metrics_endpoint;
use crate::error::WebError;
use crate::gateway::Gateway;
use crate::settings::FastCgiAddress;
use crate::socket_file::SocketFile;

/// How long a listener pauses when it cannot accept a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// The open sockets of a gateway.
pub(crate) struct Listeners {
    gateway: Rc<Gateway>,
    http: OpenConnections,
    fastcgi: OpenConnections,
    metrics: OpenConnections,
    stop: watch::Sender<bool>,
    /// The sockets in the file system.
    socket_files: RefCell<Vec<SocketFile>>,
}

impl Listeners {
    /// Listens at all addresses of the settings. Calls `listening` with each.
    pub(crate) async fn open(
        gateway: &Rc<Gateway>,
        mut listening: impl FnMut(&str),
    ) -> Result<Self, WebError> {
        let limits = &gateway.settings.limits;
        let listeners = Self {
            gateway: Rc::clone(gateway),
            http: OpenConnections::new(limits.connections),
            fastcgi: OpenConnections::new(limits.fastcgi_connections),
            metrics: OpenConnections::new(limits.metrics_connections),
            stop: watch::Sender::new(false),
            socket_files: RefCell::default(),
        };
        let settings = &gateway.settings;
        for &address in &settings.http {
            listening(&format!("http://{}/", listeners.open_http(address).await?));
        }
        for address in &settings.fastcgi {
            listening(&format!("FastCGI at {}", listeners.open_fastcgi(address).await?));
        }
        if let Some(address) = settings.metrics {
            listening(&format!("metrics at http://{}/metrics", listeners.open_metrics(address).await?));
        }
        Ok(listeners)
    }

    async fn open_http(&self, address: SocketAddr) -> Result<SocketAddr, WebError> {
        let (listener, address) = tcp(address).await?;
        let accept = async move || {
            let (stream, peer) = listener.accept().await?;
            // A listener at 0.0.0.0 does not tell which of its addresses the client has used.
            let local = if address.ip().is_unspecified() { stream.local_addr()? } else { address };
            Ok(HttpConnection { stream, peer, local })
        };
        self.serve(&self.http, accept, connection::serve);
        Ok(address)
    }

    async fn open_fastcgi(&self, address: &FastCgiAddress) -> Result<String, WebError> {
        match address {
            FastCgiAddress::Tcp(address) => {
                let (listener, address) = tcp(*address).await?;
                self.serve(&self.fastcgi, async move || Ok(listener.accept().await?.0), responder::serve);
                Ok(address.to_string())
            }
            FastCgiAddress::Unix(path) => {
                let (listener, file) = SocketFile::open(path, &self.gateway.settings.socket)?;
                self.socket_files.borrow_mut().push(file);
                self.serve(&self.fastcgi, async move || Ok(listener.accept().await?.0), responder::serve);
                Ok(format!("unix:{}", path.display()))
            }
        }
    }

    async fn open_metrics(&self, address: SocketAddr) -> Result<SocketAddr, WebError> {
        let (listener, address) = tcp(address).await?;
        let accept = async move || Ok(listener.accept().await?.0);
        self.serve(&self.metrics, accept, |gateway, stream, _| metrics_endpoint::serve(gateway, stream));
        Ok(address)
    }

    /// Accepts connections until the listeners close. A task of its own serves each.
    fn serve<S: 'static, F: Future<Output = ()> + 'static>(
        &self,
        open: &OpenConnections,
        accept: impl AsyncFn() -> io::Result<S> + 'static,
        serve: impl Fn(Rc<Gateway>, S, watch::Receiver<bool>) -> F + 'static,
    ) {
        let (gateway, open) = (Rc::clone(&self.gateway), open.clone());
        let (stop, mut stopped) = (self.stop.clone(), self.stop.subscribe());
        tokio::task::spawn_local(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = accept() => accepted,
                    _ = stopped.wait_for(|&stop| stop) => return,
                };
                match accepted {
                    Ok(stream) => {
                        let counted = open.one_more();
                        let served = serve(Rc::clone(&gateway), stream, stop.subscribe());
                        tokio::task::spawn_local(async move {
                            served.await;
                            drop(counted);
                        });
                        // The task serves this connection before the listener looks for the next.
                        yield_now().await;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection cannot be accepted");
                        sleep(PAUSE).await;
                    }
                }
                while open.are_all() {
                    sleep(PAUSE).await;
                }
            }
        });
    }

    /// Accepts no further connection. Those that are open end after the request that they are at.
    pub(crate) fn close(&self) {
        self.socket_files.borrow_mut().clear();
        let _ = self.stop.send(true);
    }

    /// How many connections are open.
    pub(crate) fn connections(&self) -> usize {
        [&self.http, &self.fastcgi, &self.metrics].map(OpenConnections::count).iter().sum()
    }
}

/// The open connections of one protocol: all listeners for it count together, and those for another protocol count apart, so that the
/// clients of one keep nobody else out.
#[derive(Clone)]
struct OpenConnections {
    count: Rc<Cell<usize>>,
    most: usize,
}

impl OpenConnections {
    fn new(most: usize) -> Self {
        Self { count: Rc::default(), most }
    }

    fn count(&self) -> usize {
        self.count.get()
    }

    /// Whether there may be no further one.
    fn are_all(&self) -> bool {
        self.count() >= self.most
    }

    fn one_more(&self) -> OpenConnection {
        self.count.set(self.count() + 1);
        OpenConnection(Rc::clone(&self.count))
    }
}

/// Counts a connection as long as it is open.
struct OpenConnection(Rc<Cell<usize>>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Listens at a TCP address. Returns the listener and its address: for port 0 the kernel chooses a port.
async fn tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), WebError> {
    let cannot = |source| WebError::Listen { address: address.to_string(), source };
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    // Connections inherit it. Without it the end of a reply waits until the client has acknowledged the start.
    set_tcp_nodelay(&listener, true).map_err(|error| cannot(error.into()))?;
    Ok((listener, address))
}
