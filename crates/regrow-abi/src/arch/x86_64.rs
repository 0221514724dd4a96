//! x86-64: the page size, and the general registers at a snapshot point.

/// Bytes in a page.
pub const PAGE_BYTES: u64 = 4096;

/// Bytes in a page, to index with.
pub const PAGE_LEN: usize = 4096;

/// Index of rsp in [`Registers::general`].
const STACK_POINTER: usize = 7;

/// Indices of rdi, rsi and rdx in [`Registers::general`]: the first three arguments of a function.
const ARGUMENTS: [usize; 3] = [5, 4, 3];

/// The flags that a program has from its own computations: carry, parity, adjust, zero, sign, overflow.
const STATUS_FLAGS: u64 = 0x8d5;

/// General registers at the snapshot point, in the order in which the agent loads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15.
    pub general: [u64; 16],
    /// rip.
    pub instruction: u64,
    /// rflags.
    pub flags: u64,
}

impl Registers {
    /// The stack pointer.
    #[inline(always)]
    #[must_use]
    pub const fn stack_pointer(&self) -> u64 {
        self.general[STACK_POINTER]
    }

    /// Sets the stack pointer.
    #[inline(always)]
    pub const fn set_stack_pointer(&mut self, value: u64) {
        self.general[STACK_POINTER] = value;
    }

    /// The value of argument `N` (0 to 2) of a function at whose first instruction the registers are.
    #[inline(always)]
    #[must_use]
    pub const fn argument<const N: usize>(&self) -> u64 {
        self.general[const { ARGUMENTS[N] }]
    }

    /// Sets argument `N` (0 to 2) of a function at whose first instruction the registers are.
    #[inline(always)]
    pub const fn set_argument<const N: usize>(&mut self, value: u64) {
        self.general[const { ARGUMENTS[N] }] = value;
    }

    /// Keeps of the flags only those that a program has from its own computations.
    #[inline(always)]
    pub const fn keep_status_flags(&mut self) {
        self.flags &= STATUS_FLAGS;
    }
}

const _: () = assert!(size_of::<Registers>() == 144 && PAGE_LEN as u64 == PAGE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers of which each has a value of its own.
    fn numbered() -> Registers {
        Registers { general: core::array::from_fn(|index| index as u64 + 100), instruction: 1, flags: 2 }
    }

    #[test]
    fn arguments_and_stack_pointer_are_where_the_calling_convention_has_them() {
        let registers = numbered();
        assert_eq!(registers.stack_pointer(), 107);
        let arguments = [registers.argument::<0>(), registers.argument::<1>(), registers.argument::<2>()];
        assert_eq!(arguments, [105, 104, 103]);
    }

    #[test]
    fn a_register_that_is_set_is_the_only_one_that_changes() {
        let mut registers = numbered();
        registers.set_stack_pointer(1);
        registers.set_argument::<0>(2);
        registers.set_argument::<1>(3);
        registers.set_argument::<2>(4);
        let mut wanted = numbered();
        for (index, value) in [(7, 1), (5, 2), (4, 3), (3, 4)] {
            wanted.general[index] = value;
        }
        assert_eq!(registers, wanted);
    }

    #[test]
    fn flags_that_are_not_from_a_computation_are_dropped() {
        // Trap, interrupt, direction, alignment check; then carry and zero.
        let mut registers = Registers { flags: 1 << 8 | 1 << 9 | 1 << 10 | 1 << 18 | 0x41, ..numbered() };
        registers.keep_status_flags();
        assert_eq!(registers.flags, 0x41);
    }
}
