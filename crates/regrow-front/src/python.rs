//! The front end for Python: which command lines it can take, and how it is started for one.
//!
//! ```text
//!  python3 -u -X utf8   -c CODE …          the run
//!  └─ options ──────┘   └─ program ─┘
//!  python3 -u -Xutf8    -c FRONT 4 --preload json      its front end: the same interpreter, prepared
//! ```
//!
//! The interpreter reads its options while the image is made, so they are the front end's as well, and part of the key by
//! being part of its arguments. Whatever is not known here, or shows in the process before the program begins, has no
//! plan: the run goes to a shallower point.

mod interpreter;

use interpreter::{Kind, Words};
use std::ffi::{CString, NulError, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::names::Names;

/// The source of the front end.
pub const FRONT: &str = include_str!("python/front.py");

/// The variables that an interpreter, `site` and the files that `site` runs read before the front end can note it.
pub const NAMES: Names = Names {
    exact: &[
        "COVERAGE_PROCESS_START",
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOCPATH",
        "PATH",
        "SETUPTOOLS_USE_DISTUTILS",
        "TZ",
        "TZDIR",
    ],
    prefixes: &["COV_CORE_", "LC_", "PYTHON"],
};

/// How the front end is started for a command line: all of it that the image depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    options: Vec<Vec<u8>>,
    skip: usize,
    preload: Vec<String>,
    module: bool,
}

impl Plan {
    /// The arguments of the front end, without `argv[0]`, which is the run's.
    ///
    /// # Errors
    ///
    /// When a name has a NUL byte in it.
    pub fn args(&self) -> Result<Vec<CString>, NulError> {
        let Plan { options, skip, preload, module } = self;
        let (skip, module) = (*skip, *module);
        Preparation { options, skip, preload, module, ..Preparation::default() }.args()
    }

    /// What has been loaded when the front end stops.
    #[must_use]
    pub fn loaded(&self) -> String {
        self.preload.join(",")
    }
}

/// What the front end is to prepare.
#[derive(Debug, Clone, Copy, Default)]
pub struct Preparation<'a> {
    /// The interpreter's options.
    pub options: &'a [Vec<u8>],
    /// How many words of the run's argument vector come before its program.
    pub skip: usize,
    /// Modules to import.
    pub preload: &'a [String],
    /// A function to call, as `MODULE:FUNCTION` or `MODULE:FUNCTION:BASE64`.
    pub setup: Option<&'a str>,
    /// Whether the run is to be one of `-m`.
    pub module: bool,
    /// Directories to put at the start of `sys.path`.
    pub paths: &'a [Vec<u8>],
}

impl Preparation<'_> {
    /// The arguments of the front end, without `argv[0]`.
    ///
    /// # Errors
    ///
    /// When a name has a NUL byte in it.
    pub fn args(&self) -> Result<Vec<CString>, NulError> {
        let mut args = self.options.to_vec();
        args.extend([b"-c".to_vec(), FRONT.as_bytes().to_vec(), self.skip.to_string().into_bytes()]);
        if !self.preload.is_empty() {
            args.extend([b"--preload".to_vec(), self.preload.join(",").into_bytes()]);
        }
        if let Some(setup) = self.setup {
            args.extend([b"--setup".to_vec(), setup.as_bytes().to_vec()]);
        }
        if self.module {
            args.push(b"--module".to_vec());
        }
        for path in self.paths {
            args.extend([b"--path".to_vec(), path.clone()]);
        }
        args.into_iter().map(CString::new).collect()
    }
}

/// How the front end is started for a command line, if it can be.
///
/// `program` is the file that is executed, `argv` the whole argument vector, `variable` gives the value of an environment
/// variable, and `preload` the modules to import ahead.
pub fn plan<'v>(
    program: &Path,
    argv: &[impl AsRef<[u8]>],
    variable: impl Fn(&str) -> Option<&'v [u8]>,
    preload: &[String],
) -> Option<Plan> {
    let argv: Vec<&[u8]> = argv.iter().map(AsRef::as_ref).collect();
    if !is_interpreter(program) || !name_is_settled(argv.first()?, variable("PATH")) {
        return None;
    }
    let Words { options, skip, kind, ignores_environment } = Words::read(&argv)?;
    if !interpreter::environment_is_plain(&variable, ignores_environment) {
        return None;
    }
    Some(Plan { options, skip, preload: preload.to_vec(), module: kind == Kind::Module })
}

