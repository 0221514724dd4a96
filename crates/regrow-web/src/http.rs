//! HTTP/1.1, and HTTP/2 without TLS: from a connection to jobs, and from replies to the connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HOST, HeaderName, HeaderValue, RETRY_AFTER, SERVER};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::access::Line;
use crate::content;
use crate::error::Refusal;
use crate::function;
use crate::gateway::Gateway;
use crate::head::Head;
use crate::input::{Body, Input, collect};
use crate::records::Record;
use crate::reply::Rest;
use crate::socket::{Progress, Socket};
use crate::variables::{RequestHead, SOFTWARE};

/// How many local redirects follow each other.
const MAX_REDIRECTS: usize = 10;
/// Header fields that belong to the connection, which is not the script's (RFC 9110, 7.6.1).
const OF_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// A connection, who has made it, and where to.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Serves a connection to its end, or until what it is at is done when `stop` says so.
pub(crate) async fn serve(gateway: Rc<Gateway>, connection: Connection, mut stop: watch::Receiver<bool>) {
    let Connection { stream, peer, local } = connection;
    let _connected = gateway.metrics.connected();
    let limits = &gateway.settings.limits;
    let progress = Rc::new(Progress::default());
    let socket = Socket::new(stream, limits.idle_timeout, Rc::clone(&progress));
    let mut builder = Builder::new(LocalExecutor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes.max(8192))
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(limits.idle_timeout))
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX));
    let service = service_fn(|request: Request<Incoming>| {
        let head = |request: &Request<Incoming>| RequestHead {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            fields: request.headers().clone(),
            peer,
            local,
        };
        let exchange = Exchange::new(Rc::clone(&gateway), head(&request), Rc::clone(&progress));
        async move { Ok::<_, Infallible>(exchange.answer(request.into_body()).await) }
    });
    let connection = builder.serve_connection(TokioIo::new(socket.clone()), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // Which HTTP it is, is seen by the first bytes, for which the library waits without end.
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
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection has ended");
        if progress.is_in_head() {
            let cause = of_hyper(&*error);
            if cause.is_some_and(hyper::Error::is_timeout) {
                time_out(&gateway, &socket, peer);
            } else if cause.is_some_and(hyper::Error::is_parse) {
                // That is what it has answered by itself.
                note(
                    &gateway,
                    peer,
                    if cause.is_some_and(hyper::Error::is_parse_too_large) { 431 } else { 400 },
                );
            }
        }
    }
}

