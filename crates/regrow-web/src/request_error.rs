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
    #[error("{program}: no process can be started")]
    Start {
        /// The program, or the application.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// The reply of the script has a malformed head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The output of the script ends before the head of the reply is complete.
    #[error("{}{}", if *.has_text { "there is no blank line after the head of the reply" } else { "the script writes no reply" }, ended(*.status))]
    NoHead {
        /// Whether the script has written anything.
        has_text: bool,
        /// How its process has ended, if it has.
        status: Option<ExitStatus>,
    },
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
            RequestError::Start { .. }
            | RequestError::Input(_)
            | RequestError::Failed(_)
            | RequestError::Function { .. } => 500,
            RequestError::Head(_)
            | RequestError::NoHead { .. }
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
            // A field without a value is no part of the record.
            let cause = std::error::Error::source(self).map(ToString::to_string);
            tracing::warn!(request, cause, "{self}");
        } else {
            tracing::debug!(request, "{self}");
        }
    }
}

/// How a process has ended, behind what its output says.
fn ended(status: Option<ExitStatus>) -> String {
    status.map_or_else(
        || ", and closes its output before its end".to_owned(),
        |status| format!(": the script has ended with {status}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn an_end_without_a_head_says_how_the_script_has_ended() {
        let text = |has_text, raw: Option<i32>| {
            RequestError::NoHead { has_text, status: raw.map(ExitStatus::from_raw) }.to_string()
        };
        assert_eq!(
            text(false, Some(11)),
            "the script writes no reply: the script has ended with signal: 11 (SIGSEGV)"
        );
        assert_eq!(
            text(true, Some(3 << 8)),
            "there is no blank line after the head of the reply: the script has ended with exit status: 3"
        );
        assert_eq!(text(false, None), "the script writes no reply, and closes its output before its end");
    }

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
            (RequestError::Start { program: "x".to_owned(), source: io() }, 500, "Internal Server Error"),
            (RequestError::Input(io()), 500, "Internal Server Error"),
            (RequestError::NoHead { has_text: false, status: None }, 502, "Bad Gateway"),
            (RequestError::Circle { limit: 1 }, 502, "Bad Gateway"),
            (RequestError::Busy, 503, "Service Unavailable"),
            (RequestError::Timeout, 504, "Gateway Timeout"),
        ] {
            assert_eq!((error.status(), error.reason()), (status, reason), "{error}");
        }
    }
}
