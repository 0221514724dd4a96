//! The ELF header and the program headers, under the kernel's own conditions (`load_elf_binary`).

use std::ops::Range;

use object::LittleEndian as Le;
use object::elf;

use super::error::ElfError;
use super::ident::ElfIdent;
use super::source::{ElfReader, FileRange, as_u64};

/// The kernel reads at most this many bytes of program headers.
const MAX_PROGRAM_HEADER_BYTES: u64 = 65_536;

/// The kernel's `PATH_MAX`, the NUL included: longest interpreter path.
const MAX_PATH_BYTES: u64 = 4_096;

/// The file's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfKind {
    /// `ET_EXEC`: loaded at the addresses in the file.
    Fixed,
    /// `ET_DYN`: loaded at any address.
    PositionIndependent,
}

/// What `PT_GNU_STACK` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GnuStack {
    /// There is none: the architecture's default holds.
    Absent,
    /// The stack is not executable.
    NotExecutable,
    /// The stack is executable.
    Executable,
}

/// A loadable segment (`PT_LOAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address, before the load bias is added.
    pub vaddr: u64,
    /// Bytes in memory; those beyond `file_size` are zero.
    pub memory_size: u64,
    /// Bytes that come from the file.
    pub file_size: u64,
    /// Where they are in the file.
    pub offset: u64,
    /// Alignment, 0 or a power of two.
    pub align: u64,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
}

impl Segment {
    /// The addresses it covers, before the load bias is added.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.vaddr..self.vaddr.saturating_add(self.memory_size)
    }

    /// The range of the file that backs `vaddr` up to the end of the segment's file part.
    fn file_range(&self, vaddr: u64) -> Option<FileRange> {
        let inside = vaddr.checked_sub(self.vaddr)?;
        let size = self.file_size.checked_sub(inside).filter(|&size| size > 0)?;
        Some(FileRange { offset: self.offset.checked_add(inside)?, size })
    }
}

/// Where in the file an address of the program is, and how much of the file follows it there.
pub(super) fn file_range(segments: &[Segment], vaddr: u64) -> Option<FileRange> {
    segments.iter().find_map(|segment| segment.file_range(vaddr))
}

/// What the ELF header and the program headers say.
pub(super) struct Header {
    pub(super) ident: ElfIdent,
    pub(super) kind: ElfKind,
    pub(super) entry: u64,
    pub(super) segments: Vec<Segment>,
    pub(super) gnu_stack: GnuStack,
    pub(super) dynamic_range: Option<FileRange>,
    pub(super) note_ranges: Vec<FileRange>,
    pub(super) section_table_offset: u64,
    pub(super) section_entry_size: u16,
    pub(super) section_count: u16,
    pub(super) section_names_index: u16,
    interpreter_range: Option<FileRange>,
}

impl Header {
    pub(super) fn read(reader: &ElfReader<'_>) -> Result<Self, ElfError> {
        let ident = read_ident(reader)?;
        let file: elf::FileHeader64<Le> = reader.structure("file header", 0)?;
        let kind = match file.e_type.get(Le) {
            elf::ET_EXEC => ElfKind::Fixed,
            elf::ET_DYN => ElfKind::PositionIndependent,
            e_type => return Err(ElfError::NotExecutable { e_type }),
        };
        let mut header = Self {
            ident,
            kind,
            entry: file.e_entry.get(Le),
            segments: Vec::new(),
            gnu_stack: GnuStack::Absent,
            dynamic_range: None,
            note_ranges: Vec::new(),
            section_table_offset: file.e_shoff.get(Le),
            section_entry_size: file.e_shentsize.get(Le),
            section_count: file.e_shnum.get(Le),
            section_names_index: file.e_shstrndx.get(Le),
            interpreter_range: None,
        };
        let entry_size = as_u64(size_of::<elf::ProgramHeader64<Le>>());
        if u64::from(file.e_phentsize.get(Le)) != entry_size {
            return Err(ElfError::Malformed { what: "size of a program header", offset: 54 });
        }
        let size = u64::from(file.e_phnum.get(Le)) * entry_size;
        if size == 0 || size > MAX_PROGRAM_HEADER_BYTES {
            return Err(ElfError::Malformed { what: "number of program headers", offset: 56 });
        }
        let range = FileRange { offset: file.e_phoff.get(Le), size };
        let table = reader.table("program headers", range, MAX_PROGRAM_HEADER_BYTES)?;
        for (program, index) in table.iter().zip(0..) {
            header.take(reader, program, range.offset + index * entry_size)?;
        }
        if header.segments.is_empty() {
            return Err(ElfError::Malformed { what: "no loadable segment", offset: range.offset });
        }
        Ok(header)
    }

