//! A connection to a web server: its records become requests, and it answers one request at a time.
//!
//! ```text
//!  records ──> request: BEGIN, PARAMS …            other records ──> their answers, at any time
//!          ──> body:    STDIN … ──> channel ──> process
//!          <── STDOUT …, END
//! ```

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::ask::fastcgi::record::{self, FastCgiRecord, ProtocolStatus, RecordType};
use crate::job::Variables;
use crate::request_body::BodyPiece;
use crate::settings::Limits;

/// The role of a program that answers requests.
const RESPONDER: u16 = 1;
/// The flag of a request after which the connection stays open.
const KEEP: u8 = 1;
/// The longest list of variables.
const MAX_PARAMS_BYTES: usize = 1 << 20;
/// The most pieces of a body between the connection and the process.
const MAX_PIECES: usize = 8;
/// The most bytes that the gateway reads at once.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// A connection to a web server.
pub(crate) struct FastCgiConnection<S> {
    stream: S,
    limits: Limits,
    input: BytesMut,
    output: BytesMut,
    /// The id of the request that the gateway answers.
    id: u16,
    /// Where the body of that request goes.
    body: Option<mpsc::Sender<BodyPiece>>,
    /// A piece of the body for which the channel had no room.
    pending: Option<BodyPiece>,
    /// Whether the whole body has come.
    body_has_come: bool,
}

/// A request without its body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FastCgiRequest {
    /// Whether the connection stays open after the reply.
    pub(crate) keep: bool,
    pub(crate) params: Variables,
}

impl<S: AsyncRead + AsyncWrite + Unpin> FastCgiConnection<S> {
    pub(crate) fn new(stream: S, limits: Limits) -> Self {
        let (input, output) = (BytesMut::new(), BytesMut::new());
        Self { stream, limits, input, output, id: 0, body: None, pending: None, body_has_come: false }
    }

