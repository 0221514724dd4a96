//! Places in programs that a C compiler makes: with lines, without, taken apart, changed and damaged.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::*;
use crate::image;

/// Tells the return address of a call in a function that is inlined, in one that is not, and in one with a name of C++ or Rust; each less the load base, with
/// its line.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
static unsigned long base;
static int first(struct dl_phdr_info *info, size_t size, void *to) { *(unsigned long *)to = info->dlpi_addr; return 1; }
__attribute__((noinline)) void tell(int line) {
    printf("%lx %d\n", (unsigned long)__builtin_return_address(0) - base, line); fflush(stdout); __asm__ volatile("");
}
static inline __attribute__((always_inline)) void inlined(void) { tell(__LINE__); __asm__ volatile(""); }
__attribute__((noinline)) void outer(void) { inlined(); __asm__ volatile(""); }
__attribute__((noinline)) void of_rust(void) __asm__("_ZN4core3fmt5write17h0123456789abcdefE");
void of_rust(void) { tell(__LINE__); __asm__ volatile(""); }
__attribute__((noinline)) void of_cpp(void) __asm__("_ZN5stove4lookERKSs");
void of_cpp(void) { tell(__LINE__); __asm__ volatile(""); }
int main(void) { dl_iterate_phdr(first, &base); outer(); of_rust(); of_cpp(); return 0; }
"#;

/// A program, and the places that it tells.
struct Program {
    folder: tempfile::TempDir,
    path: PathBuf,
    places: Vec<(u64, u32)>,
}

fn run(words: &[&str], folder: &Path) -> Vec<u8> {
    let done = Command::new(words[0]).args(&words[1..]).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

impl Program {
    fn compile(flags: &[&str]) -> Program {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("stove.c"), SOURCE).unwrap();
        let path = folder.path().join("stove");
        run(
            &[&["cc", "-w", "-O1", "-o", "stove", "stove.c", "-Wl,--build-id"], flags].concat(),
            folder.path(),
        );
        let told = String::from_utf8(run(&["./stove"], folder.path())).unwrap();
        let places = told.lines().map(|line| {
            let (offset, line) = line.split_once(' ').unwrap();
            (u64::from_str_radix(offset, 16).unwrap(), line.parse().unwrap())
        });
        Program { places: places.collect(), folder, path }
    }

    fn image(&self) -> ImageId {
        image::id_of(&fs::File::open(&self.path).unwrap()).unwrap()
    }

    fn look_up(&self) -> Vec<Place> {
        let mut symbols = Symbols::with_debug_folder(&self.folder.path().join("debug"));
        let frame = |offset| Frame { module: self.image(), offset };
        let path = self.path.to_str().unwrap();
        self.places.iter().map(|(offset, _)| (*symbols.place(frame(*offset), Some(path))).clone()).collect()
    }

    /// Moves the debug information to a file of its own.
    fn take_apart(&self) {
        let build_id = object_build_id(&self.path);
        let folder = self.folder.path().join("debug/.build-id").join(&build_id[..2]);
        fs::create_dir_all(&folder).unwrap();
        let apart = folder.join(format!("{}.debug", &build_id[2..]));
        run(&["objcopy", "--only-keep-debug", "stove", apart.to_str().unwrap()], self.folder.path());
        run(&["strip", "stove"], self.folder.path());
    }
}

