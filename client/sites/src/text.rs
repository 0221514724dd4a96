//! C strings.

/// A C string.
///
/// # Safety
/// It ends in NUL and lives as long as is said.
pub unsafe fn bytes_of<'a>(text: *const u8) -> &'a [u8] {
    // SAFETY: see the contract.
    unsafe { core::ffi::CStr::from_ptr(text.cast()) }.to_bytes()
}
