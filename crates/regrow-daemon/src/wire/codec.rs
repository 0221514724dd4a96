//! Messages as bytes: a header of eight bytes (magic, version, kind), then the fields of the kind without gaps.
//!
//! Numbers are little-endian. A string or list begins with its length as a `u32`.
//!
//! Invariant: decoding allocates no more than the message is long, and never panics.

use regrow_sys::strings::Strings;

pub use regrow_abi::client::{MAGIC, MAX_FDS, MAX_MESSAGE, MAX_TARGETS, VERSION};

/// Why bytes are no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It does not begin as a message does.
    #[error("{length} bytes that do not begin with a message's magic")]
    NoMessage {
        /// Its length.
        length: usize,
    },
    /// The other side is of another version.
    #[error("the other side speaks version {theirs} of the protocol, this one version {VERSION}")]
    Version {
        /// The version of the message.
        theirs: u16,
    },
    /// There is no such kind.
    #[error("message of kind {kind}, which does not exist")]
    Kind {
        /// The number.
        kind: u16,
    },
    /// A field ends after the message, or is not what it must be.
    #[error("field {field} of message of kind {kind} is malformed")]
    Field {
        /// The kind.
        kind: u16,
        /// The name of the field.
        field: &'static str,
    },
    /// There are bytes after the last field.
    #[error("{bytes} bytes after the last field of message of kind {kind}")]
    Trailing {
        /// The kind.
        kind: u16,
        /// How many.
        bytes: usize,
    },
}

/// Puts a message together.
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn new(kind: u16) -> Writer {
        let mut bytes = Vec::with_capacity(4096);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&kind.to_le_bytes());
        Writer(bytes)
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A flag: a number that is 0 or 1.
    pub(super) fn flag(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// A flag, and the value if there is one.
    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(value);
    }
}

/// Takes a message apart.
pub(super) struct Reader<'a> {
    pub(super) kind: u16,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Result<Reader<'a>, WireError> {
        let no_message = || WireError::NoMessage { length: message.len() };
        let (magic, rest) = message.split_first_chunk::<4>().ok_or_else(no_message)?;
        let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(no_message)?;
        let (kind, rest) = rest.split_first_chunk::<2>().ok_or_else(no_message)?;
        if *magic != MAGIC {
            return Err(no_message());
        }
        let theirs = u16::from_le_bytes(*version);
        if theirs != VERSION {
            return Err(WireError::Version { theirs });
        }
        Ok(Reader { kind: u16::from_le_bytes(*kind), rest })
    }

    /// Refuses a field whose value is not what it must be.
    pub(super) fn require(&self, holds: bool, field: &'static str) -> Result<(), WireError> {
        if holds { Ok(()) } else { Err(self.malformed(field)) }
    }

    pub(super) fn malformed(&self, field: &'static str) -> WireError {
        WireError::Field { kind: self.kind, field }
    }

    fn chunk<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.malformed(field))?;
        self.rest = rest;
        Ok(*chunk)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.chunk(field).map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Result<i32, WireError> {
        self.chunk(field).map(i32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.chunk(field).map(u64::from_le_bytes)
    }

    pub(super) fn u64s<const N: usize>(&mut self, field: &'static str) -> Result<[u64; N], WireError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.u64(field)?;
        }
        Ok(words)
    }

    /// A number that is 0 or 1.
    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, WireError> {
        match self.u32(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed(field)),
        }
    }

    /// A flag, and the value if the flag says that there is one.
    pub(super) fn option<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self, &'static str) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        if self.flag(field)? { read(self, field).map(Some) } else { Ok(None) }
    }

    pub(super) fn bytes(&mut self, field: &'static str) -> Result<Vec<u8>, WireError> {
        let length = usize::try_from(self.u32(field)?).map_err(|_| self.malformed(field))?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.malformed(field))?;
        self.rest = rest;
        Ok(bytes.to_vec())
    }

    /// A string without NUL.
    pub(super) fn string(&mut self, field: &'static str) -> Result<Vec<u8>, WireError> {
        let bytes = self.bytes(field)?;
        if bytes.contains(&0) { Err(self.malformed(field)) } else { Ok(bytes) }
    }

    /// Strings, each with its NUL.
    pub(super) fn strings(&mut self, field: &'static str) -> Result<Strings, WireError> {
        let block = self.bytes(field)?;
        Strings::from_block(block).ok_or_else(|| self.malformed(field))
    }

    pub(super) fn end<T>(&self, message: T) -> Result<T, WireError> {
        if self.rest.is_empty() {
            Ok(message)
        } else {
            Err(WireError::Trailing { kind: self.kind, bytes: self.rest.len() })
        }
    }
}
