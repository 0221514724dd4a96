//! Which programs are run: the one that the user names, or a list of common ones as far as they are there.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};
use tempfile::TempDir;

use crate::cli::BenchArgs;
use crate::error::CliError;

/// The built-in list, but for the static program.
const COMMON: &[&[&str]] = &[
    &["/bin/true"],
    &["sh", "-c", ":"],
    &["git", "--version"],
    &["perl", "-e", "1"],
    // Not the first in PATH, which may be a script that looks for a Python.
    &["/usr/bin/python3", "-c", "pass"],
    &["/bin/ls", "/"],
];
/// Where in the list the static program stands.
const STATIC_POSITION: usize = 2;
/// Its name in the results.
const STATIC_NAME: &str = "static C";
/// Its source: it makes no output and ends at once.
const STATIC_SOURCE: &str = "int main(void) { return 0; }\n";

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// What it is called in the results.
    pub(super) name: String,
    /// The file. Both ways of starting are given it, so that neither is measured with a search in `PATH`.
    pub(super) path: PathBuf,
    /// The arguments that follow its name.
    pub(super) args: Vec<OsString>,
}

/// The programs to measure, and what is to be said of those that are left out.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) list: Vec<Program>,
    pub(super) left_out: Vec<String>,
    /// Where the compiled program is, for as long as it is used.
    _compiled: Option<TempDir>,
}

/// What the user asks for.
pub(super) fn choose(args: &BenchArgs) -> Result<Programs, CliError> {
    match &args.program {
        Some(program) => {
            let list = vec![Program::find(program, &args.args)?];
            Ok(Programs { list, left_out: Vec::new(), _compiled: None })
        }
        None => Ok(common(args.static_program.as_deref())?),
    }
}

fn common(static_program: Option<&Path>) -> Result<Programs, CliError> {
    let mut programs = Programs { list: Vec::new(), left_out: Vec::new(), _compiled: None };
    for (position, words) in COMMON.iter().enumerate() {
        if position == STATIC_POSITION {
            programs.add_static(static_program)?;
        }
        let Some((program, args)) = words.split_first() else { continue };
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        match Program::find(OsStr::new(program), &args) {
            Ok(program) => programs.list.push(program),
            Err(_) => programs.left_out.push(format!("{program} is not installed")),
        }
    }
    Ok(programs)
}

impl Programs {
    /// Adds the static program: the given one, or one compiled here.
    fn add_static(&mut self, given: Option<&Path>) -> Result<(), CliError> {
        let path = match given {
            Some(path) => Program::find(path.as_os_str(), &[])?.path,
            None => {
                let folder =
                    tempfile::tempdir().map_err(CliError::system("a temporary folder cannot be made"))?;
                match compile_static(folder.path()) {
                    Ok(path) => {
                        self._compiled = Some(folder);
                        path
                    }
                    Err(why) => {
                        self.left_out.push(format!("{STATIC_NAME}: {why}"));
                        return Ok(());
                    }
                }
            }
        };
        self.list.push(Program { name: STATIC_NAME.to_owned(), path, args: Vec::new() });
        Ok(())
    }
}

/// Compiles the static program. Fails with the reason in words.
fn compile_static(folder: &Path) -> Result<PathBuf, String> {
    let (source, program) = (folder.join("static.c"), folder.join("static"));
    std::fs::write(&source, STATIC_SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-static", "-o"]).arg(&program).arg(&source);
    let status = compiler.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(program),
        Ok(_) => Err("cc cannot link statically".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("cc is not installed".to_owned()),
        Err(error) => Err(format!("cc: {error}")),
    }
}

impl Program {
    /// Looks the program up, in `PATH` when its name has no slash.
    fn find(program: &OsStr, args: &[OsString]) -> Result<Self, CliError> {
        let path = find_in(program, std::env::var_os("PATH").as_deref())
            .ok_or_else(|| CliError::NoProgram { program: program.to_owned() })?;
        let words = std::iter::once(program).chain(args.iter().map(OsString::as_os_str));
        let name = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
        Ok(Self { name, path, args: args.to_vec() })
    }

    /// What the program is called with, its own name first.
    pub(super) fn argv(&self) -> Vec<OsString> {
        let name = self.path.clone().into_os_string();
        std::iter::once(name).chain(self.args.iter().cloned()).collect()
    }
}

/// A program as exec would find it: a path, or the first in these folders that can be executed.
pub(crate) fn find_in(program: &OsStr, search: Option<&OsStr>) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return is_executable(&path).then_some(path);
    }
    std::env::split_paths(search?).map(|folder| folder.join(program)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_where_exec_looks() {
        let path = |program: &str, search: &str| find_in(OsStr::new(program), Some(OsStr::new(search)));
        assert_eq!(path("sh", "/nonexistent:/bin"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(path("/bin/sh", "/nonexistent"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(path("sh", "/nonexistent"), None);
        // A folder, and a file that cannot be executed.
        assert_eq!(path("/bin", "/"), None);
        assert_eq!(path("/etc/passwd", "/"), None);
    }

    #[test]
    fn a_program_is_called_by_its_path_and_shown_as_it_was_given() {
        let program = Program::find(OsStr::new("/bin/sh"), &["-c".into(), ":".into()]).unwrap();
        assert_eq!(program.name, "/bin/sh -c :");
        assert_eq!(program.argv(), ["/bin/sh", "-c", ":"]);
    }

    #[test]
    fn the_list_has_the_static_program_in_its_place() {
        let programs = common(Some(Path::new("/bin/sh"))).unwrap();
        let names: Vec<&str> = programs.list.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(
            names.get(..3),
            Some(&["/bin/true", "sh -c :", STATIC_NAME][..]),
            "{:?}",
            programs.left_out
        );
    }
}
