//! The top of a stack, as it was copied.

/// Bytes of a stack and where they were.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack<'a> {
    /// The address of the first byte: the stack pointer when it was copied.
    pub(crate) base: u64,
    pub(crate) bytes: &'a [u8],
}

impl Stack<'_> {
    /// The word at an address; `None`: it was not copied.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
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
        let stack = Stack { base: 0x1000, bytes: &bytes };
        assert_eq!(stack.word(0x1000), Some(0x0706_0504_0302_0100));
        assert_eq!(stack.word(0x100c), Some(0x1312_1110_0f0e_0d0c));
        for outside in [0, 0xfff, 0x100d, 0x1014, u64::MAX] {
            assert_eq!(stack.word(outside), None, "{outside:#x}");
        }
    }
}
