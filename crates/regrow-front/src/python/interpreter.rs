//! Decides by the command line and the environment of CPython whether a run can begin in a prepared interpreter.
//!
//! Facts are those of CPython 3.9 to 3.14 (`Python/initconfig.c`, `Python/getopt.c`, `Lib/warnings.py`).

/// Flags without a value that a prepared interpreter obeys as one that was started for the run does.
const FLAGS: &[u8] = b"bBdEIOPqRsSu";

/// Options of `-X` whose effect lasts. The others print, trace, or name a file.
const LASTING: &[&str] = &[
    "cpu_count",
    "dev",
    "faulthandler",
    "frozen_modules",
    "int_max_str_digits",
    "no_debug_ranges",
    "tracemalloc",
    "utf8",
    "warn_default_encoding",
];

/// The actions of a warning filter; each can be shortened.
const ACTIONS: &[&str] = &["default", "always", "ignore", "module", "once", "error", "all"];

/// The categories that a warning filter can name without an import.
const CATEGORIES: &[&str] = &[
    "",
    "BytesWarning",
    "DeprecationWarning",
    "FutureWarning",
    "ImportWarning",
    "PendingDeprecationWarning",
    "ResourceWarning",
    "RuntimeWarning",
    "SyntaxWarning",
    "UnicodeWarning",
    "UserWarning",
    "Warning",
];

/// Variables that must be unset or empty: their effect shows before the program begins, or after it has ended.
const UNWANTED: &[&str] = &[
    "PYTHONDUMPREFS",
    "PYTHONDUMPREFSFILE",
    "PYTHONEXECUTABLE",
    "PYTHONINSPECT",
    "PYTHONMALLOCSTATS",
    "PYTHONPERFSUPPORT",
    "PYTHONPROFILEIMPORTTIME",
    "PYTHONTHREADDEBUG",
    "PYTHONVERBOSE",
    "PYTHON_PERF_JIT_SUPPORT",
    "PYTHON_PRESITE",
];

/// Variables with paths, which must be absolute: the working directory is another in each run.
const PATHS: &[&str] = &["PYTHONHOME", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE"];

/// How a program is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramKind {
    /// `-c CODE`
    Code,
    /// `-m MODULE`
    Module,
    /// `-`
    Stdin,
    /// A path.
    File,
}

/// The parts of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    /// The interpreter's options, each in one word.
    pub(super) options: Vec<Vec<u8>>,
    /// How many words come before the one that names the program.
    pub(super) skip: usize,
    /// How the program is given.
    pub(super) kind: ProgramKind,
    /// Whether the interpreter ignores the variables that begin with `PYTHON`.
    pub(super) ignores_environment: bool,
}

impl Words {
    /// Reads a command line; `None` where a prepared interpreter would not do.
    pub(super) fn read(argv: &[&[u8]]) -> Option<Self> {
        let mut words =
            Self { options: Vec::new(), skip: 1, kind: ProgramKind::File, ignores_environment: false };
        loop {
            let word = *argv.get(words.skip)?;
            words.kind = match word {
                b"-" => ProgramKind::Stdin,
                [b'-', b'-', ..] | [] => return None,
                [b'-', cluster @ ..] => {
                    let behind = argv.get(words.skip + 1).copied();
                    match words.cluster(cluster, behind)? {
                        Some(kind) => kind,
                        None => continue,
                    }
                }
                _ => ProgramKind::File,
            };
            return Some(words);
        }
    }

