//! Pipes.

use std::io::{self, PipeReader, PipeWriter};

use super::wrapper::Async;

/// A pipe: what is written to the second end is read from the first one.
///
/// # Errors
/// The kernel's.
pub fn pipe() -> io::Result<(Async<PipeReader>, Async<PipeWriter>)> {
    let (reader, writer) = io::pipe()?;
    Ok((Async::new(reader)?, Async::new(writer)?))
}
