//! The reader against files made by real toolchains, against files made byte by byte, and
//! against files spoiled at random.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;

use super::*;

const PROGRAM: &str =
    "int answer = 42; int domain(void) { return answer; } int main(void) { return domain(); }";

/// Runs `compiler` on a C program and gives the result's bytes; `None` without that compiler.
fn compile(compiler: &str, flags: &[&str], text: &str) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let source = dir.path().join("program.c");
    let program = dir.path().join("program");
    fs::write(&source, text).expect("the source is written");
    let status = Command::new(compiler).arg("-o").arg(&program).arg(&source).args(flags).status();
    match status {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        status => assert!(status.expect("the compiler runs").success(), "{compiler} {flags:?}"),
    }
    Some(fs::read(program).expect("the program is read"))
}

fn cc(flags: &[&str]) -> ElfFacts {
    let bytes = compile("cc", flags, PROGRAM).expect("a C compiler, which linking this test needs too");
    ElfFacts::read(&bytes).expect("facts of a compiled program")
}

/// `main` as `nm` sees it.
fn main_of_nm(bytes: &[u8]) -> u64 {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("program");
    fs::write(&path, bytes).expect("the program is written");
    let output = Command::new("nm").arg(&path).output().expect("nm runs");
    let text = String::from_utf8(output.stdout).expect("nm prints text");
    let line = text.lines().find(|line| line.ends_with(" T main")).expect("nm finds main");
    let address = line.split(' ').next().expect("an address");
    u64::from_str_radix(address, 16).expect("a hexadecimal address")
}

#[test]
fn dynamic_pie() {
    let bytes = compile("cc", &["-pie"], PROGRAM).expect("a C compiler");
    let facts = ElfFacts::read(&bytes).expect("facts");
    assert_eq!(facts.linkage, Linkage::Dynamic);
    assert_eq!(facts.kind, ElfKind::PositionIndependent);
    assert!(!facts.is_static() && !facts.is_static_pie() && !facts.is_go);
    assert!(facts.ident.is_native());
    assert!(facts.interpreter.as_ref().expect("an interpreter").is_absolute());
    assert_eq!(facts.needed, [OsStr::new("libc.so.6")]);
    assert_eq!(facts.libc, Libc::Glibc);
    assert_eq!(facts.abi_tag.expect("an ABI tag").os, 0);
    assert_eq!(facts.gnu_stack, GnuStack::NotExecutable);
    assert!(facts.has_symtab && facts.has_dynsym);
    assert_eq!(facts.main, Some(main_of_nm(&bytes)));
    assert_eq!(facts.section_trouble, None);
    assert!(!facts.loads_from_working_directory());
    let text = facts.segments.iter().find(|segment| segment.range().contains(&facts.entry));
    let text = text.expect("the entry is in a segment");
    assert!(text.executable && text.readable && !text.writable);
    assert!(facts.segments.iter().any(|segment| segment.writable && !segment.executable));
}

#[test]
fn dynamic_fixed() {
    let facts = cc(&["-no-pie"]);
    assert_eq!((facts.linkage, facts.kind), (Linkage::Dynamic, ElfKind::Fixed));
    assert!(facts.main.is_some_and(|main| main > 0));
}

#[test]
fn stripped_program_has_no_main() {
    let facts = cc(&["-s"]);
    assert!(!facts.has_symtab && facts.has_dynsym);
    assert_eq!(facts.main, None);
    assert_eq!(facts.libc, Libc::Glibc);
}

#[test]
fn exported_main_is_found_in_the_dynamic_symbols() {
    let bytes = compile("cc", &["-rdynamic"], PROGRAM).expect("a C compiler");
    let stripped = compile("cc", &["-rdynamic", "-s"], PROGRAM).expect("a C compiler");
    let facts = ElfFacts::read(&stripped).expect("facts");
    assert!(!facts.has_symtab);
    assert_eq!(facts.main, Some(main_of_nm(&bytes)));
}

