//! The bytes of the wire types that go into an image memfd.

#![allow(unsafe_code, reason = "plain types are written as the bytes that they are")]

use regrow_abi::{ImageHeader, VmaEntry};

/// Adds a header.
pub(crate) fn push_header(bytes: &mut Vec<u8>, header: &ImageHeader) {
    // SAFETY: `ImageHeader` is `repr(C)` of integers without padding (its size is asserted as their sum).
    bytes.extend_from_slice(unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(header).cast(), size_of::<ImageHeader>())
    });
}

/// Adds a mapping.
pub(crate) fn push_vma(bytes: &mut Vec<u8>, vma: &VmaEntry) {
    // SAFETY: as above.
    bytes.extend_from_slice(unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(vma).cast(), size_of::<VmaEntry>())
    });
}
