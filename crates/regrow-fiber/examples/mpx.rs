//! The letters' `mpx`: standard input is copied to standard output, each byte handed from a reader to a writer.
//!
//! `cargo run --release --example mpx < FILE > COPY`

use std::io::{BufReader, BufWriter, Read, Write};

use regrow_fiber::{Fiber, State};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The writer is a fiber: it waits for the next byte in the middle of its loop, and says whether the last one was written.
    let mut writer = Fiber::<Option<u8>, bool, std::io::Result<()>>::new(|suspender, mut next| {
        let mut output = BufWriter::new(std::io::stdout().lock());
        while let Some(byte) = next {
            output.write_all(&[byte])?;
            next = suspender.suspend(true);
        }
        output.flush()
    })?;
    for byte in BufReader::new(std::io::stdin().lock()).bytes() {
        if let State::Returned(ended) = writer.resume(Some(byte?)) {
            return Ok(ended?);
        }
    }
    match writer.resume(None) {
        State::Returned(ended) => Ok(ended?),
        State::Yielded(_) => unreachable!("the writer ends with the input"),
    }
}