    /// The next record; `None` at the end of the connection. Keeps a part of a record when the future is dropped.
    async fn record(&mut self) -> io::Result<Option<FastCgiRecord>> {
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
    pub(crate) async fn request(&mut self) -> io::Result<Option<FastCgiRequest>> {
        let (mut begun, mut params) = (None, Vec::new());
        while let Some(record) = self.record().await? {
            match (record.kind, begun) {
                (kind, None) if kind == RecordType::Begin as u8 => begun = self.begin(&record).await?,
                (kind, Some(keep)) if kind == RecordType::Params as u8 && record.id == self.id => {
                    if record.content.is_empty() {
                        let params = record::pairs(&params).map_err(io::Error::other)?;
                        return Ok(Some(FastCgiRequest { keep, params }));
                    }
                    params.extend_from_slice(&record.content);
                    if params.len() > MAX_PARAMS_BYTES {
                        return Err(io::Error::other("the variables of a request are too long"));
                    }
                }
                (kind, Some(_)) if kind == RecordType::Abort as u8 && record.id == self.id => {
                    begun = None;
                    self.end(ProtocolStatus::RequestComplete).await?;
                }
                _ => self.answer_other(&record).await?,
            }
        }
        Ok(None)
    }

    /// Begins a request. Returns whether the connection stays open after it, or `None` if the gateway refuses its role.
    async fn begin(&mut self, record: &FastCgiRecord) -> io::Result<Option<bool>> {
        let &[high, low, flags, ..] = &record.content[..] else {
            return Err(io::Error::other("the beginning of a request is too short"));
        };
        self.id = record.id;
        if u16::from_be_bytes([high, low]) == RESPONDER {
            return Ok(Some(flags & KEEP != 0));
        }
        self.end(ProtocolStatus::UnknownRole).await?;
        Ok(None)
    }

    /// Answers a record that belongs to no request of this connection.
    async fn answer_other(&mut self, record: &FastCgiRecord) -> io::Result<()> {
        match record.kind {
            kind if kind == RecordType::GetValues as u8 => {
                let values = values(&record.content, &self.limits).map_err(io::Error::other)?;
                record::put(RecordType::GetValuesResult, 0, &values, &mut self.output);
            }
            kind if kind == RecordType::Begin as u8 => {
                record::put_end(record.id, ProtocolStatus::CannotMultiplex, &mut self.output);
            }
            // The rest of a request that the gateway has answered or refused.
            kind if record.id != 0 || kind <= RecordType::Unknown as u8 => return Ok(()),
            kind => record::put(RecordType::Unknown, 0, &[kind, 0, 0, 0, 0, 0, 0, 0], &mut self.output),
        }
        self.flush().await
    }

    /// Opens the channel through which the body of the request comes.
    pub(crate) fn open_body(&mut self) -> mpsc::Receiver<BodyPiece> {
        let (sender, receiver) = mpsc::channel(MAX_PIECES);
        (self.body, self.pending, self.body_has_come) = (Some(sender), None, false);
        receiver
    }

    /// Closes that channel.
    pub(crate) fn close_body(&mut self) {
        (self.body, self.pending) = (None, None);
    }

    /// Whether the whole body has come.
    pub(crate) fn body_has_come(&self) -> bool {
        self.body_has_come
    }

    /// Reads records while the gateway answers the request. Returns when the connection breaks, or the web server aborts the request.
    pub(crate) async fn pump(&mut self) -> io::Error {
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
            // The piece stays in `pending` until there is room, because the future may be dropped.
            let room = body.reserve().await.ok();
            self.pass_on(room);
            return Ok(());
        }
        self.pending = None;
        let record = self.record().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let is_own = record.id == self.id;
        match record.kind {
            kind if kind == RecordType::Stdin as u8 && is_own => {
                self.body_has_come = record.content.is_empty();
                self.pending =
                    Some(if self.body_has_come { BodyPiece::End } else { BodyPiece::Data(record.content) });
                Ok(())
            }
            kind if kind == RecordType::Abort as u8 && is_own => Err(io::ErrorKind::ConnectionAborted.into()),
            _ => self.answer_other(&record).await,
        }
    }

    /// Sends the pending piece if there is room. There is none when the process reads no more.
    fn pass_on(&mut self, room: Option<mpsc::Permit<'_, BodyPiece>>) {
        let piece = self.pending.take();
        if room.is_none() || matches!(piece, Some(BodyPiece::End)) {
            self.body = None;
        }
        if let Some((room, piece)) = room.zip(piece) {
            room.send(piece);
        }
    }

    /// Reads the rest of the body for nobody. A web server that still sends it would take an early end for a failure.
    pub(crate) async fn drain(&mut self) -> io::Result<()> {
        self.close_body();
        let idle = self.limits.idle_timeout;
        while !self.body_has_come {
            within(idle, self.pump_once()).await?;
        }
        Ok(())
    }

    /// Adds a part of the reply to the output; an empty part ends the reply. Returns whether the output is long enough to be sent.
    pub(crate) fn put_stdout(&mut self, content: &[u8]) -> bool {
        record::put(RecordType::Stdout, self.id, content, &mut self.output);
        self.output.len() >= READ_BYTES
    }

    /// Drops the output that has not been sent.
    pub(crate) fn clear_output(&mut self) {
        self.output.clear();
    }

    /// Ends the request.
    pub(crate) async fn end(&mut self, status: ProtocolStatus) -> io::Result<()> {
        record::put_end(self.id, status, &mut self.output);
        self.flush().await
    }

    /// Sends the output. Gives up a web server that reads nothing.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        let written = within(self.limits.idle_timeout, self.stream.write_all(&self.output)).await;
        self.output.clear();
        written
    }
}

