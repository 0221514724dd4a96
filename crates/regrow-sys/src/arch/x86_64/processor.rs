//! What the processor itself tells.

#![allow(unsafe_code, reason = "asks the processor")]

/// The name of the extended floating-point state in `REGROW_DISABLE` and in reports.
pub(crate) const EXTENDED_STATE: &str = "xsave";

/// The floating-point state beyond the oldest registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct ExtendedState {
    /// Bytes of the XSAVE area with all state that the kernel enabled; `None` where the processor or the kernel has no XSAVE.
    #[serde(rename = "xsave_bytes")]
    pub bytes: Option<u32>,
}

impl ExtendedState {
    /// That of this machine.
    pub(crate) fn read() -> ExtendedState {
        const XSAVE_LEAF: u32 = 0xd;
        // The detection also asks whether the kernel has turned it on.
        let bytes = std::arch::is_x86_feature_detected!("xsave").then(|| {
            #[allow(unused_unsafe, reason = "newer compilers have the instruction as a safe function")]
            // SAFETY: every processor of this architecture has the instruction, and a processor with XSAVE the leaf.
            unsafe {
                std::arch::x86_64::__cpuid_count(XSAVE_LEAF, 0).ebx
            }
        });
        ExtendedState { bytes }
    }
}
