//! FastCGI 1.0 as a responder, behind a web server: one request at a time on each connection.
//!
//! The web server has read the request and says in variables what it is. What the script writes goes back, its head in the form that all web
//! servers read.

mod record;

use std::io;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::record::{EndStatus, Kind};
use crate::content;
use crate::error::Refusal;
use crate::gateway::Gateway;
use crate::head::Head;
use crate::input::{Body, Input, Piece, collect};
use crate::records::Record;
use crate::reply::Reply;
use crate::settings::Limits;
use crate::variables::Variables;

/// The role that a web server asks for.
const RESPONDER: u16 = 1;
/// The flag by which it keeps the connection.
const KEEP: u8 = 1;
/// The longest list of variables.
const MAX_PARAMS_BYTES: usize = 1 << 20;
/// How many pieces of a body are on their way.
const PIECES: usize = 8;
/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// A connection to a web server.
struct Connection<S> {
    gateway: Rc<Gateway>,
    stream: S,
    input: BytesMut,
    output: BytesMut,
    /// The request that is being answered.
    id: u16,
    /// Where its body goes.
    body: Option<mpsc::Sender<Piece>>,
    /// What there was no room for yet.
    pending: Option<Piece>,
    /// Whether its body has come to its end.
    body_has_come: bool,
}

/// A request, but for its body.
struct Request {
    keep: bool,
    params: Variables,
}

