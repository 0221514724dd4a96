//! The processor's own state: how much of it there is to save for a process.

#![allow(unsafe_code, reason = "asks the processor")]

use super::{NotTried, State};

/// Bytes of the XSAVE area with all state that the kernel enabled; `None` without XSAVE.
#[cfg(target_arch = "x86_64")]
pub(super) fn xsave_bytes() -> Option<u32> {
    /// The leaf that describes the area; its second register is the size for what is enabled at present.
    const XSAVE_LEAF: u32 = 0xd;
    // Says yes only when the kernel has switched it on as well.
    std::arch::is_x86_feature_detected!("xsave").then(|| {
        #[allow(unused_unsafe, reason = "older compilers declare the instruction unsafe")]
        // SAFETY: every processor of this architecture has the instruction, and a processor with XSAVE the leaf.
        unsafe {
            std::arch::x86_64::__cpuid_count(XSAVE_LEAF, 0).ebx
        }
    })
}

/// Other architectures have no XSAVE.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn xsave_bytes() -> Option<u32> {
    None
}

/// The state of the feature, from the size.
pub(super) fn state(xsave_bytes: Option<u32>) -> State {
    match xsave_bytes {
        Some(_) => State::Works,
        None if cfg!(target_arch = "x86_64") => State::Missing { errno: libc::ENOSYS },
        None => State::NotTried { why: NotTried::Architecture },
    }
}
