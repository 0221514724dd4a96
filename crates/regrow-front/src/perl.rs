//! The front end for Perl: which command lines it takes, and how Regrow starts it for one.
//!
//! ```text
//!  perl -w             /srv/cgi/form.pl a b      the run
//!  perl -w -M'…FRONT…' /srv/cgi/form.pl          its front end: the same interpreter and script, which is read in the run
//! ```
//!
//! An image is of one script: the interpreter has opened it and knows its name. Regrow keeps such an image for a caller who names
//! modules to load ahead, or has the script compiled ahead; every other run of Perl goes to a shallower point.

use std::borrow::Cow;
use std::sync::Arc;

use crate::language::{Argument, CommandLine, Language, Plan};
use crate::names::VariableNames;

/// The source of the front end.
const FRONT: &str = include_str!("perl/front.pl");

/// Perl's row in the table of languages.
pub static LANGUAGE: Language = Language {
    name: "perl",
    is_interpreter,
    variables: VariableNames {
        exact: &["LANG", "LANGUAGE", "LOCPATH", "TZ", "TZDIR"],
        prefixes: &["LC_", "PERL"],
    },
    source,
    plan,
};

/// Variables that make the interpreter print something when it starts.
const TALKATIVE: [&str; 5] =
    ["PERL5DB", "PERLIO_DEBUG", "PERL_DEBUG_MSTATS", "PERL_HASH_SEED_DEBUG", "PERL_MEM_LOG"];

/// Options that have no effect before the script is read.
const OPTIONS: [&[u8]; 4] = [b"-w", b"-W", b"-X", b"--"];

/// The front end in one line: Perl reads it before the script, whose first line must stay the first.
fn source() -> Cow<'static, str> {
    let lines = FRONT.lines().map(str::trim).filter(|line| !line.starts_with('#') && !line.is_empty());
    Cow::Owned(lines.collect::<Vec<_>>().join(" "))
}

/// The plan for a command line that asks for one: by modules to load ahead (with `?` behind the name of one that may be missing),
/// or by having its script compiled ahead.
fn plan(line: CommandLine<'_>) -> Option<Plan> {
    let CommandLine { argv, variable, modules, compile } = line;
    let asked = compile || !modules.is_empty();
    if !asked || !modules.iter().all(|module| is_module(module)) {
        return None;
    }
    if TALKATIVE.iter().any(|name| variable(name).is_some()) {
        return None;
    }
    let (options, script) = options_and_script(argv)?;
    let plainer = compile.then(|| Arc::new(plan_of(options, script, modules.clone(), false)));
    Some(Plan { plainer, ..plan_of(options, script, modules, compile) })
}

