//! Replies as HTTP has them: status, header fields, and a body that comes from a process or is a text.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, HeaderValue, RETRY_AFTER, SERVER};
use http::{HeaderMap, Response, StatusCode, Version};
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::ask::access_record::{AccessRecord, CLIENT_GONE};
use crate::ask::http::client_socket::RequestProgress;
use crate::ask::variables::SOFTWARE;
use crate::cgi_head::CgiHead;
use crate::request_error::RequestError;
use crate::serve::reply::ReplyBody;

/// Header fields of the connection, which a script cannot set (RFC 9110, 7.6.1).
const OF_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// What the body of a response is.
pub(crate) enum ReplyPayload {
    /// What a process writes.
    Process(ReplyBody),
    /// A text of the gateway, or the whole output of a function.
    Text(Bytes),
    /// Nothing: the response has no body.
    Empty,
}

/// A request whose response is not complete yet.
pub(crate) struct OpenExchange {
    pub(crate) record: AccessRecord,
    pub(crate) progress: Rc<RequestProgress>,
    /// The number of the reply on its connection.
    pub(crate) number: u64,
}

impl OpenExchange {
    fn with_status(mut self, status: u16) -> Self {
        self.record.status = status;
        self
    }
}

impl Drop for OpenExchange {
    fn drop(&mut self) {
        self.progress.has_answered(self.number);
    }
}

/// The response for the reply of a process. `is_head` says that the request is a HEAD.
pub(crate) fn of_reply(
    head: CgiHead,
    payload: ReplyPayload,
    is_head: bool,
    version: Version,
    open: Option<OpenExchange>,
) -> Response<HttpReplyBody> {
    let open = open.map(|open| open.with_status(head.status));
    let has_no_body = is_head || matches!(head.status, 204 | 304);
    let payload = match payload {
        ReplyPayload::Process(body) if has_no_body => {
            tokio::task::spawn_local(body.discard());
            ReplyPayload::Empty
        }
        ReplyPayload::Text(text) if has_no_body || text.is_empty() => ReplyPayload::Empty,
        payload => payload,
    };
    let mut response = Response::new(HttpReplyBody { payload, open });
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
    if let Ok(reason) = hyper::ext::ReasonPhrase::try_from(head.reason)
        && !reason.as_bytes().is_empty()
    {
        response.extensions_mut().insert(reason);
    }
    copy_fields(&head.fields, response.headers_mut());
    let has_length = has_no_body || response.headers().contains_key(CONTENT_LENGTH);
    if version < Version::HTTP_11 && !has_length {
        // A client of HTTP/1.0 knows the end of the reply only by the end of the connection, even if it has asked to keep it.
        // hyper ends the connection after a response of this version.
        *response.version_mut() = Version::HTTP_10;
    }
    response
}