/// Tells a client that its request does not come.
fn time_out(gateway: &Gateway, socket: &Socket, peer: SocketAddr) {
    socket.say_last(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    note(gateway, peer, 408);
}

/// The error of the HTTP library that another one was made of.
fn of_hyper<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e hyper::Error> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

/// Writes a line for what was no request.
fn note(gateway: &Gateway, peer: SocketAddr, status: u16) {
    gateway.metrics.reply(status, 0.0, 0);
    gateway.log.write(&Line { client: &peer.ip().to_string(), request: "-", status, bytes: 0 });
}

/// Runs the tasks of HTTP/2 connections on the one thread.
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

/// One request and its reply.
struct Exchange {
    gateway: Rc<Gateway>,
    head: RequestHead,
    asked: Option<Asked>,
}

impl Exchange {
    fn new(gateway: Rc<Gateway>, head: RequestHead, progress: Rc<Progress>) -> Self {
        progress.head_has_come();
        let uri = head.uri.path_and_query().map_or("*", http::uri::PathAndQuery::as_str);
        let request = format!("{} {uri} {:?}", head.method, head.version);
        let record = Record::new(&gateway, head.peer.ip().to_string(), request);
        let asked = Some(Asked { record, progress });
        Self { gateway, head, asked }
    }

    /// The reply to the request.
    async fn answer(mut self, body: Incoming) -> Response<ReplyBody> {
        match self.reply(body).await {
            Ok(reply) => reply,
            Err(refusal) => {
                let own = function::of(&self.gateway).and_then(|_| function::refused(&refusal));
                refused(&refusal, own, self.asked.take())
            }
        }
    }

    async fn reply(&mut self, body: Incoming) -> Result<Response<ReplyBody>, Refusal> {
        let gateway = Rc::clone(&self.gateway);
        if self.head.version == Version::HTTP_11 && self.head.fields.get_all(HOST).iter().count() != 1 {
            return Err(Refusal::Malformed("a request of HTTP/1.1 has one field Host"));
        }
        if let Some(function) = function::of(&gateway)
            && let Some((head, text)) = function::answer_itself(function, &self.head)?
        {
            return Ok(self.respond(head, None, Some(text)));
        }
        let began = Instant::now();
        let (mut input, mut length) = self.input(body).await?;
        for _ in 0..=MAX_REDIRECTS {
            let job = content::of_request(&gateway, &self.head, input, length)?;
            let started = gateway.start(job).await?;
            if let Some(function) = function::of(&gateway) {
                let (text, rest) = started.result().await?;
                let head = function::head(function, &self.head, began.elapsed());
                return Ok(self.respond(head, rest, Some(text)));
            }
            let reply = started.reply().await?;
            match reply.head.instead.as_deref().map(|path| self.head.redirected(path)) {
                None => return Ok(self.respond(reply.head, Some(reply.rest), None)),
                Some(None) => return Err(Refusal::Head(crate::head::HeadError::Field)),
                Some(Some(other)) => self.head = other,
            }
            tokio::task::spawn_local(reply.rest.discard());
            (input, length) = (Input::Empty, None);
        }
        Err(Refusal::Circle { limit: MAX_REDIRECTS })
    }

    /// What a script reads, and how long it is.
    async fn input(&self, body: Incoming) -> Result<(Input, Option<u64>), Refusal> {
        let limits = &self.gateway.settings.limits;
        if body.is_end_stream() {
            let says_zero = self.head.fields.contains_key(CONTENT_LENGTH);
            return Ok((Input::Empty, says_zero.then_some(0)));
        }
        let Some(length) = body.size_hint().exact() else {
            let (input, length) = collect(Body::Http(body), limits.body_bytes, limits.idle_timeout).await?;
            return Ok((input, Some(length)));
        };
        match limits.body_bytes {
            Some(limit) if length > limit => Err(Refusal::TooLarge { limit }),
            _ => Ok((Input::Stream(Body::Http(body)), Some(length))),
        }
    }

    /// A reply as HTTP has it. Its body is what a process writes, or a text.
    fn respond(&mut self, head: Head, rest: Option<Rest>, text: Option<Bytes>) -> Response<ReplyBody> {
        let asked = self.asked.take().map(|asked| asked.with_status(head.status));
        let without_body = self.head.method == Method::HEAD || matches!(head.status, 204 | 304);
        let (source, text) = if without_body {
            rest.map(|rest| tokio::task::spawn_local(rest.discard()));
            (None, None)
        } else {
            // What follows is not known to be all: a text beside it is none.
            (rest, text.filter(|text| !text.is_empty()))
        };
        let mut response = Response::new(ReplyBody { source, text, asked });
        *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
        if let Ok(reason) = hyper::ext::ReasonPhrase::try_from(head.reason)
            && !reason.as_bytes().is_empty()
        {
            response.extensions_mut().insert(reason);
        }
        copy_fields(&head.fields, response.headers_mut());
        let has_length = without_body || response.headers().contains_key(CONTENT_LENGTH);
        if self.head.version < Version::HTTP_11 && !has_length {
            // The end of the connection is the end of the reply, whatever the client has asked for. So it is of a reply of that version.
            *response.version_mut() = Version::HTTP_10;
        }
        response
    }
}

/// The fields of a script's reply that are the reply's.
fn copy_fields(fields: &[(Vec<u8>, Vec<u8>)], to: &mut HeaderMap) {
    for (name, value) in fields {
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) else {
            continue;
        };
        if OF_CONNECTION.contains(&name.as_str()) {
            continue;
        }
        if [CONTENT_LENGTH, CONTENT_TYPE, DATE, SERVER].contains(&name) {
            to.insert(name, value);
        } else {
            to.append(name, value);
        }
    }
    to.entry(SERVER).or_insert(HeaderValue::from_static(SOFTWARE));
}

/// The reply that the gateway gives itself: `own` status and text, or those of the refusal.
fn refused(refusal: &Refusal, own: Option<(u16, Vec<u8>)>, asked: Option<Asked>) -> Response<ReplyBody> {
    refusal.log(asked.as_ref().map_or("", |asked| &asked.record.request));
    let usual = || (refusal.status(), format!("{} {}\n", refusal.status(), refusal.reason()).into_bytes());
    let (status, text) = own.unwrap_or_else(usual);
    let asked = asked.map(|asked| asked.with_status(status));
    let mut response = Response::new(ReplyBody { source: None, text: Some(text.into()), asked });
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    fields.insert(SERVER, HeaderValue::from_static(SOFTWARE));
    if matches!(refusal, Refusal::Busy) {
        fields.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A request that is being answered, and its connection.
struct Asked {
    record: Record,
    progress: Rc<Progress>,
}

impl Asked {
    fn with_status(mut self, status: u16) -> Self {
        self.record.status = status;
        self
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.progress.has_answered();
    }
}

/// The body of a reply: what a script writes, or a text.
struct ReplyBody {
    source: Option<Rest>,
    text: Option<Bytes>,
    asked: Option<Asked>,
}

impl HttpBody for ReplyBody {
    type Data = Bytes;
    type Error = Refusal;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Refusal>>> {
        let this = self.get_mut();
        let piece = match (&mut this.source, this.text.take()) {
            (_, Some(text)) => Some(Ok(text)),
            (Some(source), None) => std::task::ready!(source.poll_next(context)),
            (None, None) => None,
        };
        match (&piece, &mut this.asked) {
            (Some(Ok(data)), Some(asked)) => asked.record.bytes += u64::try_from(data.len()).unwrap_or(0),
            (Some(Err(refusal)), Some(asked)) => refusal.log(&asked.record.request),
            _ => {}
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_none() && self.text.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.source, &self.text) {
            (Some(_), _) => SizeHint::default(),
            (None, text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
        }
    }
}
