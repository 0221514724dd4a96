//! The symbols and lines of one file.

use std::borrow::Cow;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::demangle_auto;
use gimli::{EndianArcSlice, RunTimeEndian, SectionId};
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use regrow_sites::ImageId;

use super::place::Place;
use crate::image;

type Reader = EndianArcSlice<RunTimeEndian>;
type Context = addr2line::Context<Reader>;

/// A larger section of debug information is left alone.
const LARGEST_SECTION_BYTES: u64 = 1 << 30;
/// Most symbols of a file.
const MOST_SYMBOLS: usize = 4_000_000;
/// A longer name is cut off: templates have names of many kilobytes.
const LONGEST_NAME_CHARS: usize = 300;

/// A function of the symbol table.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    address: u64,
    bytes: u64,
    /// Its name in [`SymbolTable::names`].
    name: (usize, usize),
}

/// The functions of a file, by their addresses.
#[derive(Debug, Default)]
struct SymbolTable {
    symbols: Vec<Symbol>,
    names: Vec<u8>,
}

/// A file.
pub(super) struct Module {
    context: Option<Context>,
    table: SymbolTable,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let symbols = self.table.symbols.len();
        f.debug_struct("Module")
            .field("has_lines", &self.context.is_some())
            .field("symbols", &symbols)
            .finish()
    }
}

impl Module {
    /// Reads a file; `None` where it is not the image, or no ELF file.
    pub(super) fn open(path: &Path, image: ImageId, debug_folder: &Path) -> Option<Module> {
        let file = open_regular(path)?;
        if !image::is(&file, image) {
            tracing::debug!(path = %path.display(), "has changed since: no symbols");
            return None;
        }
        let cache = ReadCache::new(&file);
        let own = image::elf(&cache)?;
        let apart = debug_file(&own, debug_folder);
        let apart_cache = apart.as_ref().map(|(_, file)| ReadCache::new(file));
        let apart_object = apart_cache.as_ref().and_then(image::elf);
        let apart_path = apart.as_ref().map_or(path, |(path, _)| path);
        let mut context = dwarf(&own, path, debug_folder);
        let mut table = SymbolTable::default();
        if let Some(object) = &apart_object {
            context = context.or_else(|| dwarf(object, apart_path, debug_folder));
            table.add(object);
        }
        table.add(&own);
        table.sort();
        Some(Module { context, table })
    }

    /// Adds what is known of a place.
    pub(super) fn fill(&self, place: &mut Place) {
        // The call is before the address to which it returns.
        let address = place.offset.saturating_sub(1);
        if let Some(context) = &self.context {
            fill_by_lines(context, address, place);
        }
        let Some((name, start)) = self.table.find(address) else { return };
        // What the C library names `__libc_system` for itself is `system` to everybody else.
        let is_own_name =
            |function: &String| place.is_in_libc() && function.starts_with('_') && !name.starts_with(b"_");
        if place.function.as_ref().is_none_or(is_own_name) {
            place.function = Some(readable(name, None));
            place.function_offset = place.line.is_none().then(|| place.offset - start);
        }
    }
}

fn fill_by_lines(context: &Context, address: u64, place: &mut Place) {
    let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return };
    // The innermost function that was inlined there has the line of the call.
    let Ok(Some(frame)) = frames.next() else { return };
    if let Some(name) = &frame.function {
        let raw = name.raw_name().unwrap_or_default();
        place.function = (!raw.is_empty()).then(|| readable(raw.as_bytes(), name.language));
    }
    if let Some(location) = frame.location {
        place.file = location.file.map(str::to_owned);
        place.line = location.line.filter(|line| *line > 0);
    }
}

fn readable(name: &[u8], language: Option<gimli::DwLang>) -> String {
    let name = String::from_utf8_lossy(name);
    let cut = |text: Cow<'_, str>| match text.char_indices().nth(LONGEST_NAME_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    };
    // What takes long to demangle is cut off before.
    if name.len() > 10 * LONGEST_NAME_CHARS { cut(name) } else { cut(demangle_auto(name, language)) }
}

