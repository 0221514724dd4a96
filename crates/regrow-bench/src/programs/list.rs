//! The programs to measure: the one that the user names, or the common ones that are installed.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use regrow_image::resolve::find_program;
use tempfile::TempDir;

use super::compiler::{CompileError, compile};
use crate::error::BenchError;

/// The built-in list, without the static program.
const COMMON: &[&[&str]] = &[
    &["/bin/true"],
    &["sh", "-c", ":"],
    &["git", "--version"],
    &["perl", "-e", "1"],
    // The first in PATH may be a script that looks for a Python.
    &["/usr/bin/python3", "-c", "pass"],
    &["/bin/ls", "/"],
];
/// Python with modules, which Regrow's interpreter has imported.
const MODULES: &[&str] = &["json", "re", "decimal", "http.client", "email"];
/// Its name in the results.
const MODULES_NAME: &str = "python3, five modules";
/// Where in the list the static program stands.
const STATIC_POSITION: usize = 2;
/// Its name in the results.
const STATIC_NAME: &str = "static C";
/// Its source: it writes nothing and ends at once.
const STATIC_SOURCE: &str = "int main(void) { return 0; }\n";

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchProgram {
    /// Its name in the results.
    pub name: String,
    /// The file. Both methods get it, so that neither searches `PATH`.
    pub(super) path: PathBuf,
    /// The arguments that follow its name.
    pub(super) args: Vec<OsString>,
    /// The modules that Regrow's interpreter has imported.
    pub(super) preload: Vec<String>,
}

/// The programs to measure.
#[derive(Debug)]
pub struct ProgramList {
    /// Those that are installed.
    pub list: Vec<BenchProgram>,
    /// Why the others are left out, one sentence each.
    pub left_out: Vec<String>,
    /// Whether this is the built-in list, whose programs Regrow recycles.
    pub is_built_in: bool,
    /// Holds the compiled program while it is used.
    _compiled: Option<TempDir>,
}

impl ProgramList {
    /// The program that the user names, with its arguments.
    ///
    /// # Errors
    /// [`BenchError::NoProgram`] where there is none.
    pub fn of(program: &OsStr, args: &[OsString]) -> Result<Self, BenchError> {
        let list = vec![BenchProgram::find(program, args)?];
        Ok(Self { list, left_out: Vec::new(), is_built_in: false, _compiled: None })
    }

    /// The built-in list. Its static program is `static_program`, or one that `cc` compiles.
    ///
    /// # Errors
    /// [`BenchError::NoProgram`] where `static_program` is none, [`BenchError::System`] where there is no temporary folder.
    pub fn common(static_program: Option<&Path>) -> Result<Self, BenchError> {
        let mut programs =
            Self { list: Vec::new(), left_out: Vec::new(), is_built_in: true, _compiled: None };
        for (position, words) in COMMON.iter().enumerate() {
            if position == STATIC_POSITION {
                programs.add_static(static_program)?;
            }
            let Some((program, args)) = words.split_first() else { continue };
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            match BenchProgram::find(OsStr::new(program), &args) {
                Ok(program) => programs.list.push(program),
                Err(_) => programs.left_out.push(format!("{program} is not installed")),
            }
        }
        programs.add_python_with_modules();
        Ok(programs)
    }

    /// Adds Python with modules, where there is a Python.
    fn add_python_with_modules(&mut self) {
        let code = format!("import {}", MODULES.join(", "));
        let args = ["-c".into(), code.into()];
        if let Ok(python) = BenchProgram::find(OsStr::new("/usr/bin/python3"), &args) {
            let preload = MODULES.iter().map(|name| format!("python:{name}")).collect();
            self.list.push(BenchProgram { name: MODULES_NAME.to_owned(), preload, ..python });
        }
    }

    /// Adds the static program: the given one, or one that is compiled here.
    fn add_static(&mut self, given: Option<&Path>) -> Result<(), BenchError> {
        let path = match given {
            Some(path) => BenchProgram::find(path.as_os_str(), &[])?.path,
            None => {
                let folder =
                    tempfile::tempdir().map_err(BenchError::system("a temporary folder cannot be made"))?;
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
        self.list.push(BenchProgram {
            name: STATIC_NAME.to_owned(),
            path,
            args: Vec::new(),
            preload: Vec::new(),
        });
        Ok(())
    }
}

/// Compiles the static program. The error is the reason in words.
pub(crate) fn compile_static(folder: &Path) -> Result<PathBuf, String> {
    let (source, program) = (folder.join("static.c"), folder.join("static"));
    std::fs::write(&source, STATIC_SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
    match compile(&["-O2", "-static"], &[&source], &program) {
        Ok(()) => Ok(program),
        Err(CompileError::Source { .. }) => Err("cc cannot link statically".to_owned()),
        Err(error @ CompileError::NoCompiler) => Err(error.to_string()),
        Err(CompileError::Start { source }) => Err(format!("cc: {source}")),
    }
}

impl BenchProgram {
    /// Looks the program up, in `PATH` when its name has no slash.
    fn find(program: &OsStr, args: &[OsString]) -> Result<Self, BenchError> {
        let found = find_program(program, std::env::var_os("PATH").as_deref(), None);
        let path = found.map_err(|_| BenchError::NoProgram { program: program.to_owned() })?.path;
        let words = std::iter::once(program).chain(args.iter().map(OsString::as_os_str));
        let name = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
        Ok(Self { name, path, args: args.to_vec(), preload: Vec::new() })
    }

    /// The arguments that the program gets, its own name first.
    pub(super) fn argv(&self) -> Vec<OsString> {
        let name = self.path.clone().into_os_string();
        std::iter::once(name).chain(self.args.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_called_by_its_path_and_shown_as_it_was_given() {
        let program = BenchProgram::find(OsStr::new("/bin/sh"), &["-c".into(), ":".into()]).unwrap();
        assert_eq!(program.name, "/bin/sh -c :");
        assert_eq!(program.argv(), ["/bin/sh", "-c", ":"]);
    }

    #[test]
    fn the_list_has_the_static_program_in_its_place() {
        let programs = ProgramList::common(Some(Path::new("/bin/sh"))).unwrap();
        let names: Vec<&str> = programs.list.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(
            names.get(..3),
            Some(&["/bin/true", "sh -c :", STATIC_NAME][..]),
            "{:?}",
            programs.left_out
        );
    }
}
