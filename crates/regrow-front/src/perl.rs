//! The front end for Perl: which command lines it can take, and how it is started for one.
//!
//! ```text
//!  perl -w             /srv/cgi/form.pl a b      the run
//!  perl -w -M'…FRONT…' /srv/cgi/form.pl          its front end: the same interpreter and script, which is read in the run
//! ```
//!
//! An image is of one script: the interpreter has opened it and knows its name. It is kept for those who ask, by naming modules to
//! load ahead or a script to compile ahead; every other run of Perl goes to a shallower point.

use std::ffi::{CString, NulError, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::names::Names;

/// The source of the front end.
const FRONT: &str = include_str!("perl/front.pl");

/// The variables that an interpreter reads before the front end can note it.
pub const NAMES: Names =
    Names { exact: &["LANG", "LANGUAGE", "LOCPATH", "TZ", "TZDIR"], prefixes: &["LC_", "PERL"] };

/// Variables that make the interpreter say something when it starts.
const TALKATIVE: [&str; 5] =
    ["PERL5DB", "PERLIO_DEBUG", "PERL_DEBUG_MSTATS", "PERL_HASH_SEED_DEBUG", "PERL_MEM_LOG"];

/// Options that have no effect before the script is read.
const OPTIONS: [&[u8]; 4] = [b"-w", b"-W", b"-X", b"--"];

/// How the front end is started for a command line: all of it that the image depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    options: Vec<Vec<u8>>,
    script: Vec<u8>,
    modules: Vec<String>,
    compile: bool,
}

impl Plan {
    /// The same without the script compiled ahead, for a script of which there is no such image.
    #[must_use]
    pub fn without_compiling(&self) -> Option<Plan> {
        self.compile.then(|| Plan { compile: false, ..self.clone() })
    }

    /// What has been loaded when the front end stops: its script, whether it is compiled, and modules.
    #[must_use]
    pub fn loaded(&self) -> String {
        let script = String::from_utf8_lossy(&self.script);
        let script = if self.compile { format!("{script} compiled") } else { script.into_owned() };
        std::iter::once(script).chain(self.modules.iter().cloned()).collect::<Vec<_>>().join(",")
    }

    /// The arguments of the front end, without `argv[0]`, which is the run's.
    ///
    /// # Errors
    ///
    /// When a name has a NUL byte in it.
    pub fn args(&self) -> Result<Vec<CString>, NulError> {
        let ends = self.options.last().is_some_and(|option| option == b"--");
        let options = &self.options[..self.options.len() - usize::from(ends)];
        let mut args = options.to_vec();
        args.push(self.code().into_bytes());
        args.extend(ends.then(|| b"--".to_vec()));
        args.push(self.script.clone());
        args.into_iter().map(CString::new).collect()
    }

    /// The option that has the interpreter run the front end before it reads the script: one line.
    fn code(&self) -> String {
        // The script's name, and the interpreter's own.
        let skip = self.options.len() + 2;
        let modules = self.modules.join(" ");
        let compile = u8::from(self.compile);
        let lines = FRONT.lines().map(str::trim).filter(|line| !line.starts_with('#') && !line.is_empty());
        let front = lines.collect::<Vec<_>>().join(" ");
        let stop = if self.compile { "INIT { $stop->() }" } else { "$stop->();" };
        // The option takes a name first, and `5.006` changes nothing in a script.
        format!(
            "-M5.006;BEGIN{{my($skip,$compile,@modules)=({skip},{compile},qw({modules}));{front} {stop}}}"
        )
    }
}