#[test]
fn static_programs() {
    let fixed = cc(&["-static", "-no-pie"]);
    assert_eq!((fixed.linkage, fixed.kind, fixed.libc), (Linkage::Static, ElfKind::Fixed, Libc::Glibc));
    assert!(fixed.is_static() && fixed.interpreter.is_none() && fixed.main.is_some());
    let pie = cc(&["-static-pie"]);
    assert_eq!(pie.linkage, Linkage::StaticPie);
    assert!(pie.is_static() && pie.is_static_pie() && pie.needed.is_empty());
    let stripped = cc(&["-static", "-s"]);
    assert_eq!((stripped.libc, stripped.main, stripped.has_symtab), (Libc::Glibc, None, false));
}

#[test]
fn program_without_libc() {
    let text = "void _start(void) { for (;;) {} }";
    let bytes = compile("cc", &["-static", "-nostdlib", "-no-pie"], text).expect("a C compiler");
    let facts = ElfFacts::read(&bytes).expect("facts");
    assert_eq!((facts.libc, facts.main, facts.abi_tag), (Libc::None, None, None));
}

#[test]
fn executable_stack_and_search_paths() {
    let facts = cc(&["-z", "execstack", "-Wl,-rpath,/opt/x:$ORIGIN/lib"]);
    assert!(facts.wants_executable_stack());
    assert_eq!(facts.search_paths, [OsStr::new("/opt/x:$ORIGIN/lib")]);
    assert!(!facts.loads_from_working_directory());
    assert!(cc(&["-Wl,-rpath,/opt/x:lib"]).loads_from_working_directory());
    assert!(cc(&["-Wl,-rpath,/opt/x:"]).loads_from_working_directory());
    assert!(cc(&["-Wl,--dynamic-linker,ld.so"]).loads_from_working_directory());
}

#[test]
fn system_v_hash_table_counts_the_symbols() {
    let bytes = compile("cc", &["-rdynamic", "-Wl,--hash-style=sysv"], PROGRAM).expect("a C compiler");
    let facts = ElfFacts::read(&bytes).expect("facts");
    let main = facts.symbol(&bytes, "main").expect("a lookup").expect("main");
    assert_eq!((Some(main.value), main.kind), (facts.main, SymbolKind::Function));
}

#[test]
fn musl_programs() {
    let Some(dynamic) = compile("musl-gcc", &[], PROGRAM) else { return };
    let facts = ElfFacts::read(&dynamic).expect("facts");
    assert_eq!((facts.linkage, facts.libc), (Linkage::Dynamic, Libc::Musl));
    let fixed = compile("musl-gcc", &["-static"], PROGRAM).expect("musl-gcc again");
    let facts = ElfFacts::read(&fixed).expect("facts");
    assert_eq!((facts.is_static(), facts.libc, facts.main), (true, Libc::Musl, Some(main_of_nm(&fixed))));
    let stripped = compile("musl-gcc", &["-static", "-s"], PROGRAM).expect("musl-gcc again");
    assert_eq!(ElfFacts::read(&stripped).expect("facts").libc, Libc::Unknown);
}

#[test]
fn go_programs() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let source = dir.path().join("main.go");
    fs::write(&source, "package main\nfunc main() {}\n").expect("the source is written");
    for strip in ["", "-s -w"] {
        let program = dir.path().join("program");
        let mut go = Command::new("go");
        go.args(["build", "-ldflags", strip, "-o"]).arg(&program).arg(&source);
        go.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=mod");
        if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
            go.env("GOCACHE", dir.path().join("cache"));
        }
        match go.current_dir(dir.path()).status() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            status => assert!(status.expect("go runs").success()),
        }
        let facts = ElfFacts::read(&File::open(&program).expect("the program")).expect("facts");
        assert!(facts.is_go && facts.is_static());
        assert_eq!((facts.libc, facts.has_symtab), (Libc::None, strip.is_empty()));
    }
}

#[test]
fn this_rust_program() {
    let file = File::open("/proc/self/exe").expect("this program");
    let facts = ElfFacts::read(&file).expect("facts");
    assert!(facts.main.is_some() && !facts.is_go);
}

