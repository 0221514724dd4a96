//! A program in C uses the interface: it is compiled with the header that is checked in, and linked with the static library.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The static library, which stands beside the test: cargo puts a hash into its name, so that earlier ones may be there, too.
fn library() -> PathBuf {
    let folder = std::env::current_exe().expect("the test's own file").with_file_name("");
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libregrow_memory_c") && name.ends_with(".a")
    };
    let found =
        fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).filter(is_library);
    let made = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    found.max_by_key(made).expect("it is built with the test")
}

fn compile(to: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-D_GNU_SOURCE", "-O1", "-I"]);
    command.arg(root.join("include")).arg(root.join("tests/uses.c")).arg(library());
    command.args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"]).arg(to);
    let made = command.output().expect("there is a compiler");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn a_program_in_c_has_what_the_header_says_and_a_block_freed_twice_ends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("uses");
    compile(&program);
    let run = |arguments: &[&str]| -> Output {
        Command::new(&program).args(arguments).output().expect("it starts")
    };
    let whole = run(&[]);
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    assert_eq!(whole.stdout, b"all of it holds\n");
    let twice = run(&["twice"]);
    assert_eq!(twice.status.signal(), Some(6), "it aborts");
    let said = String::from_utf8_lossy(&twice.stderr);
    assert!(
        said.starts_with("regrow_memory: regrow_memory_free_or_abort: the block at 0x")
            && said.contains("was freed before"),
        "{said}"
    );
}
