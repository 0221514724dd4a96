//! The clock that times of runs are told by.

/// The monotonic clock, in nanoseconds: the one by which a body tells when its program was entered.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