    /// Reads the letters behind a dash. Returns the kind of the program if one of them begins it; else it steps to the next
    /// word, or to the one after a value.
    fn cluster(&mut self, letters: &[u8], behind: Option<&[u8]>) -> Option<Option<ProgramKind>> {
        let mut flags = vec![b'-'];
        let mut kind = None;
        let mut next = 1;
        for (at, &letter) in letters.iter().enumerate() {
            let attached = &letters[at + 1..];
            let value = if attached.is_empty() { behind } else { Some(attached) };
            match letter {
                b'c' | b'm' => {
                    value.filter(|value| letter == b'c' || !value.is_empty())?;
                    kind = Some(if letter == b'c' { ProgramKind::Code } else { ProgramKind::Module });
                }
                b'W' | b'X' => {
                    let value = value?;
                    let lasts = if letter == b'W' { is_plain_filter(value) } else { is_lasting(value) };
                    lasts.then(|| self.options.push([&[b'-', letter], value].concat()))?;
                    next += usize::from(attached.is_empty());
                }
                _ if FLAGS.contains(&letter) => {
                    self.ignores_environment |= matches!(letter, b'E' | b'I');
                    flags.push(letter);
                    continue;
                }
                _ => return None,
            }
            break;
        }
        if flags.len() > 1 {
            self.options.push(flags);
        }
        if kind.is_none() {
            self.skip += next;
        }
        Some(kind)
    }
}

/// Whether an option of `-X` is one whose effect lasts.
fn is_lasting(option: &[u8]) -> bool {
    let name = option.split(|&byte| byte == b'=').next().unwrap_or_default();
    LASTING.iter().any(|known| known.as_bytes() == name)
}

/// Whether a warning filter is one that says nothing and imports nothing while it is read.
fn is_plain_filter(filter: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(filter) else { return false };
    let fields: Vec<&str> = text.split(':').map(str::trim).collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or("");
    fields.len() <= 5
        && ACTIONS.iter().any(|action| action.starts_with(field(0)))
        && CATEGORIES.contains(&field(2))
        && field(4).bytes().all(|byte| byte.is_ascii_digit())
        && field(4).len() < 9
}

/// Whether all entries of a list of directories are absolute. An empty entry stands for the working directory.
pub(super) fn all_absolute(list: &[u8]) -> bool {
    list.split(|&byte| byte == b':').all(|path| path.starts_with(b"/"))
}