/// How the front end is started for a command line, if it can be and is asked for.
///
/// `program` is the file that is executed, `argv` the whole argument vector, `has_variable` says whether an environment variable is
/// there, `modules` are to be loaded ahead (with `?` behind a name, if it is there), and with `compile` the script is compiled ahead.
pub fn plan(
    program: &Path,
    argv: &[impl AsRef<[u8]>],
    has_variable: impl Fn(&str) -> bool,
    modules: &[String],
    compile: bool,
) -> Option<Plan> {
    let asked = compile || !modules.is_empty();
    if !asked || !is_interpreter(program) || !modules.iter().all(|module| is_module(module)) {
        return None;
    }
    if TALKATIVE.iter().any(|name| has_variable(name)) {
        return None;
    }
    let words = argv.get(1..)?.iter().map(AsRef::as_ref);
    let mut options: Vec<Vec<u8>> = Vec::new();
    for word in words {
        let ended = options.last().is_some_and(|option| option == b"--");
        if !ended && OPTIONS.contains(&word) {
            options.push(word.to_vec());
        } else if word.starts_with(b"/") {
            return Some(Plan { options, script: word.to_vec(), modules: modules.to_vec(), compile });
        } else {
            return None;
        }
    }
    None
}

/// Whether a file has the name of an interpreter: `perl`, or with its version.
fn is_interpreter(program: &Path) -> bool {
    let name = program.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let Some(version) = name.strip_prefix(b"perl") else { return false };
    version.is_empty()
        || version.starts_with(b"5.") && version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Whether a name is that of a module, with `?` behind it where it may be missing.
fn is_module(name: &str) -> bool {
    let name = name.strip_suffix('?').unwrap_or(name);
    name.split("::").all(|part| {
        !part.is_empty()
            && !part.starts_with(|first: char| first.is_ascii_digit())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(program: &str, line: &str, modules: &[&str], compile: bool) -> Option<Plan> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let modules: Vec<String> = modules.iter().map(|&module| module.to_owned()).collect();
        plan(Path::new(program), &words, |_| false, &modules, compile)
    }

    fn args(plan: &Plan) -> Vec<String> {
        plan.args().expect("no NUL").into_iter().map(|arg| arg.into_string().expect("ASCII")).collect()
    }

    #[test]
    fn the_front_end_is_an_option_before_the_script() {
        let plan =
            plan_of("/usr/bin/perl", "perl -w -- /a/b.pl x", &["strict", "CGI?"], false).expect("a plan");
        let args = args(&plan);
        assert_eq!([&args[0], &args[2], &args[3]], ["-w", "--", "/a/b.pl"]);
        assert!(
            args[1].starts_with("-M5.006;BEGIN{my($skip,$compile,@modules)=(4,0,qw(strict CGI?));"),
            "{}",
            args[1]
        );
        assert!(args[1].ends_with("$stop->();}") && !args[1].contains('\n'));
        let compiled = plan_of("/usr/bin/perl5.36.0", "/usr/bin/perl /a/b.pl", &[], true).expect("a plan");
        assert!(compiled.code().contains("=(2,1,qw());") && compiled.code().ends_with("INIT { $stop->() }}"));
    }

    #[test]
    fn what_is_not_asked_for_or_not_known_has_no_plan() {
        let strict = &["strict"][..];
        for (program, line, modules) in [
            ("/usr/bin/perl", "perl /a.pl", &[][..]),
            ("/usr/bin/perldoc", "perldoc /a.pl", strict),
            ("/usr/bin/perl", "perl a.pl", strict),
            ("/usr/bin/perl", "perl -T /a.pl", strict),
            ("/usr/bin/perl", "perl -e 1", strict),
            ("/usr/bin/perl", "perl", strict),
            ("/usr/bin/perl", "perl -- -w /a.pl", strict),
            ("/usr/bin/perl", "perl /a.pl", &["strict) ; system(1"]),
            ("/usr/bin/perl", "perl /a.pl", &["A::"]),
        ] {
            assert_eq!(plan_of(program, line, modules, false), None, "{line} {modules:?}");
        }
        let words = ["perl", "/a.pl"];
        let talkative = |name: &str| name == "PERL_HASH_SEED_DEBUG";
        assert_eq!(plan(Path::new("/usr/bin/perl"), &words, talkative, &["strict".to_owned()], false), None);
    }

    #[test]
    fn comments_have_lines_of_their_own() {
        let plan = plan_of("/usr/bin/perl", "perl /a.pl", &["strict"], false).expect("a plan");
        assert!(FRONT.is_ascii() && !plan.code().contains("# "));
    }
}
