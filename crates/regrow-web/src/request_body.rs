//! The body of a request on its way from a client to the standard input of a process.
//!
//! ```text
//!  length known:    RequestBody ──> StdinSource::Stream      a pipe; the process reads while the client sends
//!  length unknown:  RequestBody ──> StdinSource::Collected   a file; CONTENT_LENGTH needs the length (RFC 3875, 4.1.2)
//!                                                            up to 64 KiB one in memory, above one on the disk
//! ```

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::request_error::RequestError;

/// The longest body that is collected in memory. No client may fill the memory with one whose length it does not say.
const IN_MEMORY_BYTES: usize = 64 * 1024;

/// The body of a request, as a client sends it.
pub(crate) enum RequestBody {
    /// By HTTP.
    Http(Incoming),
    /// By FastCGI. A channel that closes without [`BodyPiece::End`] means that the client has gone.
    FastCgi(mpsc::Receiver<BodyPiece>),
}

/// A piece of a body that a web server sends by FastCGI.
pub(crate) enum BodyPiece {
    Data(Bytes),
    End,
}

impl RequestBody {
    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, RequestError>> {
        match self {
            RequestBody::Http(incoming) => loop {
                let frame = poll_fn(|context| Pin::new(&mut *incoming).poll_frame(context)).await?;
                match frame.map(Frame::into_data) {
                    Ok(Ok(data)) => return Some(Ok(data)),
                    // Trailers are no part of the body.
                    Ok(Err(_)) => {}
                    Err(error) => {
                        tracing::debug!(%error, "the body of a request breaks off");
                        return Some(Err(RequestError::Malformed("the body cannot be read")));
                    }
                }
            },
            RequestBody::FastCgi(pieces) => match pieces.recv().await {
                Some(BodyPiece::Data(data)) => Some(Ok(data)),
                Some(BodyPiece::End) => None,
                None => Some(Err(RequestError::Input(io::ErrorKind::UnexpectedEof.into()))),
            },
        }
    }

    /// Collects the body in a file, up to `limit` bytes. Returns what a process reads, and its length. `idle` is the longest pause of
    /// the client.
    pub(crate) async fn collect(
        mut self,
        limit: Option<u64>,
        idle: Duration,
    ) -> Result<(StdinSource, u64), RequestError> {
        let mut collected = CollectedBody::default();
        let mut length = 0;
        while let Some(piece) = timeout(idle, self.next()).await.map_err(|_| RequestError::Slow)? {
            let piece = piece?;
            length += u64::try_from(piece.len()).unwrap_or(u64::MAX);
            if let Some(limit) = limit.filter(|&limit| length > limit) {
                return Err(RequestError::TooLarge { limit });
            }
            collected.add(&piece)?;
        }
        let stdin = if length == 0 { StdinSource::Empty } else { StdinSource::Collected(collected.file()?) };
        Ok((stdin, length))
    }
}

/// A body of which all pieces are kept until its end.
#[derive(Default)]
struct CollectedBody {
    /// As long as there is no file.
    bytes: BytesMut,
    /// On the disk.
    file: Option<File>,
}

impl CollectedBody {
    fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.bytes.len() + piece.len() <= IN_MEMORY_BYTES {
            self.bytes.extend_from_slice(piece);
            return Ok(());
        }
        if self.file.is_none() {
            self.file.insert(tempfile::tempfile()?).write_all(&std::mem::take(&mut self.bytes))?;
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(piece))
    }

    /// A file from whose start all of it is read.
    fn file(self) -> io::Result<File> {
        let mut file = match self.file {
            Some(file) => file,
            None => {
                let mut file = File::from(memfd_create("regrow-body", MemfdFlags::CLOEXEC)?);
                file.write_all(&self.bytes)?;
                file
            }
        };
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }
}

/// What the standard input of a process is.
pub(crate) enum StdinSource {
    /// Nothing.
    Empty,
    /// A file that holds the whole body.
    Collected(File),
    /// A pipe, through which the body comes.
    Stream(RequestBody),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;

    const LONG: Duration = Duration::from_secs(600);

    /// What is collected of pieces, after which the channel closes.
    fn collected(pieces: Vec<BodyPiece>, limit: Option<u64>) -> Result<(StdinSource, u64), RequestError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let (sender, receiver) = mpsc::channel(8);
            for piece in pieces {
                sender.send(piece).await.expect("room");
            }
            drop(sender);
            RequestBody::FastCgi(receiver).collect(limit, LONG).await
        })
    }

    fn data(text: &'static str) -> BodyPiece {
        BodyPiece::Data(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn pieces_are_collected_in_order_up_to_the_end() {
        let (stdin, length) =
            collected(vec![data("ab"), data("c"), BodyPiece::End], Some(3)).expect("a body");
        let StdinSource::Collected(mut file) = stdin else { panic!("no file") };
        let mut text = String::new();
        file.read_to_string(&mut text).expect("a text");
        assert_eq!((text.as_str(), length), ("abc", 3));
        assert!(matches!(collected(vec![BodyPiece::End], None), Ok((StdinSource::Empty, 0))));
    }

    #[test]
    fn a_short_body_is_kept_in_memory_and_a_long_one_on_the_disk() {
        let piece = |bytes: Vec<u8>| BodyPiece::Data(bytes.into());
        for (first, second, is_in_memory) in [
            (1, 0, true),
            (40_000, IN_MEMORY_BYTES - 40_000, true),
            (40_000, 30_000, false),
            (100_000, 1, false),
        ] {
            let whole = [vec![1; first], vec![2; second]].concat();
            let pieces = vec![piece(whole[..first].to_vec()), piece(whole[first..].to_vec()), BodyPiece::End];
            let (stdin, length) = collected(pieces, None).expect("a body");
            let StdinSource::Collected(mut file) = stdin else { panic!("no file") };
            let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("its path");
            assert_eq!(path.starts_with("/memfd:regrow-body (deleted)"), is_in_memory, "{}", path.display());
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).expect("a body");
            assert!(bytes == whole && length == whole.len() as u64);
        }
    }

    #[test]
    fn a_body_that_is_too_large_or_breaks_off_is_an_error() {
        let too_large = collected(vec![data("ab"), data("c"), BodyPiece::End], Some(2));
        assert!(matches!(too_large, Err(RequestError::TooLarge { limit: 2 })));
        assert!(matches!(collected(vec![data("ab")], None), Err(RequestError::Input(_))));
    }
}