/// Whether a prepared interpreter does all that the environment asks for.
pub(super) fn environment_is_plain<'v>(
    variable: &dyn Fn(&str) -> Option<&'v [u8]>,
    ignores_python: bool,
) -> bool {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let absolute = |name: &str| set(name).is_none_or(all_absolute);
    if !absolute("HOME") {
        return false;
    }
    // The interpreter sets up locale and memory before it reads the command line: `-E` comes too late for these.
    if set("PYTHONCOERCECLOCALE") == Some(b"warn") || set("PYTHONMALLOCSTATS").is_some() {
        return false;
    }
    ignores_python
        || UNWANTED.iter().all(|name| set(name).is_none())
            && PATHS.iter().all(|name| absolute(name))
            && set("PYTHONWARNINGS")
                .is_none_or(|filters| filters.split(|&byte| byte == b',').all(is_plain_filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command line with its options, the number of words before the program, and the kind of it.
    type TakenLine = (&'static [&'static str], &'static [&'static str], usize, ProgramKind);

    const TAKEN: &[TakenLine] = &[
        (&["p", "-c", "pass"], &[], 1, ProgramKind::Code),
        (&["p", "-cpass", "-c"], &[], 1, ProgramKind::Code),
        (&["p", "-c", ""], &[], 1, ProgramKind::Code),
        (&["p", "-m", "json.tool", "-x"], &[], 1, ProgramKind::Module),
        (&["p", "-mjson.tool"], &[], 1, ProgramKind::Module),
        (&["p", "-", "-i"], &[], 1, ProgramKind::Stdin),
        (&["p", "a.py", "-i"], &[], 1, ProgramKind::File),
        (&["p", "-u", "a.py"], &["-u"], 2, ProgramKind::File),
        (&["p", "-IS", "-OO", "-"], &["-IS", "-OO"], 3, ProgramKind::Stdin),
        (&["p", "-bbBdEPqRs", "-"], &["-bbBdEPqRs"], 2, ProgramKind::Stdin),
        (&["p", "-uc", "pass"], &["-u"], 1, ProgramKind::Code),
        (&["p", "-Ouc1"], &["-Ou"], 1, ProgramKind::Code),
        (&["p", "-W", "ignore", "-"], &["-Wignore"], 3, ProgramKind::Stdin),
        (&["p", "-Wi", "-"], &["-Wi"], 2, ProgramKind::Stdin),
        (
            &["p", "-OW", "error::UserWarning:m:7", "-"],
            &["-Werror::UserWarning:m:7", "-O"],
            3,
            ProgramKind::Stdin,
        ),
        (
            &["p", "-X", "utf8", "-Xdev", "-X", "utf8=0", "-"],
            &["-Xutf8", "-Xdev", "-Xutf8=0"],
            6,
            ProgramKind::Stdin,
        ),
        (&["p", "-Xtracemalloc=5", "-"], &["-Xtracemalloc=5"], 2, ProgramKind::Stdin),
    ];

    const LEFT: &[&[&str]] = &[
        &["p"],
        &["p", "-u"],
        &["p", ""],
        &["p", "-c"],
        &["p", "-m"],
        &["p", "-m", ""],
        &["p", "-W"],
        &["p", "-X"],
        &["p", "-i", "a.py"],
        &["p", "-ic", "pass"],
        &["p", "-x", "a.py"],
        &["p", "-v", "a.py"],
        &["p", "-V"],
        &["p", "-h"],
        &["p", "-?"],
        &["p", "-J", "-"],
        &["p", "--version"],
        &["p", "--help"],
        &["p", "--check-hash-based-pycs", "never", "-"],
        &["p", "--", "a.py"],
        &["p", "-X", "importtime", "-"],
        &["p", "-X", "perf", "-"],
        &["p", "-X", "pycache_prefix=x", "-"],
        &["p", "-W", "nothing", "-"],
        &["p", "-W", "error::my.Warning", "-"],
        &["p", "-W", "error::EncodingWarning", "-"],
        &["p", "-W", "error:::m:x", "-"],
    ];

    fn read(line: &[&str]) -> Option<Words> {
        Words::read(&line.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
    }

    #[test]
    fn command_lines_are_taken_apart() {
        for &(line, options, skip, kind) in TAKEN {
            let words = read(line).unwrap_or_else(|| panic!("{line:?} is not taken"));
            let found: Vec<&str> =
                words.options.iter().map(|word| std::str::from_utf8(word).expect("ASCII")).collect();
            assert_eq!((&found[..], words.skip, words.kind), (options, skip, kind), "{line:?}");
        }
    }

    #[test]
    fn what_a_prepared_interpreter_would_not_do_is_left() {
        for line in LEFT {
            assert_eq!(read(line), None, "{line:?}");
        }
    }

    #[test]
    fn an_environment_is_plain_or_not() {
        let plain = |name: &'static str, value: &'static str, ignores: bool| {
            environment_is_plain(&|asked: &str| (asked == name).then_some(value.as_bytes()), ignores)
        };
        for (name, value) in [
            ("PYTHONHASHSEED", "0"),
            ("PYTHONPATH", "/a:/b"),
            ("PYTHONPATH", ""),
            ("PYTHONINSPECT", ""),
            ("PYTHONSTARTUP", "x"),
            ("PYTHONWARNINGS", "ignore,error::UserWarning"),
            ("HOME", "/home/a"),
        ] {
            assert!(plain(name, value, false), "{name}={value}");
        }
        for (name, value) in [
            ("PYTHONPATH", "a"),
            ("PYTHONPATH", "/a:"),
            ("PYTHONHOME", "."),
            ("PYTHONINSPECT", "1"),
            ("PYTHONVERBOSE", "1"),
            ("PYTHONWARNINGS", "ignore,what"),
        ] {
            assert!(!plain(name, value, false), "{name}={value}");
            assert!(plain(name, value, true), "{name}={value} with -E");
        }
        for (name, value) in [("HOME", "home"), ("PYTHONCOERCECLOCALE", "warn"), ("PYTHONMALLOCSTATS", "1")] {
            assert!(!plain(name, value, true), "{name}={value}");
        }
    }
}
