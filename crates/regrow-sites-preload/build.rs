//! Builds the library (`client/sites`), which does without a libc, and looks at what came of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use object::elf::{PF_W, PF_X};
use object::{Object, ObjectSegment, SegmentFlags};

/// The names by which programs call. Whatever else stood among them would take a function's place that is none of the library's business.
const CALLS: [&str; 29] = [
    "_Exit",
    "_Fork",
    "__fork",
    "__libc_start_main",
    "__vfork",
    "_exit",
    "clone",
    "daemon",
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execvp",
    "execvpe",
    "fexecve",
    "fork",
    "forkpty",
    "popen",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "vfork",
    "wait",
    "wait3",
    "wait4",
    "waitid",
    "waitpid",
    "wordexp",
];

/// What each C library has that a program may be linked with: all that the library asks for.
const ASKED: [&str; 10] = [
    "__errno_location",
    "_dl_find_object",
    "clock_gettime",
    "dl_iterate_phdr",
    "dlsym",
    "environ",
    "getauxval",
    "memcpy",
    "memset",
    "strlen",
];

fn main() {
    let crate_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets the crate's folder"));
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets the output folder"));
    let client_dir = crate_dir.join("../../client");
    for part in ["sites", "Cargo.toml", "Cargo.lock", "../crates/regrow-abi/src"] {
        println!("cargo::rerun-if-changed={}", client_dir.join(part).display());
    }
    let library = build(&client_dir.join("sites/Cargo.toml"), &out_dir.join("sites"));
    check(&library);
    fs::write(out_dir.join("libregrow_sites.so"), library).expect("the output folder is writable");
}

/// Builds the library with its own lock file and target folder; returns the linked file.
fn build(manifest: &Path, target_dir: &Path) -> Vec<u8> {
    // The tables by which a thread that is ended finds its way out through a function that waits.
    let flags = ["-Crelro-level=off", "-Cforce-unwind-tables=yes"];
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .status()
        .expect("cargo starts");
    assert!(status.success(), "building the library failed: {status}");
    fs::read(target_dir.join("release/libregrow_sites.so")).expect("it was linked")
}

/// It is two segments, gives what it is to give, and asks for nothing that a C library may not have.
fn check(library: &[u8]) {
    let file = object::File::parse(library).expect("the linker writes ELF");
    let flags = file.segments().map(|segment| match segment.flags() {
        SegmentFlags::Elf { p_flags } => p_flags & (PF_W | PF_X),
        other => panic!("flags of another format: {other:?}"),
    });
    assert_eq!(flags.collect::<Vec<_>>(), [PF_X, PF_W], "each mapping costs every fork");
    let exports = file.exports().expect("it has a table of them");
    for export in exports {
        let name = String::from_utf8_lossy(export.name()).into_owned();
        assert!(CALLS.contains(&name.as_str()), "the library gives {name}");
    }
    let imports = file.imports().expect("it has a table of them");
    for import in imports {
        let name = String::from_utf8_lossy(import.name()).into_owned();
        assert!(ASKED.contains(&name.as_str()), "the library asks for {name}");
    }
}
