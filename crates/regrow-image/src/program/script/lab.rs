//! A directory to make programs and scripts in, and the real exec to compare predictions with.

use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use rustix::io::Errno;
use tempfile::TempDir;

/// Prints the path that exec was given and the argument vector, each with a NUL behind it.
const PRINTER: &str = r#"
#include <stdio.h>
#include <sys/auxv.h>
int main(int argc, char **argv) {
    const char *path = (const char *)getauxval(AT_EXECFN);
    fputs(path, stdout);
    putchar(0);
    for (int i = 0; i < argc; i++) {
        fputs(argv[i], stdout);
        putchar(0);
    }
    return 0;
}
"#;

/// What the printer was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) path: PathBuf,
    pub(crate) argv: Vec<CString>,
}

impl Printed {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut words = bytes.split(|&byte| byte == 0);
        let path = words.next().expect("a path").to_vec();
        let mut argv: Vec<_> = words.map(|word| CString::new(word).expect("no NUL")).collect();
        assert!(argv.pop().is_some_and(|rest| rest.is_empty()), "the printer ends with a NUL");
        Self { path: OsString::from_vec(path).into(), argv }
    }
}

/// A directory with the printer in it, as `p`.
pub(crate) struct Lab {
    dir: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        static PRINTER_BYTES: OnceLock<Vec<u8>> = OnceLock::new();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let printer = PRINTER_BYTES.get_or_init(|| {
            let (source, program) = (dir.path().join("printer.c"), dir.path().join("printer"));
            fs::write(&source, PRINTER).expect("the source is written");
            let status = Command::new("cc").arg("-o").arg(&program).arg(&source).status();
            assert!(status.expect("a C compiler").success());
            fs::read(&program).expect("the printer is read")
        });
        let lab = Self { dir };
        lab.file("p", printer, 0o755);
        lab
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// The printer's absolute path.
    pub(crate) fn printer(&self) -> String {
        self.path("p").into_os_string().into_string().expect("a path of text")
    }

    /// Writes a file; directories before it are made.
    pub(crate) fn file(&self, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("the directory is made");
        fs::write(&path, bytes).expect("the file is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("the mode is set");
        path
    }

    /// Executes `path` in this directory.
    pub(crate) fn exec(&self, path: &Path, argv: &[&str]) -> Result<Printed, Errno> {
        let (first, rest) = argv.split_first().expect("argv[0]");
        let mut command = Command::new(path);
        command.arg0(first).args(rest).current_dir(self.dir());
        printed(output(&mut command))
    }
}

impl Drop for Lab {
    /// Opens the folders that a test has closed: whoever has no privilege could not empty them.
    fn drop(&mut self) {
        let entries = fs::read_dir(self.dir()).into_iter().flatten().flatten();
        for folder in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let _ = fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755));
        }
    }
}

pub(crate) fn argv(words: &[&str]) -> Vec<CString> {
    words.iter().map(|word| CString::new(*word).expect("no NUL")).collect()
}

/// Runs a command. A file that was just written can be held open for writing by a child that
/// another test is about to start: exec says `ETXTBSY` until that child has executed.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    loop {
        match command.output() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            result => return result,
        }
    }
}

pub(crate) fn printed(result: io::Result<Output>) -> Result<Printed, Errno> {
    let output = result.map_err(|error| Errno::from_io_error(&error).expect("an error of the kernel"))?;
    assert!(output.status.success(), "{output:?}");
    Ok(Printed::parse(&output.stdout))
}

/// Neither a script nor an ELF file: the kernel has no format for it.
pub(crate) fn has_no_format(path: &Path) -> bool {
    let bytes = fs::read(path).expect("the file is read");
    !bytes.starts_with(b"#!") && !bytes.starts_with(b"\x7fELF")
}
