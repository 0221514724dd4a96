//! `manifest.toml`: the programs with their flavours, and the cases that run them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::VictimsError;

/// How a run is to end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Ending {
    /// By exit with this status.
    Exit(i32),
    /// By the signal of this name.
    Signal(String),
}

/// What is known of the standard output of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StdoutRule {
    /// It is the text of `stdout`.
    #[default]
    Exact,
    /// No two runs of one case and flavour print the same.
    Unique,
    /// Anything.
    Ignore,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    source: String,
    #[serde(default)]
    #[allow(dead_code, reason = "build.sh uses it")]
    flags: Vec<String>,
    #[serde(default)]
    flavours: Vec<String>,
}

/// A case: a program with arguments, in one of its build flavours.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The case, and behind a dot the program's flavour when it is not the ordinary one.
    pub name: String,
    /// The program's name; the same as the case's when the manifest leaves it out.
    #[serde(default)]
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables that it gets beside those of every run, as `NAME=VALUE`.
    #[serde(default)]
    pub env: Vec<String>,
    /// Its standard input.
    pub stdin: Option<String>,
    /// How a good run ends.
    #[serde(default = "success")]
    pub status: Ending,
    /// What a good run prints.
    #[serde(default)]
    pub stdout: String,
    /// What else is known of what it prints.
    #[serde(default)]
    pub stdout_rule: StdoutRule,
    /// The program's flavours that the case is for; all when it is empty.
    #[serde(default)]
    flavours: Vec<String>,
    /// For the self-test.
    #[allow(dead_code, reason = "selftest.sh uses it")]
    pretend: Option<Vec<String>>,
    /// Snapshot points at which it cannot hold.
    #[serde(default)]
    pub not_at: Vec<String>,
    /// A reset cannot undo what the run leaves: the body must be given up.
    #[serde(default)]
    pub leaves_body: bool,
    /// What it leaves is seen by a comparison alone: in production settings it meets it itself.
    #[serde(default)]
    pub verified_only: bool,
    /// It needs privileges.
    #[serde(default)]
    pub root_only: bool,
    /// A kernel feature without which it exits with status 77.
    pub needs: Option<String>,
    /// A file that appears in the working directory, `%d` being the run's pid.
    pub writes: Option<String>,
    /// Why it is as it is.
    pub reason: Option<String>,
    /// The built program.
    #[serde(skip)]
    pub path: PathBuf,
    /// Whether the build is the first one of the victim's flavours.
    #[serde(skip)]
    pub is_first_build: bool,
}

fn success() -> Ending {
    Ending::Exit(0)
}

/// All cases, each for one built program.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The cases, in the order of the file.
    pub cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    program: Vec<Program>,
    victim: Vec<Case>,
}

impl Manifest {
    /// Reads `manifest.toml` in `dir`; the programs are those in `built`. The musl flavours are left out when none of
    /// them is built.
    ///
    /// # Errors
    /// A [`VictimsError`] that names the file, the case or the program.
    pub fn load(dir: &Path, built: &Path) -> Result<Manifest, VictimsError> {
        let path = dir.join("manifest.toml");
        let text =
            fs::read_to_string(&path).map_err(|source| VictimsError::Io { path: path.clone(), source })?;
        let file: File = toml::from_str(&text)
            .map_err(|source| VictimsError::Manifest { path, source: Box::new(source) })?;
        let programs: BTreeMap<&str, &Program> =
            file.program.iter().map(|program| (program.name.as_str(), program)).collect();
        let mut cases = Vec::new();
        for victim in &file.victim {
            let name = if victim.program.is_empty() { &victim.name } else { &victim.program };
            let program = programs.get(name.as_str()).ok_or_else(|| VictimsError::UnknownProgram {
                case: victim.name.clone(),
                program: name.clone(),
            })?;
            cases.extend(in_flavours(victim, program, built));
        }
        let has_musl = cases.iter().any(|case| is_musl(case) && case.path.exists());
        cases.retain(|case| has_musl || !is_musl(case));
        check(&cases)?;
        Ok(Manifest { cases })
    }

    /// The case of a name.
    pub fn find(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }
}

fn is_musl(case: &Case) -> bool {
    case.path.extension().is_some_and(|flavour| flavour.as_encoded_bytes().starts_with(b"musl"))
}

fn in_flavours(victim: &Case, program: &Program, built: &Path) -> Vec<Case> {
    let ordinary = ["dynamic".to_owned()];
    let lists = [&victim.flavours, &program.flavours];
    let flavours = lists.iter().find(|list| !list.is_empty()).map_or(&ordinary[..], |list| list.as_slice());
    let one = |(number, flavour): (usize, &String)| {
        let ending = if flavour == "dynamic" { String::new() } else { format!(".{flavour}") };
        Case {
            name: format!("{}{ending}", victim.name),
            program: program.name.clone(),
            path: built.join(format!("{}{ending}", program.name)),
            is_first_build: number == 0,
            ..victim.clone()
        }
    };
    debug_assert!(!program.source.is_empty());
    flavours.iter().enumerate().map(one).collect()
}

fn check(cases: &[Case]) -> Result<(), VictimsError> {
    let mut names = BTreeSet::new();
    for case in cases {
        if !names.insert(&case.name) {
            return Err(VictimsError::TwiceNamed { case: case.name.clone() });
        }
        if !case.path.is_file() {
            return Err(VictimsError::NotBuilt { path: case.path.clone() });
        }
        if let Ending::Signal(name) = &case.status
            && signal_number(name).is_none()
        {
            return Err(VictimsError::UnknownSignal { case: case.name.clone(), signal: name.clone() });
        }
    }
    Ok(())
}

/// The number of a signal that a victim may end by.
pub(crate) fn signal_number(name: &str) -> Option<i32> {
    let known = [
        ("SIGILL", libc::SIGILL),
        ("SIGTRAP", libc::SIGTRAP),
        ("SIGABRT", libc::SIGABRT),
        ("SIGBUS", libc::SIGBUS),
        ("SIGFPE", libc::SIGFPE),
        ("SIGKILL", libc::SIGKILL),
        ("SIGSEGV", libc::SIGSEGV),
        ("SIGALRM", libc::SIGALRM),
        ("SIGTERM", libc::SIGTERM),
        ("SIGSYS", libc::SIGSYS),
        ("SIGXCPU", libc::SIGXCPU),
        ("SIGXFSZ", libc::SIGXFSZ),
        ("SIGPIPE", libc::SIGPIPE),
        ("SIGHUP", libc::SIGHUP),
        ("SIGINT", libc::SIGINT),
        ("SIGQUIT", libc::SIGQUIT),
        ("SIGUSR1", libc::SIGUSR1),
        ("SIGUSR2", libc::SIGUSR2),
    ];
    known.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}