/// Serves a connection to its end, or until the request that it is at is answered when `stop` says so.
pub(crate) async fn serve<S>(gateway: Rc<Gateway>, stream: S, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _connected = gateway.metrics.connected();
    let (input, output) = (BytesMut::new(), BytesMut::new());
    let mut connection =
        Connection { gateway, stream, input, output, id: 0, body: None, pending: None, body_has_come: false };
    loop {
        let request = tokio::select! {
            request = connection.request() => request,
            _ = stop.wait_for(|&stop| stop) => return,
        };
        let keep = match request {
            Ok(Some(request)) => connection.answer_or_abort(request).await,
            Ok(None) => return,
            Err(error) => Err(error),
        };
        match keep {
            Ok(true) if !*stop.borrow() => {}
            Ok(_) => return,
            Err(error) => return tracing::debug!(%error, "a web server's connection has ended"),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// The next record; `None` at the end of the connection. What has come of it is kept when nobody waits any more.
    async fn record(&mut self) -> io::Result<Option<record::Record>> {
        loop {
            if let Some(record) = record::take(&mut self.input).map_err(io::Error::other)? {
                return Ok(Some(record));
            }
            self.input.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The next request; `None` at the end of the connection.
    async fn request(&mut self) -> io::Result<Option<Request>> {
        let (mut begun, mut params) = (None, Vec::new());
        while let Some(record) = self.record().await? {
            match (record.kind, begun) {
                (kind, None) if kind == Kind::Begin as u8 => begun = self.begin(&record).await?,
                (kind, Some(keep)) if kind == Kind::Params as u8 && record.id == self.id => {
                    if record.content.is_empty() {
                        let params = record::pairs(&params).map_err(io::Error::other)?;
                        return Ok(Some(Request { keep, params }));
                    }
                    params.extend_from_slice(&record.content);
                    if params.len() > MAX_PARAMS_BYTES {
                        return Err(io::Error::other("the variables of a request are too long"));
                    }
                }
                (kind, Some(_)) if kind == Kind::Abort as u8 && record.id == self.id => {
                    begun = None;
                    self.end(EndStatus::Complete).await?;
                }
                _ => self.other(&record).await?,
            }
        }
        Ok(None)
    }

    /// Takes the beginning of a request; gives whether the connection is kept, or `None` where the request is refused.
    async fn begin(&mut self, record: &record::Record) -> io::Result<Option<bool>> {
        let &[high, low, flags, ..] = &record.content[..] else {
            return Err(io::Error::other("the beginning of a request is too short"));
        };
        self.id = record.id;
        if u16::from_be_bytes([high, low]) == RESPONDER {
            return Ok(Some(flags & KEEP != 0));
        }
        self.end(EndStatus::UnknownRole).await?;
        Ok(None)
    }

    /// A record that belongs to no request of this connection.
    async fn other(&mut self, record: &record::Record) -> io::Result<()> {
        match record.kind {
            kind if kind == Kind::GetValues as u8 => {
                let mut values = Vec::new();
                for (name, _) in record::pairs(&record.content).map_err(io::Error::other)? {
                    let value = match &name[..] {
                        b"FCGI_MPXS_CONNS" => "0".to_owned(),
                        b"FCGI_MAX_CONNS" => self.gateway.settings.limits.connections.to_string(),
                        b"FCGI_MAX_REQS" => self.gateway.settings.limits.requests.to_string(),
                        _ => continue,
                    };
                    record::put_pair(&name, value.as_bytes(), &mut values);
                }
                record::put(Kind::GetValuesResult, 0, &values, &mut self.output);
            }
            kind if kind == Kind::Begin as u8 => {
                record::put_end(record.id, EndStatus::CannotMultiplex, &mut self.output);
            }
            // What is left of a request that was answered already, or of one that was refused.
            kind if record.id != 0 || kind <= Kind::Unknown as u8 => return Ok(()),
            kind => record::put(Kind::Unknown, 0, &[kind, 0, 0, 0, 0, 0, 0, 0], &mut self.output),
        }
        self.flush().await
    }

    /// Reads what the web server sends while its request is answered. Ends only with the connection or the request.
    async fn pump(&mut self) -> io::Error {
        loop {
            if let Err(error) = self.pump_once().await {
                return error;
            }
        }
    }

    /// Passes a piece of the body on, or reads one record.
    async fn pump_once(&mut self) -> io::Result<()> {
        if self.pending.is_some()
            && let Some(body) = self.body.clone()
        {
            // The piece stays here until there is room: nobody may wait any more by then.
            let room = body.reserve().await.ok();
            self.pass_on(room);
            return Ok(());
        }
        self.pending = None;
        let record = self.record().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let is_own = record.id == self.id;
        match record.kind {
            kind if kind == Kind::Stdin as u8 && is_own => {
                self.body_has_come = record.content.is_empty();
                self.pending =
                    Some(if self.body_has_come { Piece::End } else { Piece::Data(record.content) });
                Ok(())
            }
            kind if kind == Kind::Abort as u8 && is_own => Err(io::ErrorKind::ConnectionAborted.into()),
            _ => self.other(&record).await,
        }
    }

    /// Reads what is left of the body, which nobody wants: a web server that is still sending it would take an end for a failure.
    async fn drain(&mut self) -> io::Result<()> {
        (self.body, self.pending) = (None, None);
        let idle = self.gateway.settings.limits.idle_timeout;
        while !self.body_has_come {
            timeout(idle, self.pump_once()).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        }
        Ok(())
    }

    /// Puts the pending piece where there is room for it. Without room, the process does not read any more.
    fn pass_on(&mut self, room: Option<mpsc::Permit<'_, Piece>>) {
        let piece = self.pending.take();
        if room.is_none() || matches!(piece, Some(Piece::End)) {
            self.body = None;
        }
        if let Some((room, piece)) = room.zip(piece) {
            room.send(piece);
        }
    }

    /// Answers a request, unless the web server takes it back. Gives whether the connection goes on.
    async fn answer_or_abort(&mut self, request: Request) -> io::Result<bool> {
        let keep = request.keep;
        match self.answer(request).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                (self.body, self.pending) = (None, None);
                self.output.clear();
                self.end(EndStatus::Complete).await?;
                Ok(keep)
            }
            answered => answered,
        }
    }

    /// Answers a request. Gives whether the connection goes on.
    async fn answer(&mut self, request: Request) -> io::Result<bool> {
        let mut record = record_of(&self.gateway, &request.params);
        let (sender, receiver) = mpsc::channel(PIECES);
        (self.body, self.pending, self.body_has_come) = (Some(sender), None, false);
        let gateway = Rc::clone(&self.gateway);
        let mut params = request.params;
        let reply = async {
            let input = input(&mut params, receiver, &gateway.settings.limits).await?;
            gateway.start(content::of_params(&gateway, params, input)?).await?.reply().await
        };
        let reply = tokio::select! {
            reply = reply => reply,
            error = self.pump() => return Err(error),
        };
        match reply {
            Ok(reply) => self.send(reply, &mut record).await?,
            Err(refusal) => {
                refusal.log(&record.request);
                record.status = refusal.status();
                let (status, reason) = (refusal.status(), refusal.reason());
                let text = format!(
                    "Status: {status} {reason}\r\nContent-Type: text/plain\r\n\r\n{status} {reason}\n"
                );
                record::put(Kind::Stdout, self.id, text.as_bytes(), &mut self.output);
            }
        }
        record::put(Kind::Stdout, self.id, b"", &mut self.output);
        if !self.body_has_come {
            self.flush().await?;
        }
        self.drain().await?;
        self.end(EndStatus::Complete).await?;
        Ok(request.keep)
    }

    /// Passes a reply on as it comes. One that breaks off breaks the connection off: there is no other way to say so.
    async fn send(&mut self, reply: Reply, record: &mut Record) -> io::Result<()> {
        record.status = reply.head.status;
        record::put(Kind::Stdout, self.id, &head_of(&reply.head), &mut self.output);
        let mut rest = reply.rest;
        loop {
            // What is there is sent together, and before anything is waited for.
            let next = match rest.ready() {
                Some(next) => next,
                None => {
                    self.flush().await?;
                    tokio::select! {
                        next = rest.next() => next,
                        error = self.pump() => return Err(error),
                    }
                }
            };
            match next {
                None => return Ok(()),
                Some(Ok(piece)) => {
                    record.bytes += u64::try_from(piece.len()).unwrap_or(0);
                    record::put(Kind::Stdout, self.id, &piece, &mut self.output);
                    if self.output.len() >= READ_BYTES {
                        self.flush().await?;
                    }
                }
                Some(Err(refusal)) => {
                    refusal.log(&record.request);
                    return Err(io::Error::other(refusal));
                }
            }
        }
    }

    async fn end(&mut self, status: EndStatus) -> io::Result<()> {
        record::put_end(self.id, status, &mut self.output);
        self.flush().await
    }

    /// Sends what is to be sent. A web server that takes nothing is given up.
    async fn flush(&mut self) -> io::Result<()> {
        let written =
            timeout(self.gateway.settings.limits.idle_timeout, self.stream.write_all(&self.output)).await;
        self.output.clear();
        written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

/// The head of a reply as all web servers read it: Apache reads fewer forms than RFC 3875 has.
fn head_of(head: &Head) -> Bytes {
    let known = || {
        StatusCode::from_u16(head.status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or("Status")
    };
    let mut bytes = BytesMut::from(format!("Status: {} ", head.status).as_bytes());
    bytes.extend_from_slice(if head.reason.is_empty() { known().as_bytes() } else { &head.reason });
    bytes.extend_from_slice(b"\r\n");
    for (name, value) in &head.fields {
        [name.as_slice(), b": ", value, b"\r\n"].iter().for_each(|part| bytes.extend_from_slice(part));
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.freeze()
}

/// What the process reads. A body whose length is not said is collected, so that it can be.
async fn input(
    params: &mut Variables,
    body: mpsc::Receiver<Piece>,
    limits: &Limits,
) -> Result<Input, Refusal> {
    let text = value(params, b"CONTENT_LENGTH").unwrap_or_default().trim_ascii();
    // Caddy says -1 where its client has said nothing.
    if text.is_empty() || text == b"-1" {
        let (input, length) = collect(Body::Channel(body), limits.body_bytes, limits.idle_timeout).await?;
        params.retain(|(name, _)| name != b"CONTENT_LENGTH");
        if length > 0 {
            params.push((b"CONTENT_LENGTH".to_vec(), length.to_string().into_bytes()));
        }
        return Ok(input);
    }
    let length = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
    let length = length.ok_or(Refusal::Malformed("CONTENT_LENGTH is no number"))?;
    match limits.body_bytes {
        Some(limit) if length > limit => Err(Refusal::TooLarge { limit }),
        _ if length == 0 => Ok(Input::Empty),
        _ => Ok(Input::Stream(Body::Channel(body))),
    }
}

/// The value of a variable.
fn value<'v>(params: &'v Variables, name: &[u8]) -> Option<&'v [u8]> {
    params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
}

/// What the log and the metrics are told of a request.
fn record_of(gateway: &Rc<Gateway>, params: &Variables) -> Record {
    let text = |name: &[u8]| String::from_utf8_lossy(value(params, name).unwrap_or(b"-")).into_owned();
    let words = [&b"REQUEST_METHOD"[..], b"REQUEST_URI", b"SERVER_PROTOCOL"].map(text);
    Record::new(gateway, text(b"REMOTE_ADDR"), words.join(" "))
}