fn object_build_id(path: &Path) -> String {
    use object::Object;
    let bytes = fs::read(path).unwrap();
    let id = object::File::parse(&*bytes).unwrap().build_id().unwrap().unwrap().to_vec();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Each place with its function and its line.
fn assert_lines(program: &Program) {
    let places = program.look_up();
    let functions: Vec<&str> = places.iter().map(|place| place.function.as_deref().unwrap_or("-")).collect();
    assert_eq!(functions[0], "inlined");
    let lines: Vec<Option<u32>> = places.iter().map(|place| place.line).collect();
    assert_eq!(lines, program.places.iter().map(|(_, line)| Some(*line)).collect::<Vec<_>>());
    assert!(
        places.iter().all(|place| place.file.as_ref().is_some_and(|file| file.ends_with("stove.c"))),
        "{places:?}"
    );
    assert_eq!(places[0].short(), format!("stove.c:{}", program.places[0].1));
}

/// The function that each place is in, and how far; no line.
fn assert_functions(program: &Program, expected: [Option<&str>; 3]) {
    let places = program.look_up();
    let functions = places.iter().map(|place| place.function.as_deref());
    assert_eq!(functions.collect::<Vec<_>>(), expected);
    for (place, function) in places.iter().zip(expected) {
        assert_eq!((place.line, place.file.as_ref()), (None, None));
        match function {
            Some(function) => {
                let short = format!("{}+0x", crate::text::short_function(function));
                assert!(place.short().starts_with(&short), "{place:?}");
            }
            None => assert_eq!(place.short(), format!("stove+{:#x}", place.offset)),
        }
    }
}

const DEMANGLED: [Option<&str>; 3] =
    [Some("outer"), Some("core::fmt::write"), Some("stove::look(std::string const&)")];

#[test]
fn lines_are_found_in_programs_of_all_kinds() {
    for flags in [
        &["-g", "-pie", "-fPIE"][..],
        &["-g", "-no-pie", "-fno-pie"],
        &["-g", "-static"],
        &["-g", "-gz=zlib"],
        &["-gdwarf-4"],
    ] {
        let program = Program::compile(flags);
        assert_lines(&program);
        program.take_apart();
        assert_lines(&program);
    }
}

#[test]
fn information_that_dwz_has_moved_is_found() {
    let program = Program::compile(&["-g", "-gdwarf-4"]);
    let folder = program.folder.path();
    fs::copy(&program.path, folder.join("twin")).unwrap();
    let done = Command::new("dwz").args(["-m", "shared.debug", "stove", "twin"]).current_dir(folder).status();
    assert!(done.expect("dwz is installed").success());
    assert!(folder.join("shared.debug").exists());
    assert_lines(&program);
    fs::remove_file(folder.join("shared.debug")).unwrap();
    assert_eq!(program.look_up().len(), 3, "less is known, and nothing fails");
}

#[test]
fn without_lines_the_function_is_named() {
    assert_functions(&Program::compile(&[]), DEMANGLED);
    let exported = Program::compile(&["-rdynamic"]);
    run(&["strip", "stove"], exported.folder.path());
    assert_functions(&exported, DEMANGLED);
    let stripped = Program::compile(&["-s"]);
    assert_functions(&stripped, [None; 3]);
}

#[test]
fn a_file_that_is_another_one_by_now_is_not_looked_at() {
    let program = Program::compile(&["-g"]);
    let image = program.image();
    let frame = Frame { module: image, offset: program.places[0].0 };
    let path = program.path.to_str().unwrap().to_owned();
    let place = |path: Option<&str>| Symbols::default().place(frame, path).short();
    assert!(place(Some(&path)).starts_with("stove.c:"));
    run(
        &["cc", "-w", "-O2", "-g", "-o", "stove", "stove.c", "-DOTHER", "-Wl,--build-id=0x1234"],
        program.folder.path(),
    );
    let bare = format!("stove+{:#x}", frame.offset);
    assert_eq!(place(Some(&path)), bare);
    fs::remove_file(&path).unwrap();
    assert_eq!(place(Some(&path)), bare);
    run(&["mkfifo", "stove"], program.folder.path());
    assert_eq!(place(Some(&path)), bare, "a pipe keeps nobody waiting");
    assert_eq!(place(None), format!("?+{:#x}", frame.offset));
    for odd in ["/", "/dev/zero", "", "[vdso]", "\0"] {
        place(Some(odd));
    }
}

#[test]
fn a_path_that_is_told_later_is_used_then() {
    let program = Program::compile(&["-g"]);
    let mut symbols = Symbols::default();
    let frame = Frame { module: program.image(), offset: program.places[0].0 };
    assert_eq!(symbols.place(frame, None).line, None);
    assert_eq!(symbols.place(frame, program.path.to_str()).line, Some(program.places[0].1));
    assert_eq!(symbols.place(frame, None).line, Some(program.places[0].1), "it is remembered");
}

/// Damages what the lines and the symbols are read from, and keeps the build id, so that the file is looked at.
#[test]
fn damaged_files_give_less_and_no_failure() {
    use object::{Object, ObjectSection};
    let program = Program::compile(&["-g"]);
    let whole = fs::read(&program.path).unwrap();
    let ranges: Vec<(u64, u64)> = object::File::parse(&*whole)
        .unwrap()
        .sections()
        .filter(|section| {
            section.name().is_ok_and(|name| {
                name.starts_with(".debug") || matches!(name, ".symtab" | ".strtab" | ".shstrtab")
            })
        })
        .filter_map(|section| section.file_range())
        .collect();
    assert!(ranges.len() >= 6, "{ranges:?}");
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below.max(1)
    };
    for round in 0..300 {
        let mut bytes = whole.clone();
        let (start, length) = ranges[usize::try_from(random(ranges.len() as u64)).unwrap()];
        for _ in 0..1 + round % 40 {
            let at = usize::try_from(start + random(length)).unwrap();
            bytes[at] = u8::try_from(random(256)).unwrap();
        }
        if round % 10 == 0 {
            // A table of sections that leads beyond the file.
            bytes.truncate(bytes.len() - usize::try_from(random(4096)).unwrap());
        }
        fs::write(&program.path, &bytes).unwrap();
        assert_eq!(program.look_up().len(), 3);
    }
}

/// A file with the name of the C library, in which a function has a name of its own and one for others.
#[test]
fn functions_of_the_c_library_have_the_name_that_others_call_them_by() {
    let folder = tempfile::tempdir().unwrap();
    let source = "int outside(void);\nint __libc_stove(void) { return outside() + 1; }\nint stove(void) __attribute__((alias(\"__libc_stove\")));\n";
    fs::write(folder.path().join("stove.c"), source).unwrap();
    for flags in [&["-g"][..], &[]] {
        let words =
            [&["cc", "-O1", "-shared", "-fPIC", "-o", "libc.so.6", "stove.c", "-Wl,--build-id"], flags]
                .concat();
        run(&words, folder.path());
        let path = folder.path().join("libc.so.6");
        let table = String::from_utf8(run(&["nm", "-S", "libc.so.6"], folder.path())).unwrap();
        let line = table.lines().find(|line| line.ends_with(" __libc_stove")).unwrap();
        let offset = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap() + 6;
        let module = image::id_of(&fs::File::open(&path).unwrap()).unwrap();
        let place = Symbols::default().place(Frame { module, offset }, path.to_str());
        assert_eq!(place.function.as_deref(), Some("stove"), "{place:?}");
        assert_eq!(place.line.is_some(), flags == ["-g"], "{place:?}");
    }
}

#[test]
fn the_c_librarys_own_files_are_known() {
    let is = |module: &str| Place { module: module.to_owned(), ..Place::default() }.is_in_libc();
    for libc in ["/usr/lib/libc.so.6", "/lib64/ld-linux.so.2", "/lib/ld-musl.so.1", "/lib/libc-2.31.so"] {
        assert!(is(libc), "{libc}");
    }
    for other in ["/usr/lib/libcurl.so.4", "/usr/bin/make", "", "/usr/lib/libcap.so.2"] {
        assert!(!is(other), "{other}");
    }
}
