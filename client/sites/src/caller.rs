//! Where a function of the C library was called.

/// Where a function was called: the return address, the stack pointer behind the return, and the frame pointer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Caller {
    pub address: usize,
    pub stack: usize,
    pub frame: usize,
}
