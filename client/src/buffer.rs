//! A buffer on the stack that is filled from its start: paths and parts of messages.

use core::mem::MaybeUninit;

use crate::arch::copy;

/// Room for a path.
pub type Path = Buffer<4096>;

/// Bytes one after the other. What does not fit is left out, and [`Buffer::is_whole`] tells.
pub struct Buffer<const N: usize> {
    bytes: [MaybeUninit<u8>; N],
    length: usize,
    is_cut: bool,
}

impl<const N: usize> Default for Buffer<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Buffer<N> {
    /// An empty one, none of whose memory is touched.
    pub const fn new() -> Self {
        Self { bytes: [const { MaybeUninit::uninit() }; N], length: 0, is_cut: false }
    }

    /// Nothing was left out.
    pub fn is_whole(&self) -> bool {
        !self.is_cut
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.length = 0;
        self.is_cut = false;
    }

    /// How much is in it.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.is_cut |= !put(&mut self.bytes, &mut self.length, bytes);
    }

    /// Appends a number.
    pub fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a number.
    pub fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a number.
    pub fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a length and as many bytes.
    pub fn counted(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.put(bytes);
    }

    /// Appends a number in digits.
    pub fn decimal(&mut self, value: u32) {
        let mut divisor = 1;
        while value / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            self.put(&[b'0' + (value / divisor % 10) as u8]);
            divisor /= 10;
        }
    }

    /// Appends a number in hexadecimal digits.
    pub fn hexadecimal(&mut self, value: u64) {
        let mut shift = 60;
        while shift > 0 && value >> shift == 0 {
            shift -= 4;
        }
        loop {
            let digit = (value >> shift & 15) as u8;
            self.put(&[if digit < 10 { b'0' + digit } else { b'a' - 10 + digit }]);
            if shift == 0 {
                return;
            }
            shift -= 4;
        }
    }

    /// The room behind what is in it, for the kernel to write to.
    pub fn unfilled(&mut self) -> &mut [u8] {
        let room = &raw mut self.bytes;
        // SAFETY: so many bytes follow; nobody reads one that was not written, and any bytes are a valid slice of them.
        unsafe { core::slice::from_raw_parts_mut(room.cast::<u8>().add(self.length), N - self.length) }
    }

    /// Takes so many bytes in that were written there.
    pub fn extend(&mut self, bytes: usize) {
        self.length = (self.length + bytes).min(N);
    }

    /// Writes over bytes that are in it.
    pub fn put_at(&mut self, at: usize, bytes: &[u8]) {
        if at + bytes.len() <= self.length {
            // SAFETY: these bytes are filled, and nobody else has a reference to them.
            unsafe { copy(self.bytes.as_mut_ptr().add(at).cast(), bytes.as_ptr(), bytes.len()) };
        }
    }

    /// What is in it.
    pub fn filled(&self) -> &[u8] {
        // SAFETY: so many bytes are filled.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.length) }
    }

    /// Its start, for the kernel.
    pub fn pointer(&self) -> *const u8 {
        self.bytes.as_ptr().cast()
    }

    /// A piece of what is in it, for the kernel.
    pub fn piece(&self, from: usize, to: usize) -> [usize; 2] {
        [self.pointer() as usize + from, to - from]
    }
}

/// Writes bytes behind those that are filled, if there is room. One for buffers of all sizes, and inlined nowhere: the client's file is small.
#[inline(never)]
fn put(room: &mut [MaybeUninit<u8>], length: &mut usize, bytes: &[u8]) -> bool {
    let Some(to) = room.get_mut(*length..).and_then(|rest| rest.get_mut(..bytes.len())) else { return false };
    // SAFETY: there is room for as many bytes, and nobody else has a reference to it.
    unsafe { copy(to.as_mut_ptr().cast(), bytes.as_ptr(), bytes.len()) };
    *length += bytes.len();
    true
}
