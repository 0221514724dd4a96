//! The text of a file of `/proc/PID`, and its lines.

use std::io::Read;

use super::error::{Field, MapsError, Problem, ReadMapsError};

/// The most bytes that are read of one file: about 600,000 mappings of `maps`, ten times the default limit
/// of mappings in one process (`vm.max_map_count`).
const FILE_LIMIT_BYTES: u64 = 64 << 20;

/// The room a read starts with; most processes have fewer than 600 mappings.
const FIRST_READ_BYTES: usize = 64 << 10;

/// Reads a file of `/proc/PID` in few system calls: the kernel gives at most a page for each.
pub(super) fn read_proc(pid: i32, file: &'static str) -> Result<Vec<u8>, ReadMapsError> {
    let mut text = Vec::with_capacity(FIRST_READ_BYTES);
    let path = format!("/proc/{pid}/{file}");
    std::fs::File::open(path)
        .and_then(|opened| opened.take(FILE_LIMIT_BYTES + 1).read_to_end(&mut text))
        .map_err(|source| ReadMapsError::Io { pid, file, source })?;
    if text.len() as u64 > FILE_LIMIT_BYTES {
        return Err(ReadMapsError::TooLong { pid, file, limit_bytes: FILE_LIMIT_BYTES });
    }
    Ok(text)
}

/// Walks over a text line by line, counting.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    pub(super) number: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { rest: text, number: 0 }
    }

    /// The number and bytes of the line after the last one, without its newline.
    pub(super) fn next_line(&mut self) -> Result<Option<(usize, &'a [u8])>, MapsError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let Some(length) = self.rest.iter().position(|&byte| byte == b'\n') else {
            return Err(MapsError { line: self.number, field: Field::LineEnd, problem: Problem::Missing });
        };
        let (line, rest) = self.rest.split_at(length);
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(Some((self.number, line)))
    }

    /// The line that [`Lines::next_line`] would give, without moving on.
    pub(super) fn peek(&self) -> &'a [u8] {
        self.rest.split(|&byte| byte == b'\n').next().unwrap_or_default()
    }
}
