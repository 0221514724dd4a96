//! Why a gateway does not serve, and why it does not answer a request with what a script says.

use std::io;
use std::path::PathBuf;

use crate::head::HeadError;
use crate::target::TargetError;

/// Why a gateway cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// An address cannot be listened at.
    #[error("{address} cannot be listened at")]
    Listen {
        /// The address, as it was given.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// A file or folder cannot be used.
    #[error("{}: {what}", path.display())]
    Path {
        /// The file or folder.
        path: PathBuf,
        /// What cannot be done with it.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(&'static str),
    /// The system refuses what every server needs.
    #[error("{what}")]
    System {
        /// What it refuses.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

/// Why a request is answered by the gateway itself.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Its path cannot be decoded, or climbs.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// What a server sends makes no sense.
    #[error("{0}")]
    Malformed(&'static str),
    /// The client takes too long to send the request.
    #[error("the request does not come")]
    Slow,
    /// The request's body is larger than it may be.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The most that it may be.
        limit: u64,
    },
    /// No process can be started.
    #[error("no process can be started")]
    Start(#[source] io::Error),
    /// The script's reply has no head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The script ends before its reply's head does.
    #[error("the script ends before the head of its reply")]
    NoHead,
    /// The head of the reply is too long.
    #[error("the head of the reply is longer than {limit} bytes")]
    LongHead {
        /// The most that it may be.
        limit: usize,
    },
    /// The script's reply names paths of this server in a circle.
    #[error("more than {limit} local redirects")]
    Circle {
        /// The most that are followed.
        limit: usize,
    },
    /// The body cannot be passed on.
    #[error("the request cannot be passed on")]
    Input(#[source] io::Error),
    /// There is no place in the queue, or none became free.
    #[error("too many requests at a time")]
    Busy,
    /// The script takes too long.
    #[error("the script takes longer than it may")]
    Timeout,
    /// What writes the reply has failed.
    #[error("it ended with {0}")]
    Failed(std::process::ExitStatus),
    /// The function has failed.
    #[error("the function ended with {status}")]
    Function {
        /// How.
        status: std::process::ExitStatus,
        /// What it had written.
        output: bytes::Bytes,
    },
    /// A function is not asked like this.
    #[error("functions have no such method")]
    Method,
}

impl Refusal {
    /// The status that the client is given.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Target(TargetError::Malformed) | Refusal::Malformed(_) => 400,
            Refusal::Target(TargetError::Forbidden) => 403,
            Refusal::Target(TargetError::NotFound) => 404,
            Refusal::Method => 405,
            Refusal::Slow => 408,
            Refusal::TooLarge { .. } => 413,
            Refusal::Start(_) | Refusal::Input(_) | Refusal::Failed(_) | Refusal::Function { .. } => 500,
            Refusal::Head(_) | Refusal::NoHead | Refusal::LongHead { .. } | Refusal::Circle { .. } => 502,
            Refusal::Busy => 503,
            Refusal::Timeout => 504,
        }
    }

    /// The text that belongs to the status (RFC 9110, 15).
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.status() {
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            413 => "Content Too Large",
            500 => "Internal Server Error",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            _ => "Gateway Timeout",
        }
    }

    /// Tells the log of it: where the script or the system is at fault, so that its administrator sees it.
    pub(crate) fn log(&self, request: &str) {
        if self.status() >= 500 && !matches!(self, Refusal::Busy) {
            let cause = std::error::Error::source(self).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(request, cause, "{self}");
        } else {
            tracing::debug!(request, "{self}");
        }
    }
}