/// Whether a file has the name of an interpreter of a version that the front end is for.
fn is_interpreter(program: &Path) -> bool {
    let name = program.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let Some(version) = name.strip_prefix(b"python") else { return false };
    match version {
        b"" | b"3" => true,
        _ => version
            .strip_prefix(b"3.")
            .and_then(|minor| std::str::from_utf8(minor).ok()?.parse::<u8>().ok())
            .is_some_and(|minor| minor >= 9),
    }
}

/// Whether `argv[0]` names the interpreter without the working directory's help: `sys.executable` and with it the virtual
/// environment follow from it.
fn name_is_settled(argv0: &[u8], path: Option<&[u8]>) -> bool {
    if argv0.contains(&b'/') {
        return argv0.starts_with(b"/");
    }
    !argv0.is_empty() && path.is_none_or(interpreter::all_absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(program: &str, line: &str, environment: &[(&str, &str)]) -> Option<Plan> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes())
        };
        plan(Path::new(program), &words, variable, &[])
    }

    fn args(plan: &Plan) -> Vec<String> {
        plan.args().expect("no NUL").into_iter().map(|arg| arg.into_string().expect("ASCII")).collect()
    }

    #[test]
    fn the_front_end_gets_the_options_and_where_the_program_begins() {
        let plan = plan_of("/usr/bin/python3.11", "python3 -u -X utf8 -m json.tool -h", &[]).expect("a plan");
        assert_eq!(args(&plan), ["-u", "-Xutf8", "-c", FRONT, "4", "--module"]);
        assert!(NAMES.contain(b"PYTHONPATH") && NAMES.contain(b"HOME") && NAMES.contain(b"LC_ALL"));
        assert!(!NAMES.contain(b"HOMER"));
    }

    #[test]
    fn preloads_setup_and_paths_are_said() {
        let preload = ["json".to_owned(), "re".to_owned()];
        let paths = [b"/a".to_vec(), b"/b".to_vec()];
        let preparation = Preparation {
            skip: 1,
            preload: &preload,
            setup: Some("m:f:AA=="),
            paths: &paths,
            ..Preparation::default()
        };
        let args = preparation.args().expect("no NUL");
        let args: Vec<&str> = args.iter().map(|arg| arg.to_str().expect("ASCII")).collect();
        let wanted =
            ["-c", FRONT, "1", "--preload", "json,re", "--setup", "m:f:AA==", "--path", "/a", "--path", "/b"];
        assert_eq!(args, wanted);
    }

    #[test]
    fn interpreters_are_known_by_their_names() {
        for name in ["python", "python3", "python3.9", "python3.11"] {
            assert!(is_interpreter(&Path::new("/bin").join(name)), "{name}");
        }
        for name in
            ["python2", "python3.8", "python3-config", "python3.11-dbg", "ipython3", "pypy3", "python3."]
        {
            assert!(!is_interpreter(&Path::new("/bin").join(name)), "{name}");
        }
    }

    #[test]
    fn a_name_that_depends_on_the_working_directory_has_no_plan() {
        let path = [("PATH", "/usr/bin:/bin")];
        for (line, environment) in
            [("/usr/bin/python3 -", &[][..]), ("python3 -", &path[..]), ("python3 -", &[])]
        {
            assert!(plan_of("/usr/bin/python3", line, environment).is_some(), "{line} {environment:?}");
        }
        for (line, environment) in
            [("./python3 -", &path[..]), ("venv/bin/python -", &path), ("python3 -", &[("PATH", "/bin:.")])]
        {
            assert_eq!(plan_of("/usr/bin/python3", line, environment), None, "{line} {environment:?}");
        }
    }

    #[test]
    fn the_source_of_the_front_end_is_an_argument_in_every_locale() {
        assert!(FRONT.is_ascii());
        // The kernel's limit for one argument is 128 KiB.
        assert!(FRONT.len() < 96 * 1024);
        assert!(CString::new(FRONT).is_ok());
    }
}
