//! x86-64: the registers that the kernel saves, and machine code around calls.

use super::code::{Call, LeafReturn};

/// Bytes of `struct pt_regs`.
pub(crate) const REGISTER_BYTES: usize = 168;
/// How many registers call frame information numbers, the return address among them.
pub(crate) const REGISTERS: usize = 17;
/// The stack pointer's number.
pub(crate) const STACK_POINTER: usize = 7;
/// The frame pointer's number.
pub(crate) const FRAME_POINTER: usize = 6;
/// The number that stands for the return address.
pub(crate) const RETURN_ADDRESS: usize = 16;
/// The longest instruction that calls: `call *disp32(base, index)` with a prefix.
pub(crate) const LONGEST_CALL_BYTES: usize = 8;

/// Most registers that a function saves.
const SAVED_REGISTERS: u64 = 6;
/// How much of a function's code may come before its frame is made, in bytes.
const PROLOGUE_BYTES: usize = 64;

/// Where in `struct pt_regs` each numbered register stands, in words.
const PLACES: [usize; REGISTERS] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];
/// Where the code segment stands in it, in words.
const SEGMENT_PLACE: usize = 17;
/// The code segment of 64-bit programs.
const SEGMENT_64_BIT: u64 = 0x33;

/// The registers by the numbers of call frame information; in the place of the return address the address of the next
/// instruction. `None`: the program is one of 32 bits.
pub(crate) fn registers(saved: &[u8; REGISTER_BYTES]) -> Option<[u64; REGISTERS]> {
    let (words, _) = saved.as_chunks::<8>();
    let word = |place: usize| words.get(place).copied().map_or(0, u64::from_le_bytes);
    (word(SEGMENT_PLACE) == SEGMENT_64_BIT).then(|| PLACES.map(word))
}

/// Where a function without a frame returns to, by the code behind its system call: C libraries take the return address of `vfork` into a
/// register before the call, because the child uses the same stack, and push it back behind.
pub(crate) fn return_of_leaf(code: &[u8]) -> LeafReturn {
    match code {
        // push %rdx, as in musl; push %rdi, as in glibc
        [0x52, ..] => LeafReturn::Register(1),
        [0x57, ..] => LeafReturn::Register(5),
        // push %r12, as in Go
        [0x41, 0x54, ..] => LeafReturn::Register(12),
        _ => LeafReturn::Stack,
    }
}

/// The call that ends where the code ends.
pub(crate) fn call_before(code: &[u8]) -> Option<Call> {
    if let [.., 0xe8, a, b, c, d] = *code {
        return Some(Call::Direct(i64::from(i32::from_le_bytes([a, b, c, d]))));
    }
    // ff /2 with its addressing bytes: 2 to 7 bytes.
    let calls = (2..=7).any(|length| {
        let Some(at) = code.len().checked_sub(length) else { return false };
        let instruction = code.get(at..).unwrap_or_default();
        matches!(instruction, [0xff, mode, ..] if (mode >> 3) & 7 == 2 && indirect_length(instruction) == Some(length))
    });
    calls.then_some(Call::Indirect)
}

/// How long `ff /n` is, by its addressing bytes.
fn indirect_length(instruction: &[u8]) -> Option<usize> {
    let mode = *instruction.get(1)?;
    let (kind, register) = (mode >> 6, mode & 7);
    let has_scale = kind != 3 && register == 4;
    let scale = if has_scale { *instruction.get(2)? } else { 0 };
    let base = 2 + usize::from(has_scale);
    Some(match kind {
        0 if register == 5 || (has_scale && scale & 7 == 5) => base + 4,
        1 => base + 1,
        2 => base + 4,
        _ => base,
    })
}

/// Whether a function that begins with this code may have its return address at this distance above the stack pointer, in bytes: what its
/// first instructions take off the stack pointer (`sub $n, %rsp`), and a word for each of at most six registers that it saves.
pub(crate) fn frame_may_have(code: &[u8], distance: u64) -> bool {
    let start = code.get(..code.len().min(PROLOGUE_BYTES)).unwrap_or_default();
    let taken = (0..start.len()).find_map(|at| match *start.get(at..)? {
        [0x48, 0x83, 0xec, byte, ..] => Some(u64::from(byte)),
        [0x48, 0x81, 0xec, a, b, c, d, ..] => Some(u64::from(u32::from_le_bytes([a, b, c, d]))),
        _ => None,
    });
    let saved = distance.checked_sub(taken.unwrap_or(0));
    saved.is_some_and(|bytes| bytes % 8 == 0 && bytes / 8 <= SAVED_REGISTERS)
}

