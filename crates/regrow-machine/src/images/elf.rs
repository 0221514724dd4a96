//! What is read of an ELF file: its build id; and for files whose code creates processes, where its code is and how its frames are left.
//!
//! A file is read in ranges, each of which has a limit, and never mapped: a mapped file that is cut off raises `SIGBUS`.

use std::fs::File;
use std::ops::Range;

use object::LittleEndian as Le;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable};
use object::{ReadCache, ReadRef};

use super::go::GoNames;
use crate::arch;
use crate::unwind::rows::CallFrames;

/// The longest section that is read.
const MOST_SECTION_BYTES: u64 = 64 << 20;
/// How much of a start function is looked at, in bytes.
const START_BYTES: u64 = 96;
/// Functions of a C library that create their child inside of it.
const CREATORS: [&str; 5] = ["system", "popen", "wordexp", "forkpty", "daemon"];
/// How far from a program's first instruction its own start code may stand, in bytes.
const START_SPAN: u64 = 256;

type Header = FileHeader64<Le>;
type Source<'a> = &'a ReadCache<&'a File>;

/// A part of the file that is mapped for execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its first address, before the load base is added.
    pub(crate) address: u64,
    /// Where it is in the file.
    pub(crate) offset: u64,
    /// Bytes in the file.
    pub(crate) bytes: u64,
}

/// A function, as a symbol names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Function {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// Which of a file's code stands between a program and the kernel: a creation site is the place that called it.
#[derive(Debug)]
pub(crate) enum Wrappers {
    /// None of it.
    None,
    /// All of it: the file is a C library.
    All(Vec<Creator>),
    /// From this address on: a static program, in which the C library is linked behind the program's own code.
    From(u64),
    /// Functions of Go's own packages.
    Go(GoNames),
}

/// A function of a C library that creates a child by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Creator {
    /// Where its code is: its own, or that of the function that it goes on in.
    code: Range<u64>,
    /// Its first address, as its symbol has it.
    address: u64,
}

/// What is known of a file whose code creates processes.
#[derive(Debug)]
pub(crate) struct ElfCode {
    pub(crate) segments: Vec<Segment>,
    pub(crate) frames: Option<CallFrames>,
    pub(crate) wrappers: Wrappers,
}

/// The build id.
pub(crate) fn build_id(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let source: Source<'_> = &cache;
    let header = Header::parse(source).ok()?;
    for program in header.program_headers(Le, source).ok()? {
        if program.p_filesz.get(Le) > MOST_SECTION_BYTES {
            continue;
        }
        let Ok(Some(mut notes)) = program.notes(Le, source) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU
                && note.n_type(Le) == elf::NT_GNU_BUILD_ID
                && !note.desc().is_empty()
            {
                return Some(note.desc().to_vec());
            }
        }
    }
    None
}

/// What the file says of its code; `None`: it is no ELF file of 64 bits.
pub(crate) fn code(file: &File) -> Option<ElfCode> {
    let cache = ReadCache::new(file);
    let elf = Elf::read(&cache)?;
    Some(ElfCode { frames: elf.call_frames(), wrappers: elf.wrappers(), segments: elf.segments })
}

/// The functions that the file's symbols name, in the order of their addresses: those of the full table, or without it of the dynamic one.
pub(crate) fn functions(file: &File) -> Vec<Function> {
    let cache = ReadCache::new(file);
    let Some(elf) = Elf::read(&cache) else { return Vec::new() };
    let mut functions = elf.functions(elf::SHT_SYMTAB);
    if functions.is_empty() {
        functions = elf.functions(elf::SHT_DYNSYM);
    }
    functions.sort_unstable();
    functions
}

/// The code of one segment.
pub(crate) fn text(file: &File, segment: &Segment) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let source: Source<'_> = &cache;
    let bytes = (segment.bytes <= MOST_SECTION_BYTES).then_some(segment.bytes)?;
    Some(source.read_bytes_at(segment.offset, bytes).ok()?.to_vec())
}

/// An open file and its tables.
struct Elf<'a> {
    source: Source<'a>,
    header: &'a Header,
    sections: SectionTable<'a, Header, Source<'a>>,
    segments: Vec<Segment>,
    has_interpreter: bool,
}

