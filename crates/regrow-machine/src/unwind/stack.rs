//! The top of a stack, as it was copied.

/// Bytes of a stack and where they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// The address of the first byte.
    pub(crate) base: u64,
    pub(crate) bytes: &'a [u8],
}

/// What was copied: from the stack pointer on, and perhaps a second piece further up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack<'a> {
    pub(crate) near: Piece<'a>,
    pub(crate) far: Option<Piece<'a>>,
}

impl Stack<'_> {
    /// The word at an address; `None`: it was not copied.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        self.near.word(address).or_else(|| self.far?.word(address))
    }

    /// The addresses of the words from one on that were copied, ascending.
    pub(crate) fn words_from(&self, address: u64) -> impl Iterator<Item = u64> {
        let pieces = [Some(self.near), self.far].into_iter().flatten();
        let addresses = pieces
            .flat_map(|piece| (piece.base..piece.base.saturating_add(piece.bytes.len() as u64)).step_by(8));
        addresses.filter(move |at| *at >= address)
    }
}

impl Piece<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_copied_is_read() {
        let bytes: Vec<u8> = (0..20).collect();
        let near = Piece { base: 0x1000, bytes: &bytes };
        let stack = Stack { near, far: Some(Piece { base: 0x2000, bytes: &bytes[..8] }) };
        assert_eq!(stack.word(0x1000), Some(0x0706_0504_0302_0100));
        assert_eq!(stack.word(0x100c), Some(0x1312_1110_0f0e_0d0c));
        assert_eq!(stack.word(0x2000), Some(0x0706_0504_0302_0100));
        for outside in [0, 0xfff, 0x100d, 0x1014, 0x2001, u64::MAX] {
            assert_eq!(stack.word(outside), None, "{outside:#x}");
        }
        assert_eq!(stack.words_from(0x1008).collect::<Vec<_>>(), [0x1008, 0x1010, 0x2000]);
    }
}
