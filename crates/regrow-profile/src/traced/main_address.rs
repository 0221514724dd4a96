//! Where the `main` of a program is: what its first instructions pass to the C library, else what its symbol table says.

use std::fs::{self, File};

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags};

use crate::image;

/// How many bytes of the program's first instructions are looked at.
const START_BYTES: u64 = 64;
/// The entry of the auxiliary vector that has the address of the first instruction.
const AT_ENTRY: u64 = 9;
/// A segment that can be executed.
const EXECUTABLE: u32 = object::elf::PF_X;

/// Addresses of a program as its file has them.
#[derive(Debug, Clone, Copy)]
pub(super) struct MainAddress {
    entry: u64,
    main: u64,
}

impl MainAddress {
    /// Looks into a file.
    pub(super) fn of(file: &File) -> Option<MainAddress> {
        let cache = ReadCache::new(file);
        let object = image::elf(&cache)?;
        let entry = object.entry();
        let is_code = |address: u64| {
            object.segments().any(|segment| {
                let is_executable =
                    matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & EXECUTABLE != 0);
                is_executable
                    && (segment.address()..segment.address().saturating_add(segment.size()))
                        .contains(&address)
            })
        };
        let start =
            object.segments().find_map(|segment| segment.data_range(entry, START_BYTES).ok().flatten());
        let passed = start.and_then(|code| passed_to_libc(code, entry)).filter(|&main| is_code(main));
        let named = || {
            let main = object.symbols().find(|symbol| symbol.name_bytes() == Ok(b"main"))?;
            Some(main.address()).filter(|&main| is_code(main))
        };
        Some(MainAddress { entry, main: passed.or_else(named)? })
    }

    /// Where it is in a process.
    pub(super) fn in_process(self, pid: i32) -> Option<u64> {
        let vector = fs::read(format!("/proc/{pid}/auxv")).ok()?;
        let (words, _) = vector.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let entry = words.chunks_exact(2).find(|pair| pair[0] == AT_ENTRY)?[1];
        Some(self.main.wrapping_add(entry.wrapping_sub(self.entry)))
    }
}

/// The address that the instructions at `entry` put into `rdi`, which is the first argument of `__libc_start_main`.
#[cfg(target_arch = "x86_64")]
fn passed_to_libc(code: &[u8], entry: u64) -> Option<u64> {
    /// `lea rdi, [rip + …]`.
    const RELATIVE: &[u8] = &[0x48, 0x8d, 0x3d];
    /// `mov rdi, …`, the sign extended.
    const ABSOLUTE: &[u8] = &[0x48, 0xc7, 0xc7];
    (0..code.len()).find_map(|at| {
        let (instruction, rest) = code.get(at..)?.split_at_checked(RELATIVE.len())?;
        let number = i64::from(i32::from_le_bytes(*rest.first_chunk()?));
        let next = entry.wrapping_add(at as u64 + 7);
        match instruction {
            RELATIVE => Some(next.wrapping_add_signed(number)),
            ABSOLUTE => Some(number.cast_unsigned()),
            _ => None,
        }
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn passed_to_libc(_: &[u8], _: u64) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_first_instructions_name_main() {
        let code = [0x31, 0xed, 0x48, 0x8d, 0x3d, 0xf0, 0xff, 0xff, 0xff, 0xff, 0x15];
        assert_eq!(passed_to_libc(&code, 0x1000), Some(0x1000 + 9 - 16));
        let code = [0x31, 0xed, 0x48, 0xc7, 0xc7, 0x00, 0x10, 0x40, 0x00, 0xff, 0x15];
        assert_eq!(passed_to_libc(&code, 0x1000), Some(0x40_1000));
        assert_eq!(passed_to_libc(&[0x48, 0x8d, 0x3d, 0xf0], 0), None, "cut off");
        assert_eq!(passed_to_libc(&[], 0), None);
    }

    #[test]
    fn programs_have_a_main_and_libraries_none() {
        let shell = MainAddress::of(&File::open("/bin/sh").unwrap()).unwrap();
        assert_ne!(shell.main, shell.entry);
        let text = tempfile::tempfile().unwrap();
        assert!(MainAddress::of(&text).is_none());
    }
}