impl<'a> Elf<'a> {
    fn read(source: Source<'a>) -> Option<Self> {
        let header = Header::parse(source).ok()?;
        let programs = header.program_headers(Le, source).ok()?;
        let loaded = programs.iter().filter(|program| program.p_type.get(Le) == elf::PT_LOAD);
        let executable = loaded.filter(|program| program.p_flags.get(Le) & elf::PF_X != 0);
        let segments = executable.map(|program| Segment {
            address: program.p_vaddr.get(Le),
            offset: program.p_offset.get(Le),
            bytes: program.p_filesz.get(Le),
        });
        Some(Self {
            source,
            header,
            sections: header.sections(Le, source).unwrap_or_default(),
            segments: segments.collect(),
            has_interpreter: programs.iter().any(|program| program.p_type.get(Le) == elf::PT_INTERP),
        })
    }

    /// A section's address and bytes.
    fn section(&self, name: &str) -> Option<(u64, Vec<u8>)> {
        let (_, section) = self.sections.section_by_name(Le, name.as_bytes())?;
        if section.sh_size.get(Le) > MOST_SECTION_BYTES {
            return None;
        }
        let bytes = section.data(Le, self.source).ok()?.to_vec();
        Some((section.sh_addr.get(Le), bytes))
    }

    fn call_frames(&self) -> Option<CallFrames> {
        let frames = self.section(".eh_frame").filter(|(_, bytes)| !bytes.is_empty())?;
        Some(CallFrames { index: self.section(".eh_frame_hdr"), frames })
    }

    fn wrappers(&self) -> Wrappers {
        let go = [".gopclntab", ".data.rel.ro.gopclntab"].into_iter().find_map(|name| self.section(name));
        if let Some((_, table)) = go {
            let text =
                self.sections.section_by_name(Le, b".text").map_or(0, |(_, text)| text.sh_addr.get(Le));
            return GoNames::read(table, text).map_or(Wrappers::None, Wrappers::Go);
        }
        if self.is_c_library() {
            return Wrappers::All(self.creators());
        }
        if self.has_interpreter || self.header.e_entry.get(Le) == 0 {
            return Wrappers::None;
        }
        let start = self.symbol(elf::SHT_SYMTAB, "__libc_start_main").map(|symbol| symbol.address);
        let start = start.or_else(|| self.library_start());
        start.map_or(Wrappers::None, Wrappers::From)
    }

    /// Whether the file starts other programs: a C library; or, in older ones, the part with the threads and its own `fork`.
    fn is_c_library(&self) -> bool {
        let defines = |name: &str| self.symbol(elf::SHT_DYNSYM, name).is_some();
        defines("__libc_start_main") || (defines("pthread_create") && defines("vfork"))
    }

    /// The functions that create a child by themselves.
    fn creators(&self) -> Vec<Creator> {
        let frames = self.call_frames();
        let named = CREATORS.iter().filter_map(|name| self.symbol(elf::SHT_DYNSYM, name));
        let all = named.flat_map(|Function { address, bytes }| {
            let own = address..address.saturating_add(bytes);
            let goes_on =
                self.first_transfer(address).filter(|target| bytes <= START_BYTES && !own.contains(target));
            let code = goes_on.and_then(|target| frames.as_ref()?.function(target));
            [Some(own), code].into_iter().flatten().map(move |code| Creator { code, address })
        });
        all.collect()
    }

    /// A symbol that the file defines.
    fn symbol(&self, table: u32, name: &str) -> Option<Function> {
        let symbols = self.sections.symbols(Le, self.source, table).ok()?;
        let named = |symbol: &&elf::Sym64<Le>| {
            symbol.st_shndx.get(Le) != elf::SHN_UNDEF
                && symbols.symbol_name(Le, symbol).is_ok_and(|other| other == name.as_bytes())
        };
        let symbol = symbols.iter().find(named)?;
        Some(Function { address: symbol.st_value.get(Le), bytes: symbol.st_size.get(Le) })
    }

    fn functions(&self, table: u32) -> Vec<Function> {
        let Ok(symbols) = self.sections.symbols(Le, self.source, table) else { return Vec::new() };
        let is_function = |symbol: &&elf::Sym64<Le>| {
            symbol.st_shndx.get(Le) != elf::SHN_UNDEF
                && symbol.st_type() == elf::STT_FUNC
                && symbol.st_size.get(Le) > 0
        };
        let functions = symbols.iter().filter(is_function);
        functions
            .map(|symbol| Function { address: symbol.st_value.get(Le), bytes: symbol.st_size.get(Le) })
            .collect()
    }

    /// Where a static program's C library begins: at the function that the start code calls. The linker puts the library behind the
    /// program, and the part with this function first, because the start code, which comes before all else, asks for it.
    fn library_start(&self) -> Option<u64> {
        let entry = self.header.e_entry.get(Le);
        let called = self.first_transfer(entry)?;
        // In musl the first function that is called is start code as well.
        if called.abs_diff(entry) < START_SPAN { self.first_transfer(called) } else { Some(called) }
    }

