//! Arguments and environments: lists of strings, each ended by a NUL byte.
//!
//! ```text
//!   H O M E = / r o o t \0 P A T H = / b i n \0        one block, each entry ended by a NUL
//!   '------ entry 0 -----' '----- entry 1 ----'
//! ```
//!
//! Invariant: the block is empty or ends with a NUL byte, and has as many of them as the list has strings.

use std::ffi::CStr;
use std::fmt;
use std::io;

/// A string holds a NUL byte: no program can be given it.
///
/// Its text, and the kind of the [`io::Error`] made from it, are those of `std::process`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nul byte found in provided data")]
pub struct NulFound;

impl From<NulFound> for io::Error {
    fn from(nul: NulFound) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, nul)
    }
}

/// A list of strings in one block of memory, each ended by a NUL byte. One copy writes arguments or environment in this
/// form into the arg area of a body, or into a message.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Strings {
    block: Vec<u8>,
    len: usize,
}

impl Strings {
    /// A list without strings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A list without strings that has room for `bytes`, the ending NUL bytes included.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { block: Vec::with_capacity(bytes), len: 0 }
    }

    /// Adds a string that consists of `parts`, one after the other.
    ///
    /// # Errors
    /// [`NulFound`] when a part holds a NUL byte; the list is then as it was.
    pub fn push(&mut self, parts: &[&[u8]]) -> Result<(), NulFound> {
        if parts.iter().any(|part| part.contains(&0)) {
            return Err(NulFound);
        }
        for part in parts {
            self.block.extend_from_slice(part);
        }
        self.block.push(0);
        self.len += 1;
        Ok(())
    }

    /// Adds a string that is known to hold no NUL byte.
    pub fn push_c_str(&mut self, string: &CStr) {
        self.block.extend_from_slice(string.to_bytes_with_nul());
        self.len += 1;
    }

    /// Adds all strings of another list.
    pub fn append(&mut self, other: &Strings) {
        self.block.extend_from_slice(&other.block);
        self.len += other.len;
    }

    /// How many strings the list has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the list has no string.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The strings of a block in which each ends with its NUL byte, without a gap; `None` when the last one does not.
    #[must_use]
    pub fn from_block(block: Vec<u8>) -> Option<Self> {
        let len = block.iter().filter(|&&byte| byte == 0).count();
        block.last().is_none_or(|&last| last == 0).then_some(Self { block, len })
    }

    /// All strings, each with its ending NUL byte, without a gap.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.block
    }

    /// The strings in the order in which they were added.
    #[must_use]
    pub fn iter(&self) -> StringsIter<'_> {
        StringsIter { rest: &self.block, left: self.len }
    }
}

impl<'a> IntoIterator for &'a Strings {
    type Item = &'a CStr;
    type IntoIter = StringsIter<'a>;

    fn into_iter(self) -> StringsIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The strings of a [`Strings`], one by one.
#[derive(Debug, Clone)]
pub struct StringsIter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for StringsIter<'a> {
    type Item = &'a CStr;

    fn next(&mut self) -> Option<&'a CStr> {
        let string = CStr::from_bytes_until_nul(self.rest).ok()?;
        self.rest = self.rest.get(string.count_bytes() + 1..)?;
        self.left = self.left.saturating_sub(1);
        Some(string)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for StringsIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_keep_order_and_lie_in_one_block() {
        let mut strings = Strings::new();
        strings.push(&[b"A", b"=", b"1"]).expect("no NUL");
        strings.push(&[]).expect("no NUL");
        strings.push_c_str(c"B=2");
        assert_eq!(strings.as_bytes(), b"A=1\0\0B=2\0");
        assert_eq!(strings.iter().collect::<Vec<_>>(), [c"A=1", c"", c"B=2"]);
        assert_eq!((strings.len(), strings.iter().len()), (3, 3));
    }

    #[test]
    fn a_nul_byte_is_refused_and_leaves_the_list_alone() {
        let mut strings = Strings::new();
        assert_eq!(strings.push(&[b"A=", b"x\0y"]), Err(NulFound));
        assert!(strings.is_empty() && strings.as_bytes().is_empty());
        assert_eq!(io::Error::from(NulFound).kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_block_is_a_list_if_its_last_string_ends() {
        let strings = Strings::from_block(b"a\0\0b\0".to_vec()).expect("each string ends");
        assert_eq!(strings.iter().collect::<Vec<_>>(), [c"a", c"", c"b"]);
        assert_eq!(strings.len(), 3);
        assert_eq!(Strings::from_block(Vec::new()), Some(Strings::new()));
        assert_eq!(Strings::from_block(b"a\0b".to_vec()), None);
    }
}