/// Whether a function that begins with this code saves its caller's frame pointer right below its return address, and has one itself:
/// `push %rbp; mov %rsp, %rbp`.
pub(crate) fn keeps_frame_pointer(code: &[u8]) -> bool {
    code.starts_with(&[0x55, 0x48, 0x89, 0xe5])
}

/// The first direct call or jump in the code of a start function, as the distance of its target from the code's first byte.
///
/// Start functions are short and straight, and the bytes before their call are moves: a byte that looks like a call inside of one has a
/// target far outside of the program, which the caller checks.
pub(crate) fn first_transfer(code: &[u8], is_target: impl Fn(i64) -> bool) -> Option<i64> {
    code.windows(5).zip(0_i64..).find_map(|(window, at)| {
        let [0xe8 | 0xe9, a, b, c, d] = *window else { return None };
        let target = at + 5 + i64::from(i32::from_le_bytes([a, b, c, d]));
        is_target(target).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_their_code() {
        assert_eq!(call_before(&[0x90, 0xe8, 0xfb, 0xff, 0xff, 0xff]), Some(Call::Direct(-5)));
        for indirect in [
            &[0xff, 0xd0][..],               // call *%rax
            &[0x41, 0xff, 0xd4],             // call *%r12
            &[0xff, 0x10],                   // call *(%rax)
            &[0xff, 0x50, 0x18],             // call *0x18(%rax)
            &[0xff, 0x15, 1, 2, 3, 0],       // call *x(%rip)
            &[0xff, 0x14, 0xc5, 0, 0, 0, 0], // call *x(,%rax,8)
            &[0xff, 0x94, 0x24, 0, 1, 0, 0], // call *0x100(%rsp)
        ] {
            assert_eq!(call_before(indirect), Some(Call::Indirect), "{indirect:x?}");
        }
        for other in [&[0xff, 0xe0][..], &[0x90; 8], &[0xff, 0x15, 1], &[]] {
            assert_eq!(call_before(other), None, "{other:x?}");
        }
    }

    #[test]
    fn a_frame_is_as_large_as_its_first_instructions_make_it() {
        // push %rbp; push %rbx; sub $0x28,%rsp
        let small = [0x55, 0x53, 0x48, 0x83, 0xec, 0x28, 0x90, 0x90];
        for (distance, may_be) in
            [(0x28, true), (0x38, true), (0x58, true), (0x60, false), (0x20, false), (0x3c, false)]
        {
            assert_eq!(frame_may_have(&small, distance), may_be, "{distance:#x}");
        }
        // sub $0x1620,%rsp
        assert!(frame_may_have(&[0x48, 0x81, 0xec, 0x20, 0x16, 0, 0, 0x90], 0x1630));
        // push %rbx
        assert!(frame_may_have(&[0x53, 0xc3], 8));
        assert!(!frame_may_have(&[0x53, 0xc3], 0x100));
    }

    #[test]
    fn a_32_bit_program_has_no_registers() {
        let mut saved = [0; REGISTER_BYTES];
        saved[19 * 8] = 9;
        saved[17 * 8] = 0x23;
        assert_eq!(registers(&saved), None);
        saved[17 * 8] = 0x33;
        assert_eq!(registers(&saved).unwrap()[STACK_POINTER], 9);
    }

    #[test]
    fn the_start_functions_call_is_found() {
        // xor %ebp,%ebp; mov $0x401000,%rdi; addr32 call +0x100
        let code = [0x31, 0xed, 0x48, 0xc7, 0xc7, 0, 0x10, 0x40, 0, 0x67, 0xe8, 0, 1, 0, 0, 0xf4];
        assert_eq!(first_transfer(&code, |_| true), Some(15 + 0x100));
        assert_eq!(first_transfer(&code, |target| target > 0x1000), None);
    }
}
