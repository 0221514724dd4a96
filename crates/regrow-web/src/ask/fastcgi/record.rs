//! The records of FastCGI 1.0.
//!
//! ```text
//!  version 1 | type | id, 2 bytes | length, 2 bytes | padding | 0 || content … | padding …
//! ```

use bytes::{Buf as _, Bytes, BytesMut};

use crate::job::Variables;

/// The length of the header of a record.
const HEADER_BYTES: usize = 8;
const VERSION: u8 = 1;
/// The longest content of a record.
pub(crate) const MAX_CONTENT_BYTES: usize = 0xffff;

/// The type of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordType {
    Begin = 1,
    Abort = 2,
    End = 3,
    Params = 4,
    Stdin = 5,
    Stdout = 6,
    GetValues = 9,
    GetValuesResult = 10,
    Unknown = 11,
}

/// The protocol status at the end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ProtocolStatus {
    RequestComplete = 0,
    CannotMultiplex = 1,
    UnknownRole = 3,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FastCgiRecord {
    /// The type, which may be an unknown one.
    pub(crate) kind: u8,
    pub(crate) id: u16,
    pub(crate) content: Bytes,
}

/// Why bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("a record has version {0}, not 1")]
    Version(u8),
    #[error("a name or a value is longer than the content of its record")]
    Pair,
}

/// Takes a record from the start of `from`; `None` if it is not complete yet.
pub(crate) fn take(from: &mut BytesMut) -> Result<Option<FastCgiRecord>, RecordError> {
    let Some(header) = from.get(..HEADER_BYTES) else { return Ok(None) };
    let (version, kind) = (header[0], header[1]);
    let (id, length) =
        (u16::from_be_bytes([header[2], header[3]]), u16::from_be_bytes([header[4], header[5]]));
    let (length, padding) = (usize::from(length), usize::from(header[6]));
    if version != VERSION {
        return Err(RecordError::Version(version));
    }
    if from.len() < HEADER_BYTES + length + padding {
        return Ok(None);
    }
    from.advance(HEADER_BYTES);
    let content = from.split_to(length).freeze();
    from.advance(padding);
    Ok(Some(FastCgiRecord { kind, id, content }))
}

/// Appends content as records. Empty content becomes an empty record, which ends a stream.
pub(crate) fn put(kind: RecordType, id: u16, content: &[u8], to: &mut BytesMut) {
    let pieces = content.chunks(MAX_CONTENT_BYTES).chain(content.is_empty().then_some(&[][..]));
    for piece in pieces {
        let length = u16::try_from(piece.len()).unwrap_or(u16::MAX).to_be_bytes();
        let id = id.to_be_bytes();
        to.extend_from_slice(&[VERSION, kind as u8, id[0], id[1], length[0], length[1], 0, 0]);
        to.extend_from_slice(piece);
    }
}

/// Appends the end of a request.
pub(crate) fn put_end(id: u16, status: ProtocolStatus, to: &mut BytesMut) {
    put(RecordType::End, id, &[0, 0, 0, 0, status as u8, 0, 0, 0], to);
}

/// Reads names with their values.
pub(crate) fn pairs(mut from: &[u8]) -> Result<Variables, RecordError> {
    let mut pairs = Vec::new();
    while !from.is_empty() {
        let (name, value) = (length(&mut from)?, length(&mut from)?);
        if name.checked_add(value).is_none_or(|both| both > from.len()) {
            return Err(RecordError::Pair);
        }
        let (pair, rest) = from.split_at(name + value);
        let (name, value) = pair.split_at(name);
        pairs.push((name.to_vec(), value.to_vec()));
        from = rest;
    }
    Ok(pairs)
}

/// Takes a length: one byte up to 127, or four bytes with the highest bit set.
fn length(from: &mut &[u8]) -> Result<usize, RecordError> {
    let &first = from.first().ok_or(RecordError::Pair)?;
    if first < 0x80 {
        *from = &from[1..];
        return Ok(usize::from(first));
    }
    let (bytes, rest) = from.split_first_chunk::<4>().ok_or(RecordError::Pair)?;
    *from = rest;
    usize::try_from(u32::from_be_bytes(*bytes) & 0x7fff_ffff).map_err(|_| RecordError::Pair)
}

/// Appends a name with its value.
pub(crate) fn put_pair(name: &[u8], value: &[u8], to: &mut Vec<u8>) {
    for part in [name, value] {
        match u8::try_from(part.len()) {
            Ok(length) if length < 0x80 => to.push(length),
            _ => to.extend((u32::try_from(part.len()).unwrap_or(u32::MAX) | 0x8000_0000).to_be_bytes()),
        }
    }
    to.extend_from_slice(name);
    to.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn a_record_is_laid_out_as_specified() {
        let mut bytes = BytesMut::new();
        put(RecordType::Stdout, 0x0102, b"ab", &mut bytes);
        put_end(1, ProtocolStatus::CannotMultiplex, &mut bytes);
        assert_eq!(
            &bytes[..],
            b"\x01\x06\x01\x02\x00\x02\x00\x00ab\x01\x03\x00\x01\x00\x08\x00\x00\0\0\0\0\x01\0\0\0"
        );
        let mut padded = BytesMut::from(&b"\x01\x05\x00\x01\x00\x01\x03\x00x\0\0\0rest"[..]);
        let record = take(&mut padded).expect("a record").expect("whole");
        assert_eq!(
            (record.kind, record.id, &record.content[..], &padded[..]),
            (5, 1, &b"x"[..], &b"rest"[..])
        );
        assert_eq!(take(&mut BytesMut::from(&b"\x02\0\0\0\0\0\0\0"[..])), Err(RecordError::Version(2)));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for bytes in [&b"\x01"[..], b"\x01\x01a", b"\x80\0\0", b"\xff\xff\xff\xff\x00", b"\x02\x00a"] {
            assert_eq!(pairs(bytes), Err(RecordError::Pair), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_put_is_taken(contents in vec(vec(any::<u8>(), 0..70_000), 0..4), cut in 0_usize..100) {
            let mut bytes = BytesMut::new();
            contents.iter().for_each(|content| put(RecordType::Stdin, 7, content, &mut bytes));
            let mut come = BytesMut::new();
            let mut all = Vec::new();
            for piece in bytes.chunks(cut + 1) {
                come.extend_from_slice(piece);
                while let Some(record) = take(&mut come).expect("a record") {
                    all.extend_from_slice(&record.content);
                }
            }
            prop_assert_eq!(all, contents.concat());
            prop_assert!(come.is_empty());
        }

        #[test]
        fn pairs_are_read_as_written(wanted in vec((vec(any::<u8>(), 0..200), vec(any::<u8>(), 0..200)), 0..5)) {
            let mut bytes = Vec::new();
            wanted.iter().for_each(|(name, value)| put_pair(name, value, &mut bytes));
            prop_assert_eq!(pairs(&bytes), Ok(wanted));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in vec(any::<u8>(), 0..100)) {
            let _ = pairs(&bytes);
            let _ = take(&mut BytesMut::from(&bytes[..]));
        }
    }
}
