//! Bounded reading from a file or from bytes: every range is checked against the size first.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use object::pod::{self, Pod};

use super::error::ElfError;

/// Longest symbol or string table that is searched.
pub(super) const MAX_TABLE_BYTES: u64 = 256 << 20;

/// How much of a streamed table is in memory at a time. A multiple of every entry's size is not
/// needed: `ElfReader::entries` rounds down.
const CHUNK_BYTES: usize = 64 << 10;

/// Where an ELF file's bytes come from.
#[derive(Clone, Copy, Debug)]
pub enum ElfSource<'a> {
    /// An open file, read with `pread`: its offset does not move.
    File(&'a File),
    /// Bytes in memory.
    Bytes(&'a [u8]),
}

impl<'a> From<&'a File> for ElfSource<'a> {
    fn from(file: &'a File) -> Self {
        Self::File(file)
    }
}

impl<'a> From<&'a [u8]> for ElfSource<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for ElfSource<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// A source and its size.
pub(super) struct ElfReader<'a> {
    source: ElfSource<'a>,
    size: u64,
}

/// A range of the file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileRange {
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl<'a> ElfReader<'a> {
    pub(super) fn new(source: ElfSource<'a>) -> Result<Self, ElfError> {
        let size = match source {
            ElfSource::Bytes(bytes) => as_u64(bytes.len()),
            ElfSource::File(file) => {
                let failed =
                    |error: io::Error| ElfError::Read { what: "size", offset: 0, kind: error.kind() };
                file.metadata().map_err(failed)?.len()
            }
        };
        Ok(Self { source, size })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Reads a whole range of at most `limit` bytes.
    pub(super) fn bytes(
        &self,
        what: &'static str,
        range: FileRange,
        limit: u64,
    ) -> Result<Vec<u8>, ElfError> {
        if range.size > limit {
            return Err(ElfError::TooLarge { what, size: range.size, limit });
        }
        self.check(what, range)?;
        let truncated = ElfError::Truncated { what, offset: range.offset };
        let mut buffer = vec![0; usize::try_from(range.size).map_err(|_| truncated)?];
        self.fill(what, range.offset, &mut buffer)?;
        Ok(buffer)
    }

    /// Reads one structure.
    pub(super) fn structure<T: Pod>(&self, what: &'static str, offset: u64) -> Result<T, ElfError> {
        let size = as_u64(size_of::<T>());
        let bytes = self.bytes(what, FileRange { offset, size }, size)?;
        let (value, _) = pod::from_bytes::<T>(&bytes).map_err(|()| ElfError::Malformed { what, offset })?;
        Ok(*value)
    }

    /// Reads a table of at most `limit` bytes whole.
    pub(super) fn table<T: Pod>(
        &self,
        what: &'static str,
        range: FileRange,
        limit: u64,
    ) -> Result<Vec<T>, ElfError> {
        let bytes = self.bytes(what, range, limit)?;
        let count = bytes.len() / size_of::<T>();
        let malformed = |()| ElfError::Malformed { what, offset: range.offset };
        Ok(pod::slice_from_bytes::<T>(&bytes, count).map_err(malformed)?.0.to_vec())
    }

    /// Reads a string that ends with a NUL, without the NUL, of at most `limit` bytes, which must
    /// end inside `table`.
    pub(super) fn string(
        &self,
        what: &'static str,
        table: FileRange,
        at: u64,
        limit: u64,
    ) -> Result<Vec<u8>, ElfError> {
        let offset = table.offset.saturating_add(at);
        let malformed = ElfError::Malformed { what, offset };
        let Some(rest) = table.size.checked_sub(at) else { return Err(malformed) };
        let size = rest.min(limit);
        let mut bytes = self.bytes(what, FileRange { offset, size }, size)?;
        let end = bytes.iter().position(|&byte| byte == 0).ok_or(malformed)?;
        bytes.truncate(end);
        Ok(bytes)
    }

    /// Hands a range to `each` in chunks, in order, with the position in the range where the
    /// chunk begins; stops early when `each` answers false. A chunk is a multiple of `entry_size`
    /// bytes, and a rest that is smaller than one entry is left out.
    pub(super) fn chunks(
        &self,
        what: &'static str,
        range: FileRange,
        entry_size: usize,
        mut each: impl FnMut(u64, &[u8]) -> Result<bool, ElfError>,
    ) -> Result<(), ElfError> {
        if range.size > MAX_TABLE_BYTES {
            return Err(ElfError::TooLarge { what, size: range.size, limit: MAX_TABLE_BYTES });
        }
        self.check(what, range)?;
        let step = CHUNK_BYTES - CHUNK_BYTES % entry_size.clamp(1, CHUNK_BYTES);
        let mut buffer = vec![0; step];
        let mut position = 0;
        while position < range.size {
            let rest = usize::try_from(range.size - position).unwrap_or(usize::MAX);
            let length = rest.min(step) - rest.min(step) % entry_size.max(1);
            let Some(chunk) = buffer.get_mut(..length).filter(|chunk| !chunk.is_empty()) else { break };
            self.fill(what, range.offset + position, chunk)?;
            if !each(position, chunk)? {
                break;
            }
            position += as_u64(length);
        }
        Ok(())
    }

    fn check(&self, what: &'static str, range: FileRange) -> Result<(), ElfError> {
        match range.offset.checked_add(range.size) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(ElfError::Truncated { what, offset: range.offset }),
        }
    }

    fn fill(&self, what: &'static str, offset: u64, buffer: &mut [u8]) -> Result<(), ElfError> {
        let truncated = ElfError::Truncated { what, offset };
        match self.source {
            ElfSource::Bytes(bytes) => {
                let start = usize::try_from(offset).map_err(|_| truncated.clone())?;
                let end = start.checked_add(buffer.len()).ok_or_else(|| truncated.clone())?;
                buffer.copy_from_slice(bytes.get(start..end).ok_or(truncated)?);
                Ok(())
            }
            ElfSource::File(file) => file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => truncated,
                kind => ElfError::Read { what, offset, kind },
            }),
        }
    }
}

/// Lengths in memory fit a file offset on every machine that Linux runs on.
pub(super) fn as_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