/// The file of a library that this process has loaded, and where its first byte is mapped.
fn loaded(prefix: &str) -> (PathBuf, u64) {
    let maps = fs::read_to_string("/proc/self/maps").expect("the map of this process");
    let line = maps.lines().find(|line| {
        let name = line.rsplit('/').next().unwrap_or_default();
        name.starts_with(prefix) && line.contains(" 00000000 ")
    });
    let line = line.expect("the library is loaded");
    let start = line.split('-').next().expect("an address");
    let path = line.split_whitespace().last().expect("a path");
    (PathBuf::from(path), u64::from_str_radix(start, 16).expect("a hexadecimal address"))
}

#[test]
fn dynamic_symbols_are_where_the_loader_finds_them() {
    let (path, base) = loaded("libc.so.6");
    let file = File::open(path).expect("libc");
    let facts = ElfFacts::read(&file).expect("facts of libc");
    let names = ["getenv", "setenv", "__libc_start_main", "getenv", "no_such_symbol", "errno"];
    let found = facts.symbols(&file, &names).expect("a lookup");
    let value = |index: usize| found[index].map(|symbol: Symbol| symbol.value + base);
    let address = |function: *const ()| Some(u64::try_from(function.addr()).expect("64 bits"));
    assert_eq!(value(0), address(libc::getenv as *const ()));
    assert_eq!(value(1), address(libc::setenv as *const ()));
    assert!(value(2).is_some());
    assert_eq!(found[3], found[0]);
    assert_eq!(found[4], None);
    assert!(found[5].is_none_or(|symbol| symbol.kind == SymbolKind::ThreadLocal));
    assert_eq!(facts.symbol(&file, "getenv").expect("a lookup"), found[0]);
}

#[test]
fn loader_is_a_shared_object_with_its_debugger_hook() {
    let program = ElfFacts::read(&File::open("/proc/self/exe").expect("this program")).expect("facts");
    let loader = File::open(program.interpreter.expect("a loader")).expect("the loader");
    let facts = ElfFacts::read(&loader).expect("facts of the loader");
    assert_eq!(facts.linkage, Linkage::SharedObject);
    let hook = facts.symbol(&loader, "_dl_debug_state").expect("a lookup").expect("the hook");
    assert!(hook.function_address().is_some_and(|address| address > 0));
}

#[test]
fn imports_are_told_from_what_is_defined() {
    let text =
        "extern int vmsplice(); int splice(void) { return vmsplice(); } int main(void) { return splice(); }";
    for hash in ["-Wl,--hash-style=gnu", "-Wl,--hash-style=sysv"] {
        let bytes = compile("cc", &["-rdynamic", hash], text).expect("a C compiler");
        let facts = ElfFacts::read(&bytes).expect("facts");
        assert_eq!(facts.imports(&bytes, "vmsplice"), Ok(true));
        assert_eq!(facts.imports(&bytes, "splice"), Ok(false), "it defines that itself");
        assert_eq!(facts.imports(&bytes, "tee"), Ok(false));
    }
}

#[test]
fn default_version_of_a_symbol_is_taken() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (source, map, library) = (dir.path().join("l.c"), dir.path().join("l.map"), dir.path().join("l.so"));
    let text = "int old_f(void) { return 1; } int new_f(void) { return 2; }\n\
                __asm__(\".symver old_f,f@V1\"); __asm__(\".symver new_f,f@@V2\");\n";
    fs::write(&source, text).expect("the source is written");
    fs::write(&map, "V1 { global: old_f; };\nV2 { global: new_f; } V1;\n").expect("the map is written");
    let script = format!("-Wl,--version-script={}", map.display());
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", &script, "-o"]).arg(&library).arg(&source);
    assert!(command.status().expect("the compiler runs").success());
    let bytes = fs::read(&library).expect("the library");
    let facts = ElfFacts::read(&bytes).expect("facts");
    let symbols = facts.symbols(&bytes, &["f", "new_f", "old_f"]).expect("a lookup");
    assert!(symbols[0].is_some());
    assert_eq!(symbols[0], symbols[1]);
    assert_ne!(symbols[0], symbols[2]);
}