    /// Takes one program header that stands at `offset`.
    fn take(
        &mut self,
        reader: &ElfReader<'_>,
        program: &elf::ProgramHeader64<Le>,
        offset: u64,
    ) -> Result<(), ElfError> {
        let range = FileRange { offset: program.p_offset.get(Le), size: program.p_filesz.get(Le) };
        match program.p_type.get(Le) {
            elf::PT_LOAD => self.segments.push(segment(reader, program, offset)?),
            elf::PT_INTERP if self.interpreter_range.is_none() => self.interpreter_range = Some(range),
            elf::PT_DYNAMIC if self.dynamic_range.is_none() => self.dynamic_range = Some(range),
            elf::PT_NOTE => self.note_ranges.push(range),
            elf::PT_GNU_STACK => {
                let executable = program.p_flags.get(Le) & elf::PF_X != 0;
                self.gnu_stack = if executable { GnuStack::Executable } else { GnuStack::NotExecutable };
            }
            _ => {}
        }
        Ok(())
    }

    /// The interpreter's path, without its NUL.
    pub(super) fn interpreter(&self, reader: &ElfReader<'_>) -> Result<Option<Vec<u8>>, ElfError> {
        let Some(range) = self.interpreter_range else { return Ok(None) };
        let malformed = ElfError::Malformed { what: "interpreter path", offset: range.offset };
        if !(2..=MAX_PATH_BYTES).contains(&range.size) {
            return Err(malformed);
        }
        let mut path = reader.bytes("interpreter path", range, MAX_PATH_BYTES)?;
        if path.last() != Some(&0) {
            return Err(malformed);
        }
        let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
        path.truncate(end);
        Ok(Some(path))
    }
}

fn read_ident(reader: &ElfReader<'_>) -> Result<ElfIdent, ElfError> {
    let size = reader.size().min(20);
    let head = reader.bytes("file header", FileRange { offset: 0, size }, size)?;
    match ElfIdent::peek(&head) {
        Some(ident) if ident.is_native() => Ok(ident),
        Some(ident) => Err(ElfError::WrongMachine { ident }),
        None if head.starts_with(&elf::ELFMAG) => Err(ElfError::Truncated { what: "file header", offset: 0 }),
        None => Err(ElfError::NotElf),
    }
}

fn segment(reader: &ElfReader<'_>, program: &elf::ProgramHeader64<Le>, at: u64) -> Result<Segment, ElfError> {
    let malformed = |what| ElfError::Malformed { what, offset: at };
    let flags = program.p_flags.get(Le);
    let segment = Segment {
        vaddr: program.p_vaddr.get(Le),
        memory_size: program.p_memsz.get(Le),
        file_size: program.p_filesz.get(Le),
        offset: program.p_offset.get(Le),
        align: program.p_align.get(Le),
        readable: flags & elf::PF_R != 0,
        writable: flags & elf::PF_W != 0,
        executable: flags & elf::PF_X != 0,
    };
    if segment.file_size > segment.memory_size {
        return Err(malformed("segment larger in the file than in memory"));
    }
    if segment.vaddr.checked_add(segment.memory_size).is_none() {
        return Err(malformed("segment beyond the end of the address space"));
    }
    let end =
        segment.offset.checked_add(segment.file_size).ok_or(malformed("segment's place in the file"))?;
    if end > reader.size() {
        return Err(ElfError::Truncated { what: "segment", offset: segment.offset });
    }
    Ok(segment)
}