impl SymbolTable {
    fn add<'data, R: ReadRef<'data>>(&mut self, object: &object::File<'data, R>) {
        for symbol in object.symbols().chain(object.dynamic_symbols()) {
            if self.symbols.len() >= MOST_SYMBOLS {
                return;
            }
            let is_function = symbol.kind() == SymbolKind::Text && symbol.is_definition();
            let Some(name) = symbol.name_bytes().ok().filter(|name| is_function && !name.is_empty()) else {
                continue;
            };
            let start = self.names.len();
            self.names.extend_from_slice(name);
            let name = (start, self.names.len());
            self.symbols.push(Symbol { address: symbol.address(), bytes: symbol.size(), name });
        }
    }

    fn sort(&mut self) {
        // Of several at one address the last is found: the largest, and of its names one that is meant for others.
        let names = &self.names;
        let is_public = |symbol: &Symbol| names.get(symbol.name.0).is_some_and(|first| *first != b'_');
        self.symbols.sort_by_key(|symbol| (symbol.address, symbol.bytes, is_public(symbol)));
    }

    /// The name and the start of the function that an address is in. One whose size the table does not tell reaches to the next.
    fn find(&self, address: u64) -> Option<(&[u8], u64)> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        let is_inside = |symbol: &&Symbol| symbol.bytes == 0 || address - symbol.address < symbol.bytes;
        let symbol = self.symbols[..behind].last().filter(is_inside)?;
        self.names.get(symbol.name.0..symbol.name.1).map(|name| (name, symbol.address))
    }
}

/// Opens a regular file, and nothing that would keep the caller waiting.
fn open_regular(path: &Path) -> Option<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// The file that has the debug information of another one, by its build id.
fn debug_file<'data, R: ReadRef<'data>>(
    object: &object::File<'data, R>,
    folder: &Path,
) -> Option<(PathBuf, File)> {
    let path = by_build_id(object.build_id().ok()??, folder)?;
    let file = open_regular(&path)?;
    Some((path, file))
}

fn by_build_id(build_id: &[u8], folder: &Path) -> Option<PathBuf> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (first, rest) = build_id.split_at_checked(1).filter(|(_, rest)| !rest.is_empty())?;
    Some(folder.join(".build-id").join(hex(first)).join(hex(rest) + ".debug"))
}

/// The lines of an ELF file.
fn dwarf<'data, R: ReadRef<'data>>(
    object: &object::File<'data, R>,
    path: &Path,
    folder: &Path,
) -> Option<Context> {
    object.section_by_name(".debug_info").filter(|section| section.size() > 0)?;
    let mut dwarf = gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(section(object, id))).ok()?;
    if let Some(file) = shared_by_several(object, path, folder) {
        let cache = ReadCache::new(&file);
        if let Some(shared) = image::elf(&cache) {
            dwarf.load_sup(|id| Ok::<_, gimli::Error>(section(&shared, id))).ok()?;
        }
    }
    addr2line::Context::from_dwarf(dwarf)
        .inspect_err(|error| tracing::debug!(path = %path.display(), %error, "no lines"))
        .ok()
}

/// The file that `dwz` has moved debug information to, which several programs share.
fn shared_by_several<'data, R: ReadRef<'data>>(
    object: &object::File<'data, R>,
    path: &Path,
    folder: &Path,
) -> Option<File> {
    let (name, build_id) = object.gnu_debugaltlink().ok()??;
    let name = Path::new(std::ffi::OsStr::from_bytes(name));
    let beside = path.parent().map_or(name.to_owned(), |parent| parent.join(name));
    let candidates = [Some(beside), by_build_id(build_id, folder)];
    candidates.into_iter().flatten().find_map(|candidate| {
        let file = open_regular(&candidate)?;
        image::is(&file, ImageId::of_build_id(build_id)).then_some(file)
    })
}

/// A section; empty where there is none, or it cannot be read.
fn section<'data, R: ReadRef<'data>>(object: &object::File<'data, R>, id: SectionId) -> Reader {
    let endian = if object.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let data = object.section_by_name(id.name()).and_then(|section| {
        let data = section.compressed_data().ok()?;
        if data.uncompressed_size > LARGEST_SECTION_BYTES {
            return None;
        }
        data.decompress().ok()
    });
    Reader::new(data.map_or_else(|| Arc::from([]), Arc::from), endian)
}