#[test]
fn programs_of_the_system_have_facts() {
    let mut read = 0;
    for dir in ["/usr/bin", "/usr/sbin"] {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(file) = File::open(entry.path()) else { continue };
            match ElfFacts::read(&file) {
                Ok(facts) => {
                    assert_eq!(facts.section_trouble, None, "{}", entry.path().display());
                    read += 1;
                }
                Err(ElfError::NotElf | ElfError::WrongMachine { .. } | ElfError::Read { .. }) => {}
                Err(error) => panic!("{}: {error}", entry.path().display()),
            }
        }
    }
    assert!(read > 20, "only {read} programs were read");
}

/// A file header, one loadable segment and `extra` program headers, then `tail`.
struct Made {
    bytes: Vec<u8>,
}

const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;

impl Made {
    fn new(extra: &[(u32, u64, u64)], tail: &[u8]) -> Self {
        let count = 1 + extra.len();
        let at = HEADER_BYTES + PROGRAM_HEADER_BYTES * count;
        let mut bytes = vec![0; at];
        bytes.extend_from_slice(tail);
        let size = u64::try_from(bytes.len()).expect("a small size");
        let mut made = Self { bytes };
        made.put(0, b"\x7fELF\x02\x01\x01");
        made.put(16, &2_u16.to_le_bytes());
        made.put(18, &crate::arch::NATIVE_MACHINE.to_le_bytes());
        made.put(24, &0x40_1000_u64.to_le_bytes());
        made.put(32, &64_u64.to_le_bytes());
        made.put(54, &56_u16.to_le_bytes());
        made.put(56, &u16::try_from(count).expect("few headers").to_le_bytes());
        made.program_header(0, 1, 0, size);
        for (index, (kind, offset, size)) in extra.iter().enumerate() {
            made.program_header(index + 1, *kind, *offset, *size);
        }
        made
    }

    fn program_header(&mut self, index: usize, kind: u32, offset: u64, size: u64) {
        let at = HEADER_BYTES + PROGRAM_HEADER_BYTES * index;
        self.put(at, &kind.to_le_bytes());
        self.put(at + 4, &5_u32.to_le_bytes());
        self.put(at + 8, &offset.to_le_bytes());
        self.put(at + 16, &(0x40_0000 + offset).to_le_bytes());
        self.put(at + 32, &size.to_le_bytes());
        self.put(at + 40, &size.to_le_bytes());
    }

    fn put(&mut self, at: usize, value: &[u8]) {
        self.bytes[at..at + value.len()].copy_from_slice(value);
    }

    fn read(&self) -> Result<ElfFacts, ElfError> {
        ElfFacts::read(&self.bytes)
    }
}

const PT_INTERP: u32 = 3;
const PT_DYNAMIC: u32 = 2;

/// Where the tail of a file with one extra program header is.
const TAIL: u64 = 64 + 2 * 56;

#[test]
fn smallest_program() {
    let facts = Made::new(&[], b"").read().expect("facts");
    assert_eq!(facts.linkage, Linkage::Static);
    assert_eq!((facts.libc, facts.gnu_stack), (Libc::Unknown, GnuStack::Absent));
    assert_eq!(facts.segments.len(), 1);
}

#[test]
fn not_elf() {
    for bytes in [&b""[..], b"#!", b"\x7fEL", b"#!/bin/sh\necho this is a script\n", &[0; 4096]] {
        assert_eq!(ElfFacts::read(bytes).err(), Some(ElfError::NotElf), "{bytes:?}");
    }
}

#[test]
fn every_cut_is_an_error() {
    let whole = Made::new(&[(PT_INTERP, TAIL, 8)], b"/lib/ld\0").bytes;
    for length in 0..whole.len() {
        let error = ElfFacts::read(&whole[..length]).expect_err("a cut file");
        let expected = length < 4 && error == ElfError::NotElf;
        assert!(expected || matches!(error, ElfError::Truncated { .. }), "{length}: {error}");
    }
    assert_eq!(ElfFacts::read(&whole).expect("facts").interpreter.as_deref(), Some(Path::new("/lib/ld")));
}

