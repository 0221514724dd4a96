//! What machine code says, in words that every architecture has.

/// A call, as its machine code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// Of the function at this distance from the end of the call, in bytes.
    Direct(i64),
    /// Of the function that a register or a word of memory names.
    Indirect,
}

/// Where a function without a frame returns to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeafReturn {
    /// The address stands in this register, and the stack is as it was before the call.
    Register(usize),
    /// The address stands on the top of the stack.
    Stack,
}
