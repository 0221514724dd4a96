//! A connection that speaks HTTP/1.1 or HTTP/2: its timeouts, its end, and the requests on it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::access_log::AccessLine;
use crate::ask::http::client_socket::{ClientSocket, RequestProgress};
use crate::ask::http::exchange::HttpExchange;
use crate::ask::request_head::RequestHead;
use crate::gateway::Gateway;
use crate::settings::Limits;

/// The smallest buffer that hyper accepts.
const MIN_BUFFER_BYTES: usize = 8192;

/// A connection of a client, and its two addresses.
pub(crate) struct HttpConnection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Serves a connection until its end. When `stop` becomes true, the connection ends after the request that it is at.
pub(crate) async fn serve(gateway: Rc<Gateway>, connection: HttpConnection, mut stop: watch::Receiver<bool>) {
    let HttpConnection { stream, peer, local } = connection;
    let _connected = gateway.metrics.connected();
    let limits = &gateway.settings.limits;
    let progress = Rc::new(RequestProgress::new());
    let socket = ClientSocket::new(stream, limits.idle_timeout, Rc::clone(&progress));
    let service = service_fn(|request: Request<Incoming>| {
        let head = RequestHead {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            fields: request.headers().clone(),
            peer,
            local,
        };
        let exchange = HttpExchange::new(Rc::clone(&gateway), head, Rc::clone(&progress));
        async move { Ok::<_, Infallible>(exchange.answer(request.into_body()).await) }
    });
    let builder = builder(limits);
    let connection = builder.serve_connection(TokioIo::new(socket.clone()), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // hyper waits without limit for the first bytes, which tell the version of HTTP.
        () = progress.first_head(limits.header_timeout) => {
            if progress.is_in_head() {
                time_out(&gateway, &socket, peer);
            }
            return;
        }
        _ = stop.wait_for(|&stop| stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        // A client of HTTP/2 that answers pings is alive, and yet asks for nothing.
        () = progress.unused(limits.idle_timeout) => {
            connection.as_mut().graceful_shutdown();
            match timeout(limits.header_timeout, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection has ended");
        if progress.is_in_head() {
            let cause = hyper_error(&*error);
            if cause.is_some_and(hyper::Error::is_timeout) {
                time_out(&gateway, &socket, peer);
            } else if cause.is_some_and(hyper::Error::is_parse) {
                // hyper has sent this status by itself.
                let is_too_large = cause.is_some_and(hyper::Error::is_parse_too_large);
                record(&gateway, peer, if is_too_large { 431 } else { 400 });
            }
        }
    }
}

/// The settings of hyper.
fn builder(limits: &Limits) -> Builder<LocalExecutor> {
    let mut builder = Builder::new(LocalExecutor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes.max(MIN_BUFFER_BYTES))
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(limits.idle_timeout))
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX));
    builder
}

/// Tells a client that its request takes too long.
fn time_out(gateway: &Gateway, socket: &ClientSocket, peer: SocketAddr) {
    socket.send_last(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    record(gateway, peer, 408);
}

/// The error of hyper at the bottom of an error.
fn hyper_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e hyper::Error> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

/// Records a request that has no head.
fn record(gateway: &Gateway, peer: SocketAddr, status: u16) {
    gateway.metrics.reply(status, 0.0, 0);
    gateway.access_log.write(&AccessLine { client: &peer.ip().to_string(), request: "-", status, bytes: 0 });
}

/// Runs the tasks of HTTP/2 connections on the thread of the gateway.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move { drop(future.await) });
    }
}