#[test]
fn interpreter_must_end_with_nul() {
    for (size, text) in [(7, &b"/lib/ld"[..]), (1, b"\0"), (0, b"")] {
        let error = Made::new(&[(PT_INTERP, TAIL, size)], text).read().expect_err("a malformed path");
        assert_eq!(error, ElfError::Malformed { what: "interpreter path", offset: TAIL });
    }
    let long = vec![b'a'; 5000];
    assert!(Made::new(&[(PT_INTERP, TAIL, 5000)], &long).read().is_err());
    let inner = Made::new(&[(PT_INTERP, TAIL, 6)], b"/a\0/b\0").read().expect("facts");
    assert_eq!(inner.interpreter.as_deref(), Some(Path::new("/a")));
}

#[test]
fn foreign_files_name_their_machine() {
    let mut made = Made::new(&[], b"");
    made.put(4, &[1]);
    made.put(18, &3_u16.to_le_bytes());
    let error = made.read().expect_err("a foreign file");
    assert_eq!(error.to_string(), "ELF file is for another machine: 32-bit little-endian i386");
    made.put(4, &[2, 2]);
    made.put(18, &22_u16.to_be_bytes());
    let error = made.read().expect_err("a foreign file");
    assert_eq!(error.to_string(), "ELF file is for another machine: 64-bit big-endian s390");
    assert_eq!(
        ElfFacts::read(b"\x7fELF\x07\x09\x01\0\0\0\0\0\0\0\0\0\x02\0\xee\xee".as_slice()).err(),
        Some(ElfError::WrongMachine { ident: ElfIdent { class: 7, data: 9, machine: 0xeeee } })
    );
}

#[test]
fn header_fields_that_the_kernel_refuses() {
    let spoilt = |at: usize, value: &[u8]| {
        let mut made = Made::new(&[], b"");
        made.put(at, value);
        made.read().expect_err("a malformed header")
    };
    assert_eq!(spoilt(16, &[4, 0]), ElfError::NotExecutable { e_type: 4 });
    assert!(matches!(spoilt(54, &[32, 0]), ElfError::Malformed { offset: 54, .. }));
    assert!(matches!(spoilt(56, &[0, 0]), ElfError::Malformed { offset: 56, .. }));
    assert!(matches!(spoilt(56, &[0xff, 0xff]), ElfError::Malformed { offset: 56, .. }));
    assert!(matches!(spoilt(32, &[0xff; 8]), ElfError::Truncated { what: "program headers", .. }));
    assert!(matches!(spoilt(HEADER_BYTES, &[9]), ElfError::Malformed { what: "no loadable segment", .. }));
    assert!(matches!(spoilt(HEADER_BYTES + 32, &[0xff; 8]), ElfError::Malformed { .. }));
    assert!(matches!(spoilt(HEADER_BYTES + 16, &[0xff; 8]), ElfError::Malformed { .. }));
    assert!(matches!(spoilt(HEADER_BYTES + 8, &[0xff; 8]), ElfError::Malformed { .. }));
    assert!(matches!(spoilt(HEADER_BYTES + 8, &[1]), ElfError::Truncated { what: "segment", .. }));
}

#[test]
fn dynamic_names_outside_the_strings_are_malformed() {
    let entry = |tag: u64, value: u64| [tag.to_le_bytes(), value.to_le_bytes()].concat();
    let strings = 0x40_0000 + TAIL + 64;
    let table = |needed: u64, size: u64| {
        let mut tail = [entry(1, needed), entry(5, strings), entry(10, size), entry(0, 0)].concat();
        tail.extend_from_slice(b"\0libx.so\0rest\0");
        Made::new(&[(PT_DYNAMIC, TAIL, 64)], &tail).read()
    };
    assert_eq!(table(1, 14).expect("facts").needed, [OsStr::new("libx.so")]);
    assert!(matches!(table(15, 14), Err(ElfError::Malformed { what: "dynamic string", .. })));
    assert!(matches!(table(1, 5), Err(ElfError::Malformed { what: "dynamic string", .. })));
    let lone = Made::new(&[(PT_DYNAMIC, TAIL, 32)], &[entry(1, 1), entry(0, 0)].concat());
    assert!(matches!(lone.read(), Err(ElfError::Malformed { what: "names without a string table", .. })));
}

