//! A server of one page by HTTP: so many connections at a time, each of which asks once and has so much time for it.
//!
//! ```text
//!   accept, while there is room ──> a thread: head ──> reply ──> closed
//! ```

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a client may take to ask, and then to take the reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nobody is served after a connection could not be taken.
const REST: Duration = Duration::from_millis(100);
/// The longest head of a request.
const MAX_HEAD_BYTES: usize = 8192;

/// What is answered.
#[derive(Debug)]
pub(super) struct Page {
    /// The status line, from the number on.
    pub(super) status: &'static str,
    /// The content type.
    pub(super) kind: &'static str,
    /// The content.
    pub(super) text: String,
}

impl Page {
    /// A line of text.
    pub(super) fn line(status: &'static str, text: &str) -> Page {
        Page { status, kind: "text/plain; charset=utf-8", text: format!("{text}\n") }
    }
}

/// The connections that are open.
#[derive(Debug, Clone, Default)]
struct Room(Arc<(Mutex<usize>, Condvar)>);

impl Room {
    /// Waits until there are fewer than so many, and adds one.
    fn enter(&self, most: usize) -> Entered {
        let (open, left) = &*self.0;
        let open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = left.wait_while(open, |open| *open >= most).unwrap_or_else(PoisonError::into_inner);
        *open += 1;
        Entered(self.clone())
    }
}

/// A connection that is open.
#[derive(Debug)]
struct Entered(Room);

impl Drop for Entered {
    fn drop(&mut self) {
        let (open, left) = &*self.0.0;
        *open.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        left.notify_one();
    }
}

/// Answers requests with what `page` makes of their target, to so many clients at a time, as long as the process lives.
pub(super) fn serve(
    listener: &TcpListener,
    most: usize,
    page: impl Fn(&str) -> Page + Clone + Send + 'static,
) -> ! {
    let room = Room::default();
    loop {
        let entered = room.enter(most);
        let taken = listener.accept().and_then(|(stream, _)| {
            let page = page.clone();
            let answer = move || {
                let _entered = entered;
                // The client has left, or takes too long.
                let _ = answer(stream, page);
            };
            std::thread::Builder::new().name("regrow-metrics".to_owned()).spawn(answer)
        });
        if let Err(error) = taken {
            tracing::warn!(%error, "a client of the metrics is turned away");
            std::thread::sleep(REST);
        }
    }
}

/// Answers one request.
fn answer(mut stream: TcpStream, page: impl Fn(&str) -> Page) -> io::Result<()> {
    let head = head(&mut stream)?;
    let mut words = head.split(u8::is_ascii_whitespace);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let page = match method {
        b"GET" | b"HEAD" => page(&String::from_utf8_lossy(target)),
        _ => Page::line("405 Method Not Allowed", "only GET is answered"),
    };
    let Page { status, kind, text } = &page;
    let length = text.len();
    let mut reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if method != b"HEAD" {
        reply.push_str(text);
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(reply.as_bytes())
}

/// The head of a request, or the start of a longer one.
fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => head.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// A server of a page that says what was asked for.
    fn served(most: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || serve(&listener, most, |target| Page::line("200 OK", target)));
        address
    }

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("written");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("read");
        reply
    }

    #[test]
    fn a_page_is_made_for_its_target() {
        let address = served(4);
        let reply = asked(address, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\n/a\n"), "{reply}");
        assert!(reply.contains("\r\nContent-Length: 3\r\n"));
        assert!(asked(address, "HEAD /a HTTP/1.1\r\n\r\n").ends_with("\r\nConnection: close\r\n\r\n"));
        assert!(asked(address, "POST /a HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn no_more_than_so_many_are_served_at_a_time_and_who_waits_comes_next() {
        let address = served(2);
        let mut held: Vec<TcpStream> =
            (0..2).map(|_| TcpStream::connect(address).expect("a connection")).collect();
        let mut third = TcpStream::connect(address).expect("it waits in the kernel");
        third.write_all(b"GET /third HTTP/1.1\r\n\r\n").expect("written");
        third.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
        assert!(third.read(&mut [0]).is_err(), "two that say nothing have all the room");
        drop(held.pop());
        third.set_read_timeout(None).expect("set");
        let mut reply = String::new();
        third.read_to_string(&mut reply).expect("read");
        assert!(reply.ends_with("/third\n"), "{reply}");
    }
}
