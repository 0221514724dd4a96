//! Builds what does without a libc, and hands it to the crate: the client of one page, which is one small piece without relocations, and the
//! builtins for bash.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use object::{Object, ObjectSection, ObjectSegment};

/// What the file of the client must be smaller than.
const LIMIT: usize = 16 * 1024;

fn main() {
    let crate_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets the crate's folder"));
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets the output folder"));
    let client_dir = crate_dir.join("../../client");
    for part in ["src", "builtin", "link.ld", "Cargo.toml", "Cargo.lock", "../crates/regrow-abi/src"] {
        println!("cargo::rerun-if-changed={}", client_dir.join(part).display());
    }
    let elf = build_client(&client_dir, &out_dir.join("client"));
    check(&elf);
    fs::write(out_dir.join("client.bin"), elf).expect("the output folder is writable");
    let library = build_builtins(&client_dir, &out_dir.join("builtin"));
    fs::write(out_dir.join("builtins.txt"), names(&library)).expect("the output folder is writable");
    fs::write(out_dir.join("builtin.so"), library).expect("the output folder is writable");
}

/// Builds the client; returns the linked file.
fn build_client(client_dir: &Path, target_dir: &Path) -> Vec<u8> {
    let script = fs::canonicalize(client_dir.join("link.ld")).expect("the client has a linker script");
    let link_args = [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,--build-id=none",
        "-Wl,-z,noseparate-code",
        "-Wl,-z,max-page-size=4096",
    ];
    let mut flags: Vec<String> = link_args.iter().map(|arg| format!("-Clink-arg={arg}")).collect();
    flags.push(format!("-Clink-arg=-Wl,-T,{}", script.display()));
    flags.push("-Crelocation-model=static".to_owned());
    build(&client_dir.join("Cargo.toml"), target_dir, &flags, "regrow-client")
}

/// Builds the library of builtins for bash; returns the linked file.
fn build_builtins(client_dir: &Path, target_dir: &Path) -> Vec<u8> {
    let flags = ["-nostartfiles", "-nostdlib", "-Wl,--build-id=none"].map(|arg| format!("-Clink-arg={arg}"));
    build(&client_dir.join("builtin/Cargo.toml"), target_dir, &flags, "libregrow_builtin.so")
}

/// Builds a package of the client's workspace with its own lock file and target folder; returns a file of what comes of it.
fn build(manifest: &Path, target_dir: &Path, flags: &[String], file: &str) -> Vec<u8> {
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
    assert!(status.success(), "building {file} failed: {status}");
    fs::read(target_dir.join("release").join(file)).expect("it was linked")
}

/// The names of the builtins that a library has. It needs no other library, and of the shell what a builtin needs.
fn names(library: &[u8]) -> String {
    let file = object::File::parse(library).expect("the linker writes ELF");
    let imports = file.imports().expect("it has a table of them");
    assert!(imports.iter().all(|import| import.library().is_empty()), "the library of builtins needs others");
    let exports = file.exports().expect("it has a table of them");
    let names =
        exports.iter().filter_map(|export| std::str::from_utf8(export.name()).ok()?.strip_suffix("_struct"));
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    assert!(names.len() > 50, "the library has builtins for {names:?} alone");
    names.join(" ")
}

/// Nothing is to be done before its first instruction but to map it.
fn check(elf: &[u8]) {
    let file = object::File::parse(elf).expect("the linker writes ELF");
    assert!(elf.len() < LIMIT, "the client has {} bytes, {LIMIT} are too many", elf.len());
    assert_eq!(file.segments().count(), 1, "the client is one segment");
    let segment = file.segments().next().expect("it is one");
    assert_eq!(segment.size(), segment.file_range().1, "the client has no memory that is not in its file");
    for section in file.sections() {
        let name = section.name().unwrap_or("?");
        let is_wrong = name.starts_with(".rela") || [".data", ".dynamic", ".interp", ".bss"].contains(&name);
        assert!(!is_wrong || section.size() == 0, "the client must have no {name}");
    }
}
