//! The facts of an ELF file that decide whether and how its program can be kept as an image.
//!
//! Facts only: nothing here says what is to be done with a file. The reader asks for the few
//! ranges of the file that it needs and never maps it, because a mapped file that is truncated
//! raises `SIGBUS` in the caller's own process.
//!
//! Two parts of a file are held to different standards:
//!
//! - what the kernel and the loader act upon (header, program headers, the interpreter's name,
//!   the dynamic table) must be well formed, or the whole file is refused with an [`ElfError`];
//! - what they never look at (section headers, `.symtab`, notes) only gives hints. A fault there
//!   is kept in [`ElfFacts::section_trouble`] and the facts that depend on it are absent.
//!
//! Invariants:
//! - no input makes the reader panic;
//! - memory is bounded: symbols and their names are streamed in chunks, and everything else that
//!   is read has a limit of its own;
//! - time is linear in the size of the file's tables, each of which has a limit.

mod dynamic;
mod error;
mod header;
mod ident;
mod notes;
mod sections;
mod source;
mod symbols;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

pub use error::ElfError;
pub use header::{ElfKind, GnuStack, Segment};
pub use ident::ElfIdent;
pub use notes::AbiTag;
pub use source::ElfSource;
pub use symbols::{Symbol, SymbolKind};

use dynamic::Dynamic;
use header::Header;
use notes::Notes;
use sections::Sections;
use source::ElfReader;
use symbols::SymbolTable;

/// How a program finds its libraries, if it has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// Has an interpreter (`PT_INTERP`) that loads its libraries.
    Dynamic,
    /// A fixed-address executable without an interpreter.
    Static,
    /// A position-independent executable without an interpreter.
    StaticPie,
    /// A position-independent file without an interpreter that does not call itself an
    /// executable: a library or a loader. The kernel runs it all the same.
    SharedObject,
}

/// Which C library a program was built for, as far as the file tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    /// The GNU C library.
    Glibc,
    /// The musl C library.
    Musl,
    /// None: a static program whose symbols name no libc start-up, or a static Go program.
    None,
    /// The file does not say.
    Unknown,
}

/// What one ELF file says of itself. The file's class, byte order and machine are this
/// machine's: a file for another is an [`ElfError::WrongMachine`].
#[derive(Clone, Debug)]
pub struct ElfFacts {
    /// Class, byte order and machine.
    pub ident: ElfIdent,
    /// Fixed-address (`ET_EXEC`) or position-independent (`ET_DYN`).
    pub kind: ElfKind,
    /// How it finds its libraries.
    pub linkage: Linkage,
    /// Address of the first instruction, before the load bias is added.
    pub entry: u64,
    /// The loadable segments (`PT_LOAD`), in file order.
    pub segments: Vec<Segment>,
    /// The interpreter's path (`PT_INTERP`) as the kernel would open it: a relative path is
    /// relative to the working directory of the exec.
    pub interpreter: Option<PathBuf>,
    /// Names of the libraries asked for (`DT_NEEDED`), in order. A name with a slash is a path.
    pub needed: Vec<OsString>,
    /// Library search paths (`DT_RPATH`, `DT_RUNPATH`) as they stand in the file, colons and
    /// `$ORIGIN` included. A relative or empty element makes loading depend on the working
    /// directory: see [`ElfFacts::loads_from_working_directory`].
    pub search_paths: Vec<OsString>,
    /// What the file says of the stack's executability (`PT_GNU_STACK`).
    pub gnu_stack: GnuStack,
    /// Has a full symbol table (is not stripped).
    pub has_symtab: bool,
    /// Has a dynamic symbol table.
    pub has_dynsym: bool,
    /// Value of a defined function symbol `main`, before the load bias is added.
    pub main: Option<u64>,
    /// Was made by the Go linker.
    pub is_go: bool,
    /// The C library it was built for.
    pub libc: Libc,
    /// `NT_GNU_ABI_TAG`, which glibc's start files put into every program.
    pub abi_tag: Option<AbiTag>,
    /// Why the hints from section headers or `.symtab` are absent although the file has them.
    pub section_trouble: Option<ElfError>,
    /// Where the dynamic symbols are.
    dynsym: Option<SymbolTable>,
}

