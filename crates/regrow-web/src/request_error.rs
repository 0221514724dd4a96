//! Why the gateway answers a request itself, in place of a script, and with which status.

use std::io;
use std::process::ExitStatus;

use crate::cgi_head::HeadError;

/// Why the gateway answers a request itself.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The client or the web server sends a request that makes no sense.
    #[error("{0}")]
    Malformed(&'static str),
    /// The path of the request names no script.
    #[error("there is no such script")]
    NotFound,
    /// The path of the request names a file that the gateway does not run.
    #[error("the script may not be run")]
    Forbidden,
    /// The client sends the request too slowly.
    #[error("the client takes too long to send the request")]
    Slow,
    /// The body of the request is too large.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The largest size.
        limit: u64,
    },
    /// The gateway cannot start a process.
    #[error("no process can be started")]
    Start(#[source] io::Error),
    /// The reply of the script has a malformed head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The script ends before the head of its reply is complete.
    #[error("the script ends before the head of its reply is complete")]
    NoHead,
    /// The head of the reply is too long.
    #[error("the head of the reply is longer than {limit} bytes")]
    LongHead {
        /// The greatest length.
        limit: usize,
    },
    /// Local redirects lead in a circle.
    #[error("more than {limit} local redirects")]
    Circle {
        /// The most that the gateway follows.
        limit: usize,
    },
    /// The gateway cannot pass bytes from the client to the process, or back.
    #[error("the request cannot be passed on")]
    Input(#[from] io::Error),
    /// The queue is full, or no place has become free in time.
    #[error("too many requests at a time")]
    Busy,
    /// The script takes too long.
    #[error("the script takes too long")]
    Timeout,
    /// The process that writes the reply has failed.
    #[error("the process ended with {0}")]
    Failed(ExitStatus),
    /// The function has failed.
    #[error("the function ended with {status}")]
    Function {
        /// How its process ended.
        status: ExitStatus,
        /// What it wrote before.
        output: bytes::Bytes,
    },
    /// Functions do not answer requests of this method.
    #[error("functions have no such method")]
    Method,
}

impl RequestError {
    /// The status of the reply.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            RequestError::Malformed(_) => 400,
            RequestError::Forbidden => 403,
            RequestError::NotFound => 404,
            RequestError::Method => 405,
            RequestError::Slow => 408,
            RequestError::TooLarge { .. } => 413,
            RequestError::Start(_)
            | RequestError::Input(_)
            | RequestError::Failed(_)
            | RequestError::Function { .. } => 500,
            RequestError::Head(_)
            | RequestError::NoHead
            | RequestError::LongHead { .. }
            | RequestError::Circle { .. } => 502,
            RequestError::Busy => 503,
            RequestError::Timeout => 504,
        }
    }

    /// The reason phrase of the status (RFC 9110, 15).
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

    /// Writes the error to the log. Faults of the script or of the system are warnings, which an administrator sees.
    pub(crate) fn log(&self, request: &str) {
        if self.status() >= 500 && !matches!(self, RequestError::Busy) {
            let cause = std::error::Error::source(self).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(request, cause, "{self}");
        } else {
            tracing::debug!(request, "{self}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_a_status_and_its_reason() {
        let io = || io::Error::from(io::ErrorKind::NotFound);
        for (error, status, reason) in [
            (RequestError::Malformed("x"), 400, "Bad Request"),
            (RequestError::Forbidden, 403, "Forbidden"),
            (RequestError::NotFound, 404, "Not Found"),
            (RequestError::Method, 405, "Method Not Allowed"),
            (RequestError::Slow, 408, "Request Timeout"),
            (RequestError::TooLarge { limit: 1 }, 413, "Content Too Large"),
            (RequestError::Start(io()), 500, "Internal Server Error"),
            (RequestError::Input(io()), 500, "Internal Server Error"),
            (RequestError::NoHead, 502, "Bad Gateway"),
            (RequestError::Circle { limit: 1 }, 502, "Bad Gateway"),
            (RequestError::Busy, 503, "Service Unavailable"),
            (RequestError::Timeout, 504, "Gateway Timeout"),
        ] {
            assert_eq!((error.status(), error.reason()), (status, reason), "{error}");
        }
    }
}
