//! The ELF reader takes any bytes: it refuses them or gives facts that hold together, and what is
//! looked up in them afterwards fails with an error at worst.

#![no_main]

use std::os::unix::ffi::OsStrExt;

use libfuzzer_sys::fuzz_target;
use regrow_image::elf::{ElfFacts, ElfIdent, Linkage, SymbolKind};

/// Longest name that the reader takes, of a library or an interpreter.
const MAX_NAME_BYTES: usize = 4096;

fn check(facts: &ElfFacts, bytes: &[u8]) {
    assert_eq!(ElfIdent::peek(bytes), Some(facts.ident));
    assert!(facts.ident.is_native() && !facts.segments.is_empty());
    for segment in &facts.segments {
        assert!(segment.file_size <= segment.memory_size);
        assert!(usize::try_from(segment.offset + segment.file_size).is_ok_and(|end| end <= bytes.len()));
        assert_eq!(segment.range().end - segment.range().start, segment.memory_size);
    }
    let paths = facts.interpreter.iter().map(|path| path.as_os_str());
    let names = facts.needed.iter().chain(&facts.search_paths).map(|name| name.as_os_str());
    for name in paths.chain(names) {
        assert!(name.len() < MAX_NAME_BYTES && !name.as_bytes().contains(&0));
    }
    assert_eq!(facts.interpreter.is_some(), facts.linkage == Linkage::Dynamic);
    assert_eq!(facts.is_static(), facts.interpreter.is_none());
    assert_eq!(ElfFacts::read_interpreter(bytes).as_ref(), Ok(&facts.interpreter));
}

fuzz_target!(|bytes: &[u8]| {
    let facts = match ElfFacts::read(bytes) {
        Ok(facts) => facts,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    check(&facts, bytes);
    let _ = facts.loads_from_working_directory();
    let names = ["main", "getenv", "f", "main"];
    if let Ok(found) = facts.symbols(bytes, &names) {
        assert_eq!(found.len(), names.len());
        assert_eq!(found.first(), found.last());
        assert!(facts.has_dynsym || found.iter().all(Option::is_none));
        let functions = found.iter().flatten().filter(|symbol| symbol.kind == SymbolKind::Function);
        assert!(functions.into_iter().all(|symbol| symbol.function_address() == Some(symbol.value)));
    }
});
