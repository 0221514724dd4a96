//! The dynamic table: what the loader is asked for, and where the dynamic symbols are.

use object::LittleEndian as Le;
use object::elf;

use super::error::ElfError;
use super::header::{Segment, file_range};
use super::source;
use super::source::{ElfReader, FileRange, as_u64};
use super::symbols::{SYMBOL_BYTES, SymbolTable};

/// Longest dynamic table that is read: 65,536 entries.
const MAX_DYNAMIC_BYTES: u64 = 1 << 20;

/// Most names (libraries and search paths) that are taken.
const MAX_NAMES: usize = 4_096;

/// Longest name.
const MAX_NAME_BYTES: u64 = 4_096;

/// What the dynamic table says.
#[derive(Default)]
pub(super) struct Dynamic {
    pub(super) needed: Vec<Vec<u8>>,
    pub(super) search_paths: Vec<Vec<u8>>,
    pub(super) is_pie: bool,
    pub(super) symbols: Option<SymbolTable>,
}

/// The entries of interest, as they stand in the table.
#[derive(Default)]
struct DynamicEntries {
    needed: Vec<u64>,
    search_paths: Vec<u64>,
    strings: Option<u64>,
    strings_size: Option<u64>,
    symbols: Option<u64>,
    symbol_size: Option<u64>,
    hash: Option<u64>,
    gnu_hash: Option<u64>,
    versions: Option<u64>,
    flags_1: u64,
}

impl Dynamic {
    pub(super) fn read(
        reader: &ElfReader<'_>,
        segments: &[Segment],
        range: FileRange,
    ) -> Result<Self, ElfError> {
        let entries = DynamicEntries::read(reader, range)?;
        let malformed = |what| ElfError::Malformed { what, offset: range.offset };
        let is_pie = entries.flags_1 & u64::from(elf::DF_1_PIE) != 0;
        let Some(strings_at) = entries.strings else {
            if entries.needed.is_empty() && entries.search_paths.is_empty() {
                return Ok(Self { is_pie, ..Self::default() });
            }
            return Err(malformed("names without a string table"));
        };
        let mut strings = file_range(segments, strings_at).ok_or(malformed("place of the string table"))?;
        strings.size = strings.size.min(entries.strings_size.unwrap_or(u64::MAX));
        let name = |at: &u64| reader.string("dynamic string", strings, *at, MAX_NAME_BYTES);
        Ok(Self {
            needed: entries.needed.iter().map(name).collect::<Result<_, _>>()?,
            search_paths: entries.search_paths.iter().map(name).collect::<Result<_, _>>()?,
            is_pie,
            symbols: entries.symbol_table(reader, segments, strings),
        })
    }
}

impl DynamicEntries {
    fn read(reader: &ElfReader<'_>, range: FileRange) -> Result<Self, ElfError> {
        let table: Vec<elf::Dyn64<Le>> = reader.table("dynamic table", range, MAX_DYNAMIC_BYTES)?;
        let mut entries = Self::default();
        for entry in &table {
            let value = entry.d_val.get(Le);
            match entry.d_tag.get(Le) {
                elf::DT_NULL => break,
                elf::DT_NEEDED => entries.needed.push(value),
                elf::DT_RPATH | elf::DT_RUNPATH => entries.search_paths.push(value),
                elf::DT_STRTAB => entries.strings = Some(value),
                elf::DT_STRSZ => entries.strings_size = Some(value),
                elf::DT_SYMTAB => entries.symbols = Some(value),
                elf::DT_SYMENT => entries.symbol_size = Some(value),
                elf::DT_HASH => entries.hash = Some(value),
                elf::DT_GNU_HASH => entries.gnu_hash = Some(value),
                elf::DT_VERSYM => entries.versions = Some(value),
                elf::DT_FLAGS_1 => entries.flags_1 = value,
                _ => {}
            }
        }
        let names = entries.needed.len() + entries.search_paths.len();
        if names > MAX_NAMES {
            return Err(ElfError::TooLarge {
                what: "library names",
                size: source::as_u64(names),
                limit: source::as_u64(MAX_NAMES),
            });
        }
        Ok(entries)
    }

    /// The dynamic symbols, when the table says where they are and a hash table says how many.
    fn symbol_table(
        &self,
        reader: &ElfReader<'_>,
        segments: &[Segment],
        strings: FileRange,
    ) -> Option<SymbolTable> {
        if self.symbol_size.is_some_and(|size| size != SYMBOL_BYTES) {
            return None;
        }
        let place = |vaddr: Option<u64>| file_range(segments, vaddr?);
        let mut symbols = place(self.symbols)?;
        let count = match (place(self.gnu_hash), place(self.hash)) {
            (Some(table), _) => gnu_hash_count(reader, table).ok()?,
            (None, Some(table)) => hash_count(reader, table).ok()?,
            (None, None) => return None,
        };
        symbols.size = count.checked_mul(SYMBOL_BYTES).filter(|&size| size <= symbols.size)?;
        Some(SymbolTable { symbols, strings, versions: place(self.versions) })
    }
}

/// A System V hash table's second word is the number of symbols.
fn hash_count(reader: &ElfReader<'_>, table: FileRange) -> Result<u64, ElfError> {
    let header: elf::HashHeader<Le> = reader.structure("hash table", table.offset)?;
    Ok(u64::from(header.chain_count.get(Le)))
}

/// A GNU hash table does not say how many symbols there are: the last chain's end does.
fn gnu_hash_count(reader: &ElfReader<'_>, table: FileRange) -> Result<u64, ElfError> {
    let header: elf::GnuHashHeader<Le> = reader.structure("GNU hash table", table.offset)?;
    let first = u64::from(header.symbol_base.get(Le));
    let header_bytes = as_u64(size_of::<elf::GnuHashHeader<Le>>());
    let bloom_bytes = u64::from(header.bloom_count.get(Le)) * 8;
    let bucket_bytes = u64::from(header.bucket_count.get(Le)) * 4;
    let buckets = FileRange { offset: table.offset + header_bytes + bloom_bytes, size: bucket_bytes };
    let mut last = 0;
    reader.chunks("GNU hash buckets", buckets, 4, |_, chunk| {
        last = words(chunk).max().unwrap_or(0).max(last);
        Ok(true)
    })?;
    if u64::from(last) < first {
        return Ok(first);
    }
    let begin = buckets.offset + bucket_bytes + (u64::from(last) - first) * 4;
    let malformed = ElfError::Malformed { what: "GNU hash chain", offset: begin };
    let end = table.offset.saturating_add(table.size);
    let size = end.checked_sub(begin).ok_or(malformed.clone())?.min(source::MAX_TABLE_BYTES);
    let mut count = None;
    reader.chunks("GNU hash chain", FileRange { offset: begin, size }, 4, |position, chunk| {
        let end = words(chunk).position(|word| word & 1 != 0);
        count = end.map(|index| u64::from(last) + position / 4 + as_u64(index) + 1);
        Ok(count.is_none())
    })?;
    count.ok_or(malformed)
}

fn words(chunk: &[u8]) -> impl Iterator<Item = u32> {
    chunk.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word))
}
