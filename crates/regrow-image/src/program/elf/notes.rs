//! Notes: the marks that toolchains leave in a program. All of them are hints.

use object::LittleEndian as Le;
use object::elf;
use object::read::elf::NoteIterator;

use super::source::{ElfReader, FileRange};

/// Longest note segment that is read.
const MAX_NOTE_BYTES: u64 = 64 << 10;

/// Most note segments that are read.
const MAX_NOTE_SEGMENTS: usize = 64;

/// The Go linker's note that holds its build ID.
const NT_GO_BUILD_ID: u32 = 4;

/// `NT_GNU_ABI_TAG`: the earliest kernel that a program's libc runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbiTag {
    /// Operating system: 0 is Linux.
    pub os: u32,
    /// Version of its kernel.
    pub version: [u32; 3],
}

/// What the notes say.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) abi_tag: Option<AbiTag>,
    pub(super) is_go: bool,
}

impl Notes {
    /// Reads what can be read; a malformed note ends its segment.
    pub(super) fn read(reader: &ElfReader<'_>, ranges: &[FileRange]) -> Self {
        let mut notes = Self::default();
        for range in ranges.iter().take(MAX_NOTE_SEGMENTS) {
            if let Ok(bytes) = reader.bytes("notes", *range, MAX_NOTE_BYTES) {
                notes.take(&bytes);
            }
        }
        notes
    }

    fn take(&mut self, bytes: &[u8]) {
        // Notes are aligned to 4 bytes; those in segments aligned to 8 hold properties only.
        let Ok(mut iterator) = NoteIterator::<elf::FileHeader64<Le>>::new(Le, 4, bytes) else { return };
        while let Ok(Some(note)) = iterator.next() {
            match (note.name(), note.n_type(Le)) {
                (b"GNU", elf::NT_GNU_ABI_TAG) => self.abi_tag = self.abi_tag.or(abi_tag(note.desc())),
                (b"Go", NT_GO_BUILD_ID) => self.is_go = true,
                _ => {}
            }
        }
    }
}

fn abi_tag(description: &[u8]) -> Option<AbiTag> {
    let ([os, version @ ..], _) = description.as_chunks::<4>() else { return None };
    let version: [[u8; 4]; 3] = *version.first_chunk()?;
    Some(AbiTag { os: u32::from_le_bytes(*os), version: version.map(u32::from_le_bytes) })
}