/// The options of a command line, and its script; `None` where an option is not known, or the script's path not absolute.
fn options_and_script<'a>(argv: &'a [&'a [u8]]) -> Option<(&'a [&'a [u8]], &'a [u8])> {
    let words = argv.get(1..)?;
    let known = words.iter().take_while(|word| OPTIONS.contains(word)).count();
    // What follows `--` is no option.
    let ended = words[..known].iter().position(|&word| word == b"--").map_or(known, |at| at + 1);
    let (options, rest) = words.split_at(ended);
    let script = rest.first().filter(|script| script.starts_with(b"/"))?;
    Some((options, script))
}

/// The plan for a script, with nothing plainer.
fn plan_of(options: &[&[u8]], script: &[u8], modules: Vec<String>, compile: bool) -> Plan {
    let ends = options.last().is_some_and(|&option| option == b"--");
    let mut arguments: Vec<Argument> =
        options[..options.len() - usize::from(ends)].iter().map(|option| option.to_vec().into()).collect();
    arguments.push(front(options.len(), &modules, compile));
    arguments.extend(ends.then(|| "--".into()));
    arguments.push(script.to_vec().into());
    let script = String::from_utf8_lossy(script);
    let script = if compile { format!("{script} compiled") } else { script.into_owned() };
    let loaded = std::iter::once(script).chain(modules).collect();
    Plan { language: &LANGUAGE, arguments, loaded, plainer: None }
}

/// The option that has the interpreter run the front end before it reads the script: one line.
fn front(options: usize, modules: &[String], compile: bool) -> Argument {
    // The script's name, and the interpreter's own.
    let skip = options + 2;
    let modules = modules.join(" ");
    let settings = format!("({skip},{},qw({modules}))", u8::from(compile));
    let stop = if compile { " INIT { $stop->() }}" } else { " $stop->();}" };
    // `-M` wants a name before the code; `5.006` changes nothing in a script.
    Argument::Source(format!("-M5.006;BEGIN{{my($skip,$compile,@modules)={settings};"), stop)
}

/// Whether a file has the name of an interpreter: `perl`, or with its version.
fn is_interpreter(file_name: &[u8]) -> bool {
    let Some(version) = file_name.strip_prefix(b"perl") else { return false };
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

    fn plan_with(line: &str, modules: &[&str], compile: bool, variable: &str) -> Option<Plan> {
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        let modules = modules.iter().map(|&module| module.to_owned()).collect();
        let variable = |name: &str| (name == variable).then_some(&b"1"[..]);
        plan(CommandLine { argv: &words, variable: &variable, modules, compile })
    }

    fn plan_for(line: &str, modules: &[&str], compile: bool) -> Option<Plan> {
        plan_with(line, modules, compile, "")
    }

    fn args(plan: &Plan) -> Vec<String> {
        plan.arguments().expect("no NUL").into_iter().map(|arg| arg.into_string().expect("ASCII")).collect()
    }

    #[test]
    fn the_front_end_is_an_option_before_the_script() {
        let plan = plan_for("perl -w -- /a/b.pl x", &["strict", "CGI?"], false).expect("a plan");
        let found = args(&plan);
        assert_eq!([&found[0], &found[2], &found[3]], ["-w", "--", "/a/b.pl"]);
        let code = &found[1];
        assert!(
            code.starts_with("-M5.006;BEGIN{my($skip,$compile,@modules)=(4,0,qw(strict CGI?));"),
            "{code}"
        );
        assert!(code.ends_with("}; $stop->();}") && !code.contains('\n'), "{code}");
        assert_eq!((plan.loaded().as_str(), plan.plainer()), ("/a/b.pl,strict,CGI?", None));
    }

    #[test]
    fn a_script_is_compiled_ahead_or_only_its_modules_are_loaded() {
        let compiled = plan_for("/usr/bin/perl /a/b.pl", &["CGI"], true).expect("a plan");
        let code = &args(&compiled)[0];
        assert!(code.contains("=(2,1,qw(CGI));") && code.ends_with("}; INIT { $stop->() }}"), "{code}");
        assert_eq!(compiled.loaded(), "/a/b.pl compiled,CGI");
        assert_eq!(compiled.plainer().as_deref(), plan_for("perl /a/b.pl", &["CGI"], false).as_ref());
        assert_ne!(compiled.plainer().as_deref(), plan_for("perl /a/c.pl", &["CGI"], false).as_ref());
    }

    #[test]
    fn interpreters_are_known_by_their_names() {
        for name in ["perl", "perl5.36.0", "perl5."] {
            assert!(is_interpreter(name.as_bytes()), "{name}");
        }
        for name in ["perldoc", "perl6", "perl5.36-old", "xperl", "per"] {
            assert!(!is_interpreter(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn what_is_not_asked_for_or_not_known_has_no_plan() {
        let strict = &["strict"][..];
        for (line, modules) in [
            ("perl /a.pl", &[][..]),
            ("perl a.pl", strict),
            ("perl -T /a.pl", strict),
            ("perl -e 1", strict),
            ("perl", strict),
            ("perl -- -w /a.pl", strict),
            ("perl /a.pl", &["strict) ; system(1"]),
            ("perl /a.pl", &["A::"]),
        ] {
            assert_eq!(plan_for(line, modules, false), None, "{line} {modules:?}");
        }
        assert_eq!(plan_with("perl /a.pl", strict, false, "PERL_HASH_SEED_DEBUG"), None);
        assert!(plan_with("perl /a.pl", strict, false, "PERL_HASH_SEED").is_some());
    }

    #[test]
    fn comments_have_lines_of_their_own() {
        assert!(FRONT.is_ascii() && !source().contains("# "));
    }
}
