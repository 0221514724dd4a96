//! Finding named symbols in a table of any size, in memory that does not grow with it.
//!
//! A table is searched in two passes. The first streams the strings and remembers where each
//! wanted name stands: linkers share the tails of strings, so `main` is also found inside
//! `domain`. The second streams the symbols and takes those whose name is at such a place.

use std::collections::HashMap;

use object::LittleEndian as Le;
use object::elf;
use object::pod;

use super::error::ElfError;
use super::source::{ElfReader, FileRange, as_u64};

/// Bytes of one symbol.
pub(super) const SYMBOL_BYTES: u64 = 24;

/// Most places at which wanted names may stand. A table of an ordinary program has a few.
const MAX_PLACES: usize = 65_536;

/// Most symbols with wanted names that are looked at.
const MAX_MATCHES: usize = 4_096;

/// The bit that marks a version that is not the default one.
const VERSION_HIDDEN: u16 = 0x8000;

/// A defined symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its value: an address, before the load bias is added.
    pub value: u64,
    /// Its size in bytes, 0 when it is not known.
    pub size: u64,
    /// What it names.
    pub kind: SymbolKind,
}

impl Symbol {
    /// The address of its code: `None` for data and for functions chosen when they are loaded.
    #[must_use]
    pub fn function_address(&self) -> Option<u64> {
        matches!(self.kind, SymbolKind::Function | SymbolKind::Untyped).then_some(self.value)
    }
}

/// What a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// A function.
    Function,
    /// A function that returns the address of the function to use (`STT_GNU_IFUNC`).
    IndirectFunction,
    /// A variable.
    Object,
    /// A variable with one copy for each thread; its value is an offset in the TLS block.
    ThreadLocal,
    /// The file does not say, as for labels in assembly.
    Untyped,
}

/// Where a symbol table is in the file.
#[derive(Clone, Debug)]
pub(super) struct SymbolTable {
    pub(super) symbols: FileRange,
    pub(super) strings: FileRange,
    /// Version indices, two bytes for each symbol.
    pub(super) versions: Option<FileRange>,
}

/// How well a symbol answers to its name: a default version before a hidden one, then a global
/// one before a local one.
type Rank = (bool, bool);

impl SymbolTable {
    /// Looks up `names`; the answer has one element for each.
    pub(super) fn find(
        &self,
        reader: &ElfReader<'_>,
        names: &[&str],
    ) -> Result<Vec<Option<Symbol>>, ElfError> {
        let places = self.places(reader, names)?;
        let mut best: Vec<Option<(Rank, Symbol)>> = vec![None; names.len()];
        let entry_size = size_of::<elf::Sym64<Le>>();
        let mut matches = 0;
        reader.chunks("symbol table", self.symbols, entry_size, |position, chunk| {
            let malformed = |()| ElfError::Malformed { what: "symbol table", offset: self.symbols.offset };
            let count = chunk.len() / entry_size;
            let (entries, _) = pod::slice_from_bytes::<elf::Sym64<Le>>(chunk, count).map_err(malformed)?;
            for (entry, index) in entries.iter().zip(position / SYMBOL_BYTES..) {
                let Some(&name) = places.get(&entry.st_name.get(Le)) else { continue };
                let Some(symbol) = defined(entry) else { continue };
                matches += 1;
                let rank = (!self.is_hidden(reader, index), entry.st_bind() != elf::STB_LOCAL);
                if let Some(slot) = best.get_mut(name)
                    && slot.is_none_or(|(held, _)| rank > held)
                {
                    *slot = Some((rank, symbol));
                }
            }
            Ok(matches < MAX_MATCHES)
        })?;
        // A name that was asked for twice has one place: the second asks for the first's answer.
        let first = |name: &&str| names.iter().position(|other| other == name);
        let answer = |index: usize| best.get(index).copied().flatten().map(|(_, symbol)| symbol);
        Ok(names.iter().map(|name| first(name).and_then(answer)).collect())
    }

    /// Whether a symbol of this name is asked for, and defined elsewhere.
    pub(super) fn asks_for(&self, reader: &ElfReader<'_>, name: &str) -> Result<bool, ElfError> {
        let places = self.places(reader, &[name])?;
        let entry_size = size_of::<elf::Sym64<Le>>();
        let mut found = false;
        reader.chunks("symbol table", self.symbols, entry_size, |_, chunk| {
            let malformed = |()| ElfError::Malformed { what: "symbol table", offset: self.symbols.offset };
            let count = chunk.len() / entry_size;
            let (entries, _) = pod::slice_from_bytes::<elf::Sym64<Le>>(chunk, count).map_err(malformed)?;
            found = entries
                .iter()
                .any(|entry| defined(entry).is_none() && places.contains_key(&entry.st_name.get(Le)));
            Ok(!found)
        })?;
        Ok(found)
    }

    /// Where in the strings each name stands: place to index of the name.
    fn places(&self, reader: &ElfReader<'_>, names: &[&str]) -> Result<HashMap<u32, usize>, ElfError> {
        let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
        let mut places = HashMap::new();
        let mut carried: Vec<u8> = Vec::new();
        reader.chunks("symbol names", self.strings, 1, |position, chunk| {
            let begin = position - as_u64(carried.len());
            let seen = carried.len();
            carried.extend_from_slice(chunk);
            let ends = carried.iter().enumerate().skip(seen).filter(|(_, byte)| **byte == 0);
            for (end, _) in ends {
                let text = carried.get(..end).unwrap_or_default();
                let matching = names.iter().enumerate().filter(|(_, name)| text.ends_with(name.as_bytes()));
                for (index, name) in matching {
                    let place = begin + as_u64(end - name.len());
                    if let Ok(place) = u32::try_from(place) {
                        places.entry(place).or_insert(index);
                    }
                }
            }
            if places.len() > MAX_PLACES {
                return Err(ElfError::TooLarge {
                    what: "places of one name",
                    size: as_u64(places.len()),
                    limit: as_u64(MAX_PLACES),
                });
            }
            carried.drain(..carried.len().saturating_sub(longest));
            Ok(true)
        })?;
        Ok(places)
    }

    /// A version that cannot be read counts as the default one.
    fn is_hidden(&self, reader: &ElfReader<'_>, index: u64) -> bool {
        let Some(versions) = self.versions else { return false };
        let inside = index * 2 + 2 <= versions.size;
        let place = FileRange { offset: versions.offset.saturating_add(index * 2), size: 2 };
        match reader.bytes("symbol version", place, 2).as_deref() {
            Ok([low, high]) if inside => u16::from_le_bytes([*low, *high]) & VERSION_HIDDEN != 0,
            _ => false,
        }
    }
}

fn defined(entry: &elf::Sym64<Le>) -> Option<Symbol> {
    if entry.st_shndx.get(Le) == elf::SHN_UNDEF {
        return None;
    }
    let kind = match entry.st_type() {
        elf::STT_FUNC => SymbolKind::Function,
        elf::STT_GNU_IFUNC => SymbolKind::IndirectFunction,
        elf::STT_OBJECT | elf::STT_COMMON => SymbolKind::Object,
        elf::STT_TLS => SymbolKind::ThreadLocal,
        elf::STT_NOTYPE => SymbolKind::Untyped,
        _ => return None,
    };
    Some(Symbol { value: entry.st_value.get(Le), size: entry.st_size.get(Le), kind })
}
