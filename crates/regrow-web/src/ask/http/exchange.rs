//! One request by HTTP, from its head to the head of its reply.
//!
//! ```text
//!  head ── body: a pipe, or collected ──> job ──> process ──> reply ──> response
//!            ^───────────────── local redirect ─────────────────┘
//! ```

use std::rc::Rc;
use std::time::Instant;

use http::header::{CONTENT_LENGTH, HOST};
use http::{Method, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::ask::access_record::AccessRecord;
use crate::ask::function;
use crate::ask::http::client_socket::RequestProgress;
use crate::ask::http::job;
use crate::ask::http::response::{self, HttpReplyBody, OpenExchange, ReplyPayload};
use crate::ask::request_head::RequestHead;
use crate::cgi_head::{CgiHead, HeadError};
use crate::gateway::Gateway;
use crate::request_body::{RequestBody, StdinSource};
use crate::request_error::RequestError;

/// The most local redirects that the gateway follows for one request.
const MAX_REDIRECTS: usize = 10;

/// One request and its reply.
pub(crate) struct HttpExchange {
    gateway: Rc<Gateway>,
    head: RequestHead,
    /// Moves into the body of the reply.
    open: Option<OpenExchange>,
}

impl HttpExchange {
    pub(crate) fn new(gateway: Rc<Gateway>, head: RequestHead, progress: Rc<RequestProgress>) -> Self {
        let number = progress.head_has_come();
        let uri = head.uri.path_and_query().map_or("*", http::uri::PathAndQuery::as_str);
        let request = format!("{} {uri} {:?}", head.method, head.version);
        let record = AccessRecord::new(&gateway, head.peer.ip().to_string(), request);
        let open = Some(OpenExchange { record, progress, number });
        Self { gateway, head, open }
    }

    /// The reply to the request.
    pub(crate) async fn answer(mut self, body: Incoming) -> Response<HttpReplyBody> {
        match self.reply(body).await {
            Ok(reply) => reply,
            Err(error) => {
                let function = self.gateway.settings.content.function();
                let own = function.and_then(|_| function::error_reply(&error));
                response::of_error(&error, own, self.open.take())
            }
        }
    }

    async fn reply(&mut self, body: Incoming) -> Result<Response<HttpReplyBody>, RequestError> {
        let gateway = Rc::clone(&self.gateway);
        let function = gateway.settings.content.function();
        if self.head.version == Version::HTTP_11 && self.head.fields.get_all(HOST).iter().count() != 1 {
            return Err(RequestError::Malformed("a request of HTTP/1.1 needs exactly one field Host"));
        }
        self.head.take_authority();
        if let Some(function) = function
            && let Some((head, text)) = function::health(function, &self.head)?
        {
            return Ok(self.respond(head, ReplyPayload::Text(text)));
        }
        let began = Instant::now();
        let (mut stdin, mut length) = self.stdin(body).await?;
        for _ in 0..=MAX_REDIRECTS {
            let job = job::of_request(&gateway, &self.head, stdin, length)?;
            let pending = gateway.launcher.start(job).await?;
            if let Some(function) = function {
                let (text, body) = pending.result().await?;
                let head = function::reply_head(function, &self.head, began.elapsed());
                let payload = body.map_or(ReplyPayload::Text(text), ReplyPayload::Process);
                return Ok(self.respond(head, payload));
            }
            let reply = pending.reply().await?;
            match reply.head.local_redirect.as_deref().map(|path| self.head.redirected(path)) {
                None => return Ok(self.respond(reply.head, ReplyPayload::Process(reply.body))),
                Some(None) => return Err(RequestError::Head(HeadError::Field)),
                Some(Some(other)) => self.head = other,
            }
            tokio::task::spawn_local(reply.body.discard());
            (stdin, length) = (StdinSource::Empty, None);
        }
        Err(RequestError::Circle { limit: MAX_REDIRECTS })
    }

    /// What the process reads, and the length of the body; `None` if the request has no body and says no length.
    async fn stdin(&self, body: Incoming) -> Result<(StdinSource, Option<u64>), RequestError> {
        let limits = &self.gateway.settings.limits;
        if body.is_end_stream() {
            let says_zero = self.head.fields.contains_key(CONTENT_LENGTH);
            return Ok((StdinSource::Empty, says_zero.then_some(0)));
        }
        let exact = body.size_hint().exact();
        let body = RequestBody::Http(body);
        let Some(length) = exact else {
            let (stdin, length) = body.collect(limits.body_bytes, limits.idle_timeout).await?;
            return Ok((stdin, Some(length)));
        };
        match limits.body_bytes {
            Some(limit) if length > limit => Err(RequestError::TooLarge { limit }),
            _ => Ok((StdinSource::Stream(body), Some(length))),
        }
    }

    /// The response for a CGI head and its body.
    fn respond(&mut self, head: CgiHead, payload: ReplyPayload) -> Response<HttpReplyBody> {
        let is_head = self.head.method == Method::HEAD;
        response::of_reply(head, payload, is_head, self.head.version, self.open.take())
    }
}