    /// The target of the first direct call or jump from an address on.
    fn first_transfer(&self, address: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| segment.holds(address))?;
        let inside = address - segment.address;
        let bytes = START_BYTES.min(segment.bytes - inside);
        let code = self.source.read_bytes_at(segment.offset.checked_add(inside)?, bytes).ok()?;
        let target = |distance: i64| address.wrapping_add_signed(distance);
        let distance = arch::first_transfer(code, |distance| segment.holds(target(distance)))?;
        Some(target(distance))
    }
}

impl Segment {
    /// Whether an address of the file is in it.
    pub(crate) fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|inside| inside < self.bytes)
    }
}

impl ElfCode {
    /// The address, as it stands in the file, of a place in the file.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let inside =
            |segment: &Segment| offset.checked_sub(segment.offset).filter(|&inside| inside < segment.bytes);
        self.segments.iter().find_map(|segment| segment.address.checked_add(inside(segment)?))
    }

    /// Whether the code at an address stands between the program and the kernel.
    pub(crate) fn is_wrapper(&self, address: u64) -> bool {
        match &self.wrappers {
            Wrappers::None => false,
            Wrappers::All(_) => true,
            Wrappers::From(start) => address >= *start,
            Wrappers::Go(names) => names.is_own(address),
        }
    }

    /// The function of a C library that creates a child by itself, and whose code stands at an address: its first address.
    pub(crate) fn creator(&self, address: u64) -> Option<u64> {
        let Wrappers::All(creators) = &self.wrappers else { return None };
        creators.iter().find(|creator| creator.code.contains(&address)).map(|creator| creator.address)
    }

    /// Whether the code keeps frame pointers instead of call frame information.
    pub(crate) fn has_frame_pointers(&self) -> bool {
        matches!(self.wrappers, Wrappers::Go(_))
    }

    /// Bytes that it keeps in memory.
    pub(crate) fn bytes(&self) -> usize {
        let names = if let Wrappers::Go(names) = &self.wrappers { names.bytes() } else { 0 };
        names + self.frames.as_ref().map_or(0, CallFrames::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek as _, SeekFrom, Write as _};

    /// A small program that is everywhere.
    const PROGRAM: &str = "/bin/true";

    /// All that is read of a file.
    fn read_all(file: &File) -> Option<usize> {
        build_id(file);
        let all = functions(file).len();
        let code = code(file)?;
        for segment in &code.segments {
            text(file, segment);
            for address in [segment.address, segment.address.wrapping_add(segment.bytes / 2)] {
                code.is_wrapper(address);
                code.creator(address);
                code.address_of(segment.offset);
                if let Some(frames) = &code.frames {
                    frames.row(address);
                }
            }
        }
        Some(all)
    }

    #[test]
    fn a_program_has_a_build_id_code_and_frames() {
        let file = File::open(PROGRAM).unwrap();
        assert_eq!(build_id(&file).map(|id| id.len()), Some(20));
        let code = code(&file).unwrap();
        assert!(matches!(code.wrappers, Wrappers::None));
        let [segment] = code.segments[..] else { panic!("one segment is executable") };
        assert_eq!(code.address_of(segment.offset + 8), Some(segment.address + 8));
        assert_eq!(code.address_of(segment.offset + segment.bytes), None);
        let frames = code.frames.unwrap();
        let rows = (segment.address..segment.address + segment.bytes)
            .step_by(16)
            .filter(|at| frames.row(*at).is_some());
        assert!(rows.count() > 50);
    }

    /// One byte after the other is another one, in the tables; and the file ends early.
    #[test]
    fn a_file_that_is_damaged_is_read_as_far_as_it_goes() {
        let whole = std::fs::read(PROGRAM).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&whole).unwrap();
        let sections = whole.len().saturating_sub(64 * 30);
        let mut places: Vec<usize> = (0..0x400).chain(sections..whole.len()).collect();
        places.extend((0x400..sections).step_by(97));
        for at in places {
            let byte = whole[at];
            for other in [!byte, 0xff] {
                file.seek(SeekFrom::Start(at as u64)).unwrap();
                file.write_all(&[other]).unwrap();
                read_all(&file);
            }
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            file.write_all(&[byte]).unwrap();
        }
        assert!(read_all(&file).is_some(), "it is as it was");
        for bytes in (0..whole.len()).rev().step_by(331) {
            file.set_len(bytes as u64).unwrap();
            read_all(&file);
        }
    }
}
