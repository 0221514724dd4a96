//! The front end for Python: which command lines it takes, and how Regrow starts it for one.
//!
//! ```text
//!  python3 -u -X utf8   -c CODE …          the run
//!  └─ options ──────┘   └─ program ─┘
//!  python3 -u -Xutf8    -c FRONT 4 --preload json      its front end: the same interpreter, prepared
//! ```
//!
//! The interpreter reads its options while the image is made. So the front end gets them too, and as its arguments they
//! belong to the image's key. There is no plan for an option or a variable that is not known here, or whose effect shows in
//! the process before the program begins: such a run starts at a shallower point.

mod interpreter;

use std::borrow::Cow;
use std::ffi::{CString, NulError};
use std::sync::LazyLock;

use interpreter::{ProgramKind, Words};

use crate::language::{Argument, CommandLine, Language, Plan};
use crate::names::VariableNames;

/// The parts of the front end. A part uses the names of the parts before it.
const PARTS: [&str; 13] = [
    include_str!("python/front/ground.py"),
    include_str!("python/front/environment.py"),
    include_str!("python/front/dependencies.py"),
    include_str!("python/front/held_files.py"),
    include_str!("python/front/renewal.py"),
    include_str!("python/front/stacks.py"),
    include_str!("python/front/streams.py"),
    include_str!("python/front/order.py"),
    include_str!("python/front/loading.py"),
    include_str!("python/front/preparation.py"),
    include_str!("python/front/program.py"),
    include_str!("python/front/end.py"),
    include_str!("python/front/run.py"),
];

/// The source of the front end: its parts, joined to one program.
pub static FRONT: LazyLock<String> = LazyLock::new(|| {
    let [ground, others @ ..] = PARTS;
    others.iter().fold(ground.to_owned(), |program, part| program + "\n\n" + definitions(part))
});

/// A part without its head: what is there for a reader, and for tools that check the part alone.
fn definitions(part: &'static str) -> &'static str {
    let starts = ["\ndef ", "\nclass "].map(|start| part.find(start).map_or(part.len(), |at| at + 1));
    &part[starts[0].min(starts[1])..]
}

/// The variables that an interpreter, `site` and the files that `site` runs read before the front end can note it.
pub const NAMES: VariableNames = VariableNames {
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

/// Python's row in the table of languages.
pub static LANGUAGE: Language = Language {
    name: "python",
    is_interpreter,
    variables: NAMES,
    source: || Cow::Borrowed(FRONT.as_str()),
    plan,
};

/// What the front end prepares.
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
    /// Whether the run is one of `-m`.
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
        self.plan().arguments()
    }

    /// The plan of a front end that prepares this.
    fn plan(&self) -> Plan {
        let mut arguments: Vec<Argument> = self.options.iter().map(|option| option.clone().into()).collect();
        arguments.extend(["-c".into(), Argument::Source(String::new(), "")]);
        arguments.push(self.skip.to_string().into_bytes().into());
        if !self.preload.is_empty() {
            arguments.extend(["--preload".into(), self.preload.join(",").into_bytes().into()]);
        }
        if let Some(setup) = self.setup {
            arguments.extend(["--setup".into(), setup.as_bytes().to_vec().into()]);
        }
        if self.module {
            arguments.push("--module".into());
        }
        for path in self.paths {
            arguments.extend(["--path".into(), path.clone().into()]);
        }
        Plan { language: &LANGUAGE, arguments, loaded: self.preload.to_vec(), plainer: None }
    }
}

/// The plan for a command line, if a prepared interpreter can do it.
fn plan(line: CommandLine<'_>) -> Option<Plan> {
    let CommandLine { argv, variable, modules, .. } = line;
    if !is_independent_of_directory(argv.first()?, variable("PATH")) {
        return None;
    }
    let Words { options, skip, kind, ignores_environment } = Words::read(argv)?;
    if !interpreter::environment_is_plain(variable, ignores_environment) {
        return None;
    }
    let module = kind == ProgramKind::Module;
    let preparation =
        Preparation { options: &options, skip, preload: &modules, module, ..Preparation::default() };
    Some(preparation.plan())
}