/// The response that the gateway gives to an error: `own` status and text, or those of the error.
pub(crate) fn of_error(
    error: &RequestError,
    own: Option<(u16, Vec<u8>)>,
    open: Option<OpenExchange>,
) -> Response<HttpReplyBody> {
    error.log(open.as_ref().map_or("", |open| &open.record.request));
    let usual = || (error.status(), format!("{} {}\n", error.status(), error.reason()).into_bytes());
    let (status, text) = own.unwrap_or_else(usual);
    let open = open.map(|open| open.with_status(status));
    let mut response = Response::new(HttpReplyBody { payload: ReplyPayload::Text(text.into()), open });
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    fields.insert(SERVER, HeaderValue::from_static(SOFTWARE));
    if matches!(error, RequestError::Busy) {
        fields.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Copies the header fields of a script, but for those of the connection.
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

/// The body of a response.
pub(crate) struct HttpReplyBody {
    payload: ReplyPayload,
    open: Option<OpenExchange>,
}

impl HttpReplyBody {
    /// Notes a piece of the body. A reply that breaks off has the status of the error in the log.
    fn note(&mut self, piece: Option<&Result<Bytes, RequestError>>) {
        match piece {
            Some(Ok(data)) => {
                if let Some(open) = &mut self.open {
                    open.record.bytes += u64::try_from(data.len()).unwrap_or(0);
                    open.progress.part_is_sent(open.number);
                }
            }
            Some(Err(error)) => {
                if let Some(open) = &mut self.open {
                    error.log(&open.record.request);
                    open.record.status = error.status();
                }
                self.payload = ReplyPayload::Empty;
            }
            None => self.payload = ReplyPayload::Empty,
        }
    }

    /// Whether nothing is left of the body.
    fn is_over(&self) -> bool {
        match &self.payload {
            ReplyPayload::Process(body) => body.is_whole(),
            ReplyPayload::Text(_) => false,
            ReplyPayload::Empty => true,
        }
    }
}

impl Drop for HttpReplyBody {
    fn drop(&mut self) {
        let is_over = self.is_over();
        let Some(open) = self.open.as_mut().filter(|_| !is_over) else { return };
        // A client that takes nothing may not have let the gateway see that the process was late.
        let fault = match &self.payload {
            ReplyPayload::Process(body) => body.take_fault(),
            _ => None,
        };
        open.record.status = fault.as_ref().map_or(CLIENT_GONE, RequestError::status);
        if let Some(fault) = fault {
            fault.log(&open.record.request);
        }
    }
}

impl HttpBody for HttpReplyBody {
    type Data = Bytes;
    type Error = RequestError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestError>>> {
        let this = self.get_mut();
        if let Some(open) = &this.open {
            open.progress.part_is_taken(open.number);
        }
        let piece = match &mut this.payload {
            ReplyPayload::Process(body) => std::task::ready!(body.poll_next(context)),
            ReplyPayload::Text(text) => {
                let text = std::mem::take(text);
                this.payload = ReplyPayload::Empty;
                Some(Ok(text))
            }
            ReplyPayload::Empty => None,
        };
        this.note(piece.as_ref());
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.payload, ReplyPayload::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.payload {
            ReplyPayload::Process(_) => SizeHint::default(),
            ReplyPayload::Text(text) => SizeHint::with_exact(text.len() as u64),
            ReplyPayload::Empty => SizeHint::with_exact(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, fields: &[(&str, &str)]) -> CgiHead {
        let fields = fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        CgiHead { status, reason: b"Fine".to_vec(), fields: fields.collect(), local_redirect: None }
    }

    fn text() -> ReplyPayload {
        ReplyPayload::Text(Bytes::from_static(b"text"))
    }

    #[test]
    fn the_fields_of_a_script_are_copied_but_for_those_of_the_connection() {
        let fields = [
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
            ("Content-Type", "x"),
            ("content-type", "y"),
            ("Connection", "close"),
            ("Bad name", "z"),
        ];
        let response = of_reply(head(201, &fields), text(), false, Version::HTTP_11, None);
        let fields = response.headers();
        assert_eq!(fields.get_all("set-cookie").iter().count(), 2);
        assert_eq!(fields.get_all(CONTENT_TYPE).iter().collect::<Vec<_>>(), ["y"]);
        assert_eq!((fields.get("connection"), &fields[SERVER]), (None, &HeaderValue::from_static(SOFTWARE)));
        assert_eq!((response.status().as_u16(), fields.len()), (201, 4));
        let reason = response.extensions().get::<hyper::ext::ReasonPhrase>().expect("a reason");
        assert_eq!(reason.as_bytes(), b"Fine");
        assert_eq!(response.body().size_hint().exact(), Some(4));
    }

    #[test]
    fn some_replies_have_no_body() {
        for (status, is_head) in [(200, true), (204, false), (304, false)] {
            let response = of_reply(head(status, &[]), text(), is_head, Version::HTTP_11, None);
            assert!(response.body().is_end_stream(), "{status}");
        }
        assert!(!of_reply(head(200, &[]), text(), false, Version::HTTP_11, None).body().is_end_stream());
    }

    #[test]
    fn a_client_of_http_1_0_sees_the_end_by_the_length_or_by_the_connection() {
        let version = |fields: &[_], asked| of_reply(head(200, fields), text(), false, asked, None).version();
        assert_eq!(version(&[], Version::HTTP_10), Version::HTTP_10);
        assert_eq!(version(&[("Content-Length", "4")], Version::HTTP_10), Version::HTTP_11);
        assert_eq!(version(&[], Version::HTTP_11), Version::HTTP_11);
    }

    #[test]
    fn an_error_has_its_status_or_that_of_the_content() {
        let busy = of_error(&RequestError::Busy, None, None);
        assert_eq!(
            (busy.status().as_u16(), &busy.headers()[RETRY_AFTER]),
            (503, &HeaderValue::from_static("1"))
        );
        let own = of_error(&RequestError::Timeout, Some((408, b"Killed process.\n".to_vec())), None);
        assert_eq!((own.status().as_u16(), own.body().size_hint().exact()), (408, Some(16)));
    }
}