/// The result of a future, or an error after `limit`.
async fn within<T>(limit: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(limit, future).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// The values of the variables of the gateway that a web server asks for.
fn values(content: &[u8], limits: &Limits) -> Result<Vec<u8>, record::RecordError> {
    let mut values = Vec::new();
    for (name, _) in record::pairs(content)? {
        let value = match &name[..] {
            b"FCGI_MPXS_CONNS" => "0".to_owned(),
            b"FCGI_MAX_CONNS" => limits.fastcgi_connections.to_string(),
            b"FCGI_MAX_REQS" => limits.requests.to_string(),
            _ => continue,
        };
        record::put_pair(&name, value.as_bytes(), &mut values);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    /// The records of the beginning of a request.
    fn begin(id: u16, role: u8) -> BytesMut {
        let mut bytes = BytesMut::new();
        record::put(RecordType::Begin, id, &[0, role, KEEP, 0, 0, 0, 0, 0], &mut bytes);
        bytes
    }

    /// What a connection makes of the bytes of a web server: its request, and what it answers meanwhile.
    fn requested(bytes: &[u8]) -> (io::Result<Option<FastCgiRequest>>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let (ours, mut theirs) = duplex(1 << 22);
            theirs.write_all(bytes).await.expect("room");
            theirs.shutdown().await.expect("an end");
            let mut connection = FastCgiConnection::new(ours, Limits::default());
            let request = connection.request().await;
            drop(connection);
            let mut answers = Vec::new();
            theirs.read_to_end(&mut answers).await.expect("answers");
            (request, answers)
        })
    }

    #[test]
    fn records_become_a_request() {
        let mut bytes = begin(1, 1);
        let mut pairs = Vec::new();
        record::put_pair(b"A", b"1", &mut pairs);
        record::put_pair(b"B", b"", &mut pairs);
        for half in pairs.chunks(3) {
            record::put(RecordType::Params, 1, half, &mut bytes);
        }
        record::put(RecordType::Params, 1, b"", &mut bytes);
        let params = vec![(b"A".to_vec(), b"1".to_vec()), (b"B".to_vec(), Vec::new())];
        let (request, answers) = requested(&bytes);
        assert_eq!(request.expect("a request"), Some(FastCgiRequest { keep: true, params }));
        assert!(answers.is_empty());
    }

    #[test]
    fn another_role_and_a_second_request_are_refused_and_an_aborted_one_ends() {
        let mut bytes = begin(1, 2);
        bytes.extend_from_slice(&begin(2, 1));
        bytes.extend_from_slice(&begin(3, 1));
        record::put(RecordType::Abort, 2, b"", &mut bytes);
        let mut wanted = BytesMut::new();
        record::put_end(1, ProtocolStatus::UnknownRole, &mut wanted);
        record::put_end(3, ProtocolStatus::CannotMultiplex, &mut wanted);
        record::put_end(2, ProtocolStatus::RequestComplete, &mut wanted);
        let (request, answers) = requested(&bytes);
        assert_eq!((request.expect("no error"), answers), (None, wanted.to_vec()));
    }

    #[test]
    fn variables_that_are_too_long_break_the_connection() {
        let mut bytes = begin(1, 1);
        record::put(RecordType::Params, 1, &vec![0; MAX_PARAMS_BYTES + 1], &mut bytes);
        assert!(requested(&bytes).0.is_err());
        let mut short = BytesMut::new();
        record::put(RecordType::Begin, 1, b"\0", &mut short);
        assert!(requested(&short).0.is_err());
    }

    #[test]
    fn a_web_server_can_ask_for_the_limits() {
        let mut asked = Vec::new();
        for name in [&b"FCGI_MAX_REQS"[..], b"FCGI_MPXS_CONNS", b"OTHER"] {
            record::put_pair(name, b"", &mut asked);
        }
        let limits = Limits { requests: 7, ..Limits::default() };
        let known = record::pairs(&values(&asked, &limits).expect("pairs")).expect("pairs");
        let wanted = [("FCGI_MAX_REQS", "7"), ("FCGI_MPXS_CONNS", "0")];
        assert_eq!(known, wanted.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())));
    }
}
