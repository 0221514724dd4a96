//! The FastCGI role of a responder: answers the requests of a web server, one after the other on each connection.
//!
//! The web server has read the request, and passes it on in variables. The reply of the script goes back with its head in the form that
//! all web servers read.

use std::io;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::ask::access_record::AccessRecord;
use crate::ask::fastcgi::connection::{FastCgiConnection, FastCgiRequest};
use crate::ask::fastcgi::params;
use crate::ask::fastcgi::record::ProtocolStatus;
use crate::cgi_head::CgiHead;
use crate::gateway::Gateway;
use crate::job::Variables;
use crate::request_error::RequestError;
use crate::serve::reply::CgiReply;

/// Serves a connection until its end. When `stop` becomes true, the connection ends after the request that it is at.
pub(crate) async fn serve<S>(gateway: Rc<Gateway>, stream: S, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _connected = gateway.metrics.connected();
    let connection = FastCgiConnection::new(stream, gateway.settings.limits.clone());
    let mut responder = FastCgiResponder { gateway, connection };
    loop {
        let request = tokio::select! {
            request = responder.connection.request() => request,
            _ = stop.wait_for(|&stop| stop) => return,
        };
        let keep = match request {
            Ok(Some(request)) => responder.answer_or_abort(request).await,
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

/// Answers the requests of one connection.
struct FastCgiResponder<S> {
    gateway: Rc<Gateway>,
    connection: FastCgiConnection<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> FastCgiResponder<S> {
    /// Answers a request, unless the web server aborts it. Returns whether the connection stays open.
    async fn answer_or_abort(&mut self, request: FastCgiRequest) -> io::Result<bool> {
        let keep = request.keep;
        match self.answer(request.params).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                self.connection.close_body();
                self.connection.clear_output();
                self.connection.end(ProtocolStatus::RequestComplete).await?;
            }
            answered => answered?,
        }
        Ok(keep)
    }

    async fn answer(&mut self, mut params: Variables) -> io::Result<()> {
        let mut record = record_of(&self.gateway, &params);
        let body = self.connection.open_body();
        let gateway = Rc::clone(&self.gateway);
        let reply = async {
            let stdin = params::stdin(&mut params, body, &gateway.settings.limits).await?;
            let job = params::job(&gateway, params, stdin)?;
            gateway.launcher.start(job).await?.reply().await
        };
        let reply = tokio::select! {
            reply = reply => reply,
            error = self.connection.pump() => return Err(error),
        };
        let status = match reply {
            Ok(reply) => {
                let status = reply.head.status;
                self.send(reply, &mut record).await?;
                status
            }
            Err(error) => {
                error.log(&record.request);
                self.put_error(&error);
                error.status()
            }
        };
        self.connection.put_stdout(b"");
        if !self.connection.body_has_come() {
            self.connection.flush().await?;
            record.status = status;
        }
        self.connection.drain().await?;
        self.connection.end(ProtocolStatus::RequestComplete).await?;
        // Only a reply that the web server has taken has its own status in the log.
        record.status = status;
        Ok(())
    }

    /// Replies with an error.
    fn put_error(&mut self, error: &RequestError) {
        let (status, reason) = (error.status(), error.reason());
        let text =
            format!("Status: {status} {reason}\r\nContent-Type: text/plain\r\n\r\n{status} {reason}\n");
        self.connection.put_stdout(text.as_bytes());
    }

    /// Passes a reply on as it comes. A reply that breaks off breaks the connection: FastCGI has no other sign for it.
    async fn send(&mut self, reply: CgiReply, record: &mut AccessRecord) -> io::Result<()> {
        self.connection.put_stdout(&head_bytes(&reply.head));
        let mut body = reply.body;
        loop {
            // Sends together what is there, before it waits for more.
            let next = match body.try_next() {
                Some(next) => next,
                None => {
                    self.connection.flush().await?;
                    tokio::select! {
                        next = body.next() => next,
                        error = self.connection.pump() => return Err(error),
                    }
                }
            };
            match next {
                None => return Ok(()),
                Some(Ok(piece)) => {
                    record.bytes += u64::try_from(piece.len()).unwrap_or(0);
                    if self.connection.put_stdout(&piece) {
                        self.connection.flush().await?;
                    }
                }
                Some(Err(error)) => {
                    error.log(&record.request);
                    record.status = error.status();
                    return Err(io::Error::other(error));
                }
            }
        }
    }
}

/// The head of a reply in the form that all web servers read. Apache does not read every form of RFC 3875.
fn head_bytes(head: &CgiHead) -> Bytes {
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

/// The record of a request.
fn record_of(gateway: &Rc<Gateway>, params: &Variables) -> AccessRecord {
    let text =
        |name: &[u8]| String::from_utf8_lossy(params::value(params, name).unwrap_or(b"-")).into_owned();
    let words = [&b"REQUEST_METHOD"[..], b"REQUEST_URI", b"SERVER_PROTOCOL"].map(text);
    AccessRecord::new(gateway, text(b"REMOTE_ADDR"), words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_a_status_with_a_reason_in_its_first_line() {
        let fields = vec![(b"A".to_vec(), b"b".to_vec())];
        let mut head = CgiHead { status: 404, reason: Vec::new(), fields, local_redirect: None };
        assert_eq!(&head_bytes(&head)[..], b"Status: 404 Not Found\r\nA: b\r\n\r\n");
        head.status = 799;
        assert_eq!(&head_bytes(&head)[..], b"Status: 799 Status\r\nA: b\r\n\r\n");
        head.reason = b"Own Words".to_vec();
        assert_eq!(&head_bytes(&head)[..], b"Status: 799 Own Words\r\nA: b\r\n\r\n");
    }
}
