//! What the first instructions of a program say.

/// `lea rdi, [rip + …]`.
const RELATIVE: &[u8] = &[0x48, 0x8d, 0x3d];
/// `mov rdi, …`, the sign extended.
const ABSOLUTE: &[u8] = &[0x48, 0xc7, 0xc7];
/// Bytes of either instruction.
const INSTRUCTION_BYTES: u64 = 7;

/// The address that a program's first instructions, which stand at `entry`, pass to the C library as its first argument: that of `main`. `None` where they
/// do otherwise.
#[must_use]
pub fn passed_to_libc(code: &[u8], entry: u64) -> Option<u64> {
    (0..code.len()).find_map(|at| {
        let (instruction, rest) = code.get(at..)?.split_at_checked(RELATIVE.len())?;
        let number = i64::from(i32::from_le_bytes(*rest.first_chunk()?));
        let next = entry.wrapping_add(at as u64 + INSTRUCTION_BYTES);
        match instruction {
            RELATIVE => Some(next.wrapping_add_signed(number)),
            ABSOLUTE => Some(number.cast_unsigned()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_instructions_name_main() {
        let code = [0x31, 0xed, 0x48, 0x8d, 0x3d, 0xf0, 0xff, 0xff, 0xff, 0xff, 0x15];
        assert_eq!(passed_to_libc(&code, 0x1000), Some(0x1000 + 9 - 16));
        let code = [0x31, 0xed, 0x48, 0xc7, 0xc7, 0x00, 0x10, 0x40, 0x00, 0xff, 0x15];
        assert_eq!(passed_to_libc(&code, 0x1000), Some(0x40_1000));
        assert_eq!(passed_to_libc(&[0x48, 0x8d, 0x3d, 0xf0], 0), None, "cut off");
        assert_eq!(passed_to_libc(&[], 0), None);
    }
}
