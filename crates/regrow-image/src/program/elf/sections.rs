//! Section headers, which the kernel and the loader never read: symbol tables and Go's marks.

use object::LittleEndian as Le;
use object::elf;

use super::error::ElfError;
use super::header::Header;
use super::source::{ElfReader, FileRange, as_u64};
use super::symbols::SymbolTable;

/// Longest table of section headers that is read: 65,536 of them.
const MAX_SECTION_HEADER_BYTES: u64 = 4 << 20;

/// Longest table of section names that is read.
const MAX_SECTION_NAME_BYTES: u64 = 4 << 20;

/// Sections that only the Go linker makes.
const GO_SECTIONS: [&[u8]; 2] = [b".go.buildinfo", b".note.go.buildid"];

/// What the section headers say.
#[derive(Default)]
pub(super) struct Sections {
    pub(super) symtab: Option<SymbolTable>,
    pub(super) dynsym: Option<SymbolTable>,
    pub(super) is_go: bool,
}

type Section = elf::SectionHeader64<Le>;

impl Sections {
    pub(super) fn read(reader: &ElfReader<'_>, header: &Header) -> Result<Self, ElfError> {
        let offset = header.section_table_offset;
        if offset == 0 {
            return Ok(Self::default());
        }
        let entry_size = as_u64(size_of::<Section>());
        if u64::from(header.section_entry_size) != entry_size {
            return Err(ElfError::Malformed { what: "size of a section header", offset: 58 });
        }
        let (count, names_index) = counts(reader, header)?;
        let size = count.saturating_mul(entry_size);
        let range = FileRange { offset, size };
        let table: Vec<Section> = reader.table("section headers", range, MAX_SECTION_HEADER_BYTES)?;
        Ok(Self {
            symtab: symbol_table(&table, elf::SHT_SYMTAB),
            dynsym: symbol_table(&table, elf::SHT_DYNSYM),
            is_go: is_go(reader, &table, names_index)?,
        })
    }
}

/// Numbers that do not fit the file header stand in the first section header.
fn counts(reader: &ElfReader<'_>, header: &Header) -> Result<(u64, u32), ElfError> {
    let (count, names) = (header.section_count, header.section_names_index);
    if count != 0 && names != elf::SHN_XINDEX {
        return Ok((u64::from(count), u32::from(names)));
    }
    let first: Section = reader.structure("first section header", header.section_table_offset)?;
    let count = if count == 0 { first.sh_size.get(Le) } else { u64::from(count) };
    let names = if names == elf::SHN_XINDEX { first.sh_link.get(Le) } else { u32::from(names) };
    Ok((count, names))
}

fn section(table: &[Section], index: u32) -> Option<&Section> {
    table.get(usize::try_from(index).ok()?)
}

fn range(section: &Section) -> FileRange {
    FileRange { offset: section.sh_offset.get(Le), size: section.sh_size.get(Le) }
}

fn symbol_table(table: &[Section], kind: u32) -> Option<SymbolTable> {
    let symbols = table.iter().find(|section| section.sh_type.get(Le) == kind)?;
    let strings = section(table, symbols.sh_link.get(Le))?;
    Some(SymbolTable { symbols: range(symbols), strings: range(strings), versions: None })
}

fn is_go(reader: &ElfReader<'_>, table: &[Section], names_index: u32) -> Result<bool, ElfError> {
    let Some(names) = section(table, names_index).filter(|_| names_index != 0) else { return Ok(false) };
    let names = reader.bytes("section names", range(names), MAX_SECTION_NAME_BYTES)?;
    let is_go = |section: &Section| {
        let start = usize::try_from(section.sh_name.get(Le)).unwrap_or(usize::MAX);
        let rest = names.get(start..).unwrap_or_default();
        GO_SECTIONS.iter().any(|name| rest.strip_prefix(*name).is_some_and(|rest| rest.first() == Some(&0)))
    };
    Ok(table.iter().any(is_go))
}