/// Start-up symbols looked up in `.symtab`, in this order.
const START_SYMBOLS: [&str; 4] = ["main", "__libc_start_main", "__libc_setup_tls", "__init_libc"];

/// What a program's `.symtab` tells of its start.
#[derive(Default)]
struct StartSymbols {
    main: Option<u64>,
    libc_start: bool,
    glibc: bool,
    musl: bool,
    complete: bool,
}

impl ElfFacts {
    /// Reads the facts of `source`, a `&File` or a `&[u8]`.
    ///
    /// # Errors
    ///
    /// An [`ElfError`] says what is malformed, cut off, too large, foreign or unreadable.
    pub fn read<'a>(source: impl Into<ElfSource<'a>>) -> Result<Self, ElfError> {
        let reader = ElfReader::new(source.into())?;
        let header = Header::read(&reader)?;
        let interpreter = header.interpreter(&reader)?;
        let dynamic = match header.dynamic_range {
            Some(range) => Dynamic::read(&reader, &header.segments, range)?,
            None => Dynamic::default(),
        };
        let notes = Notes::read(&reader, &header.note_ranges);
        let (sections, mut trouble) = split(Sections::read(&reader, &header));
        let (start, start_trouble) = split(start_symbols(&reader, sections.symtab.as_ref()));
        trouble = trouble.or(start_trouble);
        let dynsym = dynamic.symbols.clone().or_else(|| sections.dynsym.clone());
        let main = start.main.or_else(|| dynamic_main(&reader, dynsym.as_ref()));
        let linkage = linkage(header.kind, interpreter.is_some(), dynamic.is_pie);
        let is_go = sections.is_go || notes.is_go;
        let libc = guess_libc(interpreter.as_deref(), &dynamic.needed, &notes, &start, linkage, is_go);
        Ok(Self {
            ident: header.ident,
            kind: header.kind,
            linkage,
            entry: header.entry,
            segments: header.segments,
            interpreter: interpreter.map(|path| PathBuf::from(OsString::from_vec(path))),
            needed: os_strings(dynamic.needed),
            search_paths: os_strings(dynamic.search_paths),
            gnu_stack: header.gnu_stack,
            has_symtab: sections.symtab.is_some(),
            has_dynsym: dynsym.is_some(),
            main,
            is_go,
            libc,
            abi_tag: notes.abi_tag,
            section_trouble: trouble,
            dynsym,
        })
    }

    /// Reads only the interpreter's path: header and program headers, nothing else.
    ///
    /// # Errors
    ///
    /// As [`ElfFacts::read`].
    pub fn read_interpreter<'a>(source: impl Into<ElfSource<'a>>) -> Result<Option<PathBuf>, ElfError> {
        let reader = ElfReader::new(source.into())?;
        let path = Header::read(&reader)?.interpreter(&reader)?;
        Ok(path.map(|path| PathBuf::from(OsString::from_vec(path))))
    }

    /// Has no interpreter.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.linkage != Linkage::Dynamic
    }

    /// Is a position-independent executable without an interpreter.
    #[must_use]
    pub fn is_static_pie(&self) -> bool {
        self.linkage == Linkage::StaticPie
    }

    /// Asks the kernel for an executable stack.
    #[must_use]
    pub fn wants_executable_stack(&self) -> bool {
        self.gnu_stack == GnuStack::Executable
    }

    /// Which files this one loads, its interpreter included, depends on the working directory.
    #[must_use]
    pub fn loads_from_working_directory(&self) -> bool {
        let relative = |path: &[u8]| !path.starts_with(b"/") && !path.starts_with(b"$");
        let search = self
            .search_paths
            .iter()
            .any(|list| list.as_encoded_bytes().split(|&byte| byte == b':').any(relative));
        let needed = self.needed.iter().map(|name| name.as_encoded_bytes());
        let named = needed.into_iter().any(|name| name.contains(&b'/') && relative(name));
        search || named || self.interpreter.as_ref().is_some_and(|path| path.is_relative())
    }

    /// Looks up one defined dynamic symbol; `source` must be the file that was read.
    ///
    /// # Errors
    ///
    /// As [`ElfFacts::symbols`].
    pub fn symbol<'a>(
        &self,
        source: impl Into<ElfSource<'a>>,
        name: &str,
    ) -> Result<Option<Symbol>, ElfError> {
        Ok(self.symbols(source, &[name])?.pop().flatten())
    }

    /// Looks up defined dynamic symbols by name in one pass; `source` must be the file that was
    /// read. The answer has one element for each name. Of several versions of a name the default
    /// one is taken.
    ///
    /// # Errors
    ///
    /// An [`ElfError`] when the table is cut off, too large or unreadable.
    pub fn symbols<'a>(
        &self,
        source: impl Into<ElfSource<'a>>,
        names: &[&str],
    ) -> Result<Vec<Option<Symbol>>, ElfError> {
        let Some(table) = &self.dynsym else { return Ok(vec![None; names.len()]) };
        table.find(&ElfReader::new(source.into())?, names)
    }

    /// Whether the file imports a symbol: asks for it by name, for another file to define; `source` must be the file that was read.
    ///
    /// # Errors
    ///
    /// As [`ElfFacts::symbols`].
    pub fn imports<'a>(&self, source: impl Into<ElfSource<'a>>, name: &str) -> Result<bool, ElfError> {
        let Some(table) = &self.dynsym else { return Ok(false) };
        table.asks_for(&ElfReader::new(source.into())?, name)
    }
}

