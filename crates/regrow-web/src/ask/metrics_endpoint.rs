//! The address that serves the metrics: `GET /metrics`, and nothing else.

use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::gateway::Gateway;
use crate::metrics;

/// The longest request.
const MAX_REQUEST_BYTES: u64 = 8192;

/// Answers one request for the metrics.
pub(crate) async fn serve(gateway: Rc<Gateway>, mut stream: TcpStream) {
    let mut request = Vec::new();
    let mut reader = (&mut stream).take(MAX_REQUEST_BYTES);
    let read = async {
        while !request.windows(4).any(|four| four == b"\r\n\r\n") {
            if reader.read_buf(&mut request).await.unwrap_or(0) == 0 {
                break;
            }
        }
    };
    if timeout(gateway.settings.limits.header_timeout, read).await.is_err() {
        return;
    }
    let reply = reply(&request, || gateway.metrics.text());
    // The client may have gone, or read nothing.
    let _ = timeout(gateway.settings.limits.idle_timeout, stream.write_all(reply.as_bytes())).await;
}

/// The reply to a request.
fn reply(request: &[u8], metrics: impl FnOnce() -> String) -> String {
    let (status, text) = if request.starts_with(b"GET /metrics ") {
        ("200 OK", metrics())
    } else {
        ("404 Not Found", "only /metrics is here\n".to_owned())
    };
    let (kind, length) = (metrics::CONTENT_TYPE, text.len());
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_metrics_are_served() {
        let found = reply(b"GET /metrics HTTP/1.1\r\n\r\n", || "a 1\n".to_owned());
        assert!(
            found.starts_with("HTTP/1.1 200 OK\r\n")
                && found.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\na 1\n")
        );
        for other in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"POST /metrics HTTP/1.1\r\n\r\n", b""] {
            assert!(reply(other, || panic!("not asked for")).starts_with("HTTP/1.1 404 "), "{other:?}");
        }
    }
}