/// Whether a file has the name of an interpreter of a version that the front end is for.
fn is_interpreter(file_name: &[u8]) -> bool {
    let Some(version) = file_name.strip_prefix(b"python") else { return false };
    match version {
        b"" | b"3" => true,
        _ => version
            .strip_prefix(b"3.")
            .and_then(|minor| std::str::from_utf8(minor).ok()?.parse::<u8>().ok())
            .is_some_and(|minor| minor >= 9),
    }
}

/// Whether `argv[0]` names the same interpreter in every working directory: `sys.executable`, and with it the virtual
/// environment, follow from it.
fn is_independent_of_directory(argv0: &[u8], path: Option<&[u8]>) -> bool {
    if argv0.contains(&b'/') {
        return argv0.starts_with(b"/");
    }
    !argv0.is_empty() && path.is_none_or(interpreter::all_absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_for(line: &str, environment: &[(&str, &str)]) -> Option<Plan> {
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes())
        };
        plan(CommandLine { argv: &words, variable: &variable, modules: Vec::new(), compile: false })
    }

    fn args(plan: &Plan) -> Vec<String> {
        plan.arguments().expect("no NUL").into_iter().map(|arg| arg.into_string().expect("ASCII")).collect()
    }

    #[test]
    fn the_front_end_gets_the_options_and_where_the_program_begins() {
        let plan = plan_for("python3 -u -X utf8 -m json.tool -h", &[]).expect("a plan");
        assert_eq!(args(&plan), ["-u", "-Xutf8", "-c", FRONT.as_str(), "4", "--module"]);
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
        let wanted = [
            "-c",
            FRONT.as_str(),
            "1",
            "--preload",
            "json,re",
            "--setup",
            "m:f:AA==",
            "--path",
            "/a",
            "--path",
            "/b",
        ];
        assert_eq!(args, wanted);
    }

    #[test]
    fn interpreters_are_known_by_their_names() {
        for name in ["python", "python3", "python3.9", "python3.11"] {
            assert!(is_interpreter(name.as_bytes()), "{name}");
        }
        for name in
            ["python2", "python3.8", "python3-config", "python3.11-dbg", "ipython3", "pypy3", "python3."]
        {
            assert!(!is_interpreter(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_name_that_depends_on_the_working_directory_has_no_plan() {
        let path = [("PATH", "/usr/bin:/bin")];
        for (line, environment) in
            [("/usr/bin/python3 -", &[][..]), ("python3 -", &path[..]), ("python3 -", &[])]
        {
            assert!(plan_for(line, environment).is_some(), "{line} {environment:?}");
        }
        for (line, environment) in
            [("./python3 -", &path[..]), ("venv/bin/python -", &path), ("python3 -", &[("PATH", "/bin:.")])]
        {
            assert_eq!(plan_for(line, environment), None, "{line} {environment:?}");
        }
    }

    #[test]
    fn parts_are_joined_without_their_heads() {
        assert_eq!(
            definitions("\"\"\"What.\"\"\"\n\nimport a\n\n\nclass A:\n    def b(): 0\n"),
            "class A:\n    def b(): 0\n"
        );
        assert_eq!(FRONT.matches("from __future__ import annotations").count(), 1);
        assert!(!FRONT.contains("from ."));
        assert!(FRONT.ends_with("\nfinalize(status)\n"));
    }

    #[test]
    fn a_part_uses_the_parts_before_it() {
        let names = std::fs::read_dir("src/python/front").expect("the folder");
        assert_eq!(names.count(), PARTS.len());
        let imported = |part: &'static str| {
            let lines = part.lines().filter_map(|line| line.strip_prefix("from ."));
            lines.filter_map(|line| line.split_whitespace().next()).collect::<Vec<_>>()
        };
        let position = |name: &str| {
            let path = format!("src/python/front/{name}.py");
            let text = std::fs::read_to_string(path).expect("a part");
            PARTS.iter().position(|&part| part == text).expect("a part that is joined")
        };
        for (at, part) in PARTS.into_iter().enumerate() {
            assert!(imported(part).into_iter().all(|name| position(name) < at), "{part}");
        }
    }

    #[test]
    fn the_source_of_the_front_end_is_an_argument_in_every_locale() {
        assert!(FRONT.is_ascii());
        // The kernel's limit for one argument is 128 KiB.
        assert!(FRONT.len() < 96 * 1024);
        assert!(CString::new(FRONT.as_str()).is_ok());
    }
}
