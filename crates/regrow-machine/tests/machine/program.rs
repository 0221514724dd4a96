//! Programs with known places, built for the test, and where their calls return to, by `objdump`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder for programs; removed at the end.
pub(crate) struct Workshop(tempfile::TempDir);

impl Workshop {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// A path in it, without links.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().expect("it is there").join(name)
    }

    /// Builds a program of `programs/`.
    pub(crate) fn build(&self, name: &str, compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
        let path = self.path(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machine/programs").join(source);
        output(Command::new(compiler).args(flags).arg("-o").arg(&path).arg(source));
        path
    }

    /// A copy without symbols.
    pub(crate) fn strip(&self, program: &Path, name: &str) -> PathBuf {
        let path = self.path(name);
        output(Command::new("strip").arg("-o").arg(&path).arg(program));
        path
    }
}

/// Runs a command, which must succeed; its number.
pub(crate) fn run(command: &mut Command) -> u32 {
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let status = child.wait().expect("it is a child");
    assert!(status.success(), "{command:?}: {status}");
    child.id()
}

/// Runs a command, which must succeed; what it prints.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The address behind the first call in a function.
pub(crate) fn behind_call(program: &Path, function: &str) -> u64 {
    let listing =
        output(Command::new("objdump").args(["-d", &format!("--disassemble={function}")]).arg(program));
    let mut lines = listing.lines().skip_while(|line| !line.contains(&format!("<{function}>:"))).skip(1);
    let is_call = |line: &str| {
        line.split('\t').nth(2).is_some_and(|text| text.split_whitespace().any(|word| word == "call"))
    };
    let address = |line: &str| u64::from_str_radix(line.trim().split(':').next()?, 16).ok();
    lines.find(|line| is_call(line)).unwrap_or_else(|| panic!("a call in {function}: {listing}"));
    lines.find_map(address).unwrap_or_else(|| panic!("an instruction behind the call in {function}"))
}

/// The address of a dynamic symbol.
pub(crate) fn dynamic_symbol(library: &Path, name: &str) -> u64 {
    let listing = output(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let is_named = |word: &str| word.split('@').next() == Some(name);
    let line = listing.lines().find(|line| line.split_whitespace().nth(2).is_some_and(is_named));
    let address = line.and_then(|line| u64::from_str_radix(line.split_whitespace().next()?, 16).ok());
    address.unwrap_or_else(|| panic!("{name} in {}", library.display()))
}