#[test]
fn spoilt_sections_leave_the_other_facts() {
    let mut bytes = compile("cc", &[], PROGRAM).expect("a C compiler");
    let whole = ElfFacts::read(&bytes).expect("facts");
    bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
    let facts = ElfFacts::read(&bytes).expect("facts without sections");
    assert!(matches!(facts.section_trouble, Some(ElfError::Truncated { what: "section headers", .. })));
    assert_eq!((facts.has_symtab, facts.main), (false, None));
    assert_eq!((facts.needed, facts.libc), (whole.needed, whole.libc));
    assert!(facts.has_dynsym);
}

#[test]
fn names_across_chunks_are_found() {
    // The strings fill several chunks, and `main` stands across the border of two of them.
    let border = 64 << 10;
    for before in border - 6..border + 2 {
        let mut strings = vec![b'x'; before];
        strings[0] = 0;
        strings.extend_from_slice(b"main\0");
        strings.resize(3 * border, 0);
        let name = u32::try_from(before).expect("a small offset");
        let mut bytes = strings.clone();
        let symbols = bytes.len();
        bytes.extend_from_slice(&[0; 24]);
        bytes.extend_from_slice(&name.to_le_bytes());
        bytes.extend_from_slice(&[0x12, 0, 1, 0]);
        bytes.extend_from_slice(&0x1234_u64.to_le_bytes());
        bytes.extend_from_slice(&7_u64.to_le_bytes());
        let range = |offset: usize, size: usize| source::FileRange {
            offset: source::as_u64(offset),
            size: source::as_u64(size),
        };
        let table = SymbolTable { symbols: range(symbols, 48), strings: range(0, symbols), versions: None };
        let reader = ElfReader::new(ElfSource::from(&bytes)).expect("a reader");
        let found = table.find(&reader, &["main"]).expect("a lookup");
        let symbol = Symbol { value: 0x1234, size: 7, kind: SymbolKind::Function };
        assert_eq!(found, [Some(symbol)], "{before}");
    }
}

#[test]
fn too_many_places_are_refused() {
    let bytes = b"main\0".repeat(70_000);
    let size = source::as_u64(bytes.len());
    let strings = source::FileRange { offset: 0, size };
    let table = SymbolTable { symbols: strings, strings, versions: None };
    let reader = ElfReader::new(ElfSource::from(&bytes)).expect("a reader");
    let error = table.find(&reader, &["main"]).expect_err("too many places");
    assert!(matches!(error, ElfError::TooLarge { what: "places of one name", .. }));
}

/// A program with everything in it: sections, notes, dynamic table, versions.
fn rich() -> &'static [u8] {
    static RICH: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    RICH.get_or_init(|| compile("cc", &["-rdynamic"], PROGRAM).expect("a C compiler"))
}

fn touch_everything(bytes: &[u8]) {
    if let Ok(facts) = ElfFacts::read(bytes) {
        let _ = facts.symbols(bytes, &["main", "getenv", ""]);
        let _ = facts.loads_from_working_directory();
    }
    let _ = ElfFacts::read_interpreter(bytes);
}

proptest! {
    #[test]
    fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        touch_everything(&bytes);
        let mut elf = Made::new(&[(PT_DYNAMIC, TAIL, 512)], &[]).bytes;
        elf.extend_from_slice(&bytes);
        touch_everything(&elf);
    }

    #[test]
    fn spoilt_programs_do_not_panic(
        spoils in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..24),
        words in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u64>()), 0..4),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let mut bytes = rich().to_vec();
        for (place, value) in spoils {
            // Half of the hits go to the headers, where they matter most.
            let length = if value % 2 == 0 { bytes.len().min(1024) } else { bytes.len() };
            bytes[place.index(length)] = value;
        }
        for (place, value) in words {
            let at = place.index(bytes.len() / 8) * 8;
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        touch_everything(&bytes);
    }
}
