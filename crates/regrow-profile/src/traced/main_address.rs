//! Where the `main` of a program is: what its first instructions pass to the C library, else what its symbol table says.

use std::fs::{self, File};

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags};
use regrow_sys::follow::passed_to_libc;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_a_main_and_libraries_none() {
        let shell = MainAddress::of(&File::open("/bin/sh").unwrap()).unwrap();
        assert_ne!(shell.main, shell.entry);
        let text = tempfile::tempfile().unwrap();
        assert!(MainAddress::of(&text).is_none());
    }
}