/// A hint that could not be read is absent, and the reason is kept.
fn split<T: Default>(read: Result<T, ElfError>) -> (T, Option<ElfError>) {
    match read {
        Ok(value) => (value, None),
        Err(error) => (T::default(), Some(error)),
    }
}

fn os_strings(names: Vec<Vec<u8>>) -> Vec<OsString> {
    names.into_iter().map(OsString::from_vec).collect()
}

fn linkage(kind: ElfKind, has_interpreter: bool, is_pie: bool) -> Linkage {
    match kind {
        _ if has_interpreter => Linkage::Dynamic,
        ElfKind::Fixed => Linkage::Static,
        ElfKind::PositionIndependent if is_pie => Linkage::StaticPie,
        ElfKind::PositionIndependent => Linkage::SharedObject,
    }
}

fn start_symbols(reader: &ElfReader<'_>, symtab: Option<&SymbolTable>) -> Result<StartSymbols, ElfError> {
    let Some(table) = symtab else { return Ok(StartSymbols::default()) };
    let found = table.find(reader, &START_SYMBOLS)?;
    let has = |index: usize| found.get(index).is_some_and(Option::is_some);
    Ok(StartSymbols {
        main: found.first().copied().flatten().and_then(|symbol| symbol.function_address()),
        libc_start: has(1),
        glibc: has(2),
        musl: has(3),
        complete: true,
    })
}

/// `main` among the dynamic symbols. A fault there is found again by who looks symbols up.
fn dynamic_main(reader: &ElfReader<'_>, table: Option<&SymbolTable>) -> Option<u64> {
    let found = table?.find(reader, &["main"]).ok()?;
    found.first().copied().flatten()?.function_address()
}

/// The interpreter's name is certain; then the ABI note, then names of libraries and symbols.
fn guess_libc(
    interpreter: Option<&[u8]>,
    needed: &[Vec<u8>],
    notes: &Notes,
    start: &StartSymbols,
    linkage: Linkage,
    is_go: bool,
) -> Libc {
    let file_name = interpreter.and_then(|path| path.rsplit(|&byte| byte == b'/').next());
    match file_name {
        Some(name) if name.starts_with(b"ld-musl-") => return Libc::Musl,
        Some(name) if name.starts_with(b"ld-linux") || name.starts_with(b"ld64.so") => return Libc::Glibc,
        _ => {}
    }
    if notes.abi_tag.is_some() || needed.iter().any(|name| name == b"libc.so.6") {
        return Libc::Glibc;
    }
    if needed.iter().any(|name| name == b"libc.so" || name.starts_with(b"libc.musl-")) {
        return Libc::Musl;
    }
    match (linkage, start) {
        (Linkage::Dynamic | Linkage::SharedObject, _) => Libc::Unknown,
        (_, StartSymbols { glibc: true, .. }) => Libc::Glibc,
        (_, StartSymbols { musl: true, .. }) => Libc::Musl,
        (_, StartSymbols { complete: true, libc_start: false, .. }) => Libc::None,
        _ if is_go => Libc::None,
        _ => Libc::Unknown,
    }
}
