//! Builds the client of one page, checks that it is one small piece without relocations, and hands it to the crate.

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
    for part in ["src", "link.ld", "Cargo.toml", "Cargo.lock", "../crates/regrow-abi/src"] {
        println!("cargo::rerun-if-changed={}", client_dir.join(part).display());
    }
    let elf = build_client(&client_dir, &out_dir.join("client"));
    check(&elf);
    fs::write(out_dir.join("client.bin"), elf).expect("the output folder is writable");
}

/// Builds the client with its own lock file and target folder; returns the linked file.
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
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(client_dir.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .status()
        .expect("cargo starts");
    assert!(status.success(), "building the client failed: {status}");
    fs::read(target_dir.join("release/regrow-client")).expect("the client was linked")
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
