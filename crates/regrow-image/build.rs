//! Builds the agent, checks that it is one position-independent run of bytes, and hands it to the crate.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use object::{Object, ObjectSection};

fn main() {
    let crate_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets the crate's folder"));
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets the output folder"));
    let agent_dir = crate_dir.join("../../agent");
    for part in ["src", "link.ld", "Cargo.toml", "Cargo.lock", "../crates/regrow-abi/src"] {
        println!("cargo::rerun-if-changed={}", agent_dir.join(part).display());
    }
    let elf = build_agent(&agent_dir, &out_dir.join("agent"));
    fs::write(out_dir.join("agent.bin"), flatten(&elf)).expect("the output folder is writable");
}

/// Builds the agent with its own lock file and target folder; returns the linked file.
fn build_agent(agent_dir: &Path, target_dir: &Path) -> Vec<u8> {
    let script = fs::canonicalize(agent_dir.join("link.ld")).expect("the agent has a linker script");
    let link_args = ["-nostartfiles", "-nostdlib", "-pie", "-Wl,--build-id=none", "-Wl,-z,noseparate-code"];
    let mut flags: Vec<String> = link_args.iter().map(|arg| format!("-Clink-arg={arg}")).collect();
    flags.push(format!("-Clink-arg=-Wl,-T,{}", script.display()));
    flags.push("-Crelocation-model=pie".to_owned());
    // The jump loads the whole floating-point state; baseline instructions are enough before it.
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        // Whatever links the crate for older systems, the agent needs nothing of a system: its bytes are the same in every build.
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_TARGET_") && name != "CARGO_TARGET_DIR") {
            command.env_remove(name);
        }
    }
    let status = command
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(agent_dir.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .status()
        .expect("cargo starts");
    assert!(status.success(), "building the agent failed: {status}");
    fs::read(target_dir.join("release/regrow-agent")).expect("the agent was linked")
}

/// The bytes of the only section that has any, entry first.
fn flatten(elf: &[u8]) -> Vec<u8> {
    let file = object::File::parse(elf).expect("the linker writes ELF");
    let mut code = None;
    for section in file.sections() {
        let name = section.name().unwrap_or("?");
        match name {
            ".text" => {
                assert_eq!(section.address(), file.entry(), "the entry must be the first byte of the code");
                code = Some(section.data().expect("code has content").to_vec());
            }
            ".data" | ".got" | ".rela.dyn" | ".rela.plt" | ".rela.text" => {
                assert_eq!(
                    section.size(),
                    0,
                    "the agent must have no data and no relocations, but has {name}"
                );
            }
            _ => {}
        }
    }

    code.expect("the agent has code")
}
