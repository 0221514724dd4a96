//! The manifest: which programs, with which arguments, on which files, and how each is to end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde::Deserialize;

use super::error::{At, CorpusError, MissingProgram};
use super::generate::generate;

/// A manifest that has been read and checked, and the directory it lies in.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// The directory of the manifest; input files are in `files` below it.
    pub dir: PathBuf,
    /// The environment of every run; `HOME` and `TMPDIR` are added for each.
    pub environment: BTreeMap<String, String>,
    /// What may differ between two runs, by name.
    pub normalisers: BTreeMap<String, Normaliser>,
    /// The entries, in the order of the manifest.
    pub entries: Vec<Entry>,
}

/// A part of the output that is never the same twice, and what stands in for it.
#[derive(Debug, Clone)]
pub struct Normaliser {
    /// What is replaced.
    pub pattern: regex_lite::Regex,
    /// With what; `$1` and so on stand for groups.
    pub with: String,
}

/// One program with two argument lists.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// A name of its own, also that of its work directory.
    pub name: String,
    /// The Debian package that has the program.
    pub package: String,
    /// The program and its arguments. `{dir}` stands for the work directory.
    pub argv: Vec<String>,
    /// The same program with other arguments.
    pub alt: Vec<String>,
    /// The exit status of `argv`.
    #[serde(default)]
    pub status: i32,
    /// The exit status of `alt`, if it is another.
    pub alt_status: Option<i32>,
    /// The signal that ends `argv`, in place of an exit status.
    pub signal: Option<i32>,
    /// The signal that ends `alt`, in place of an exit status.
    pub alt_signal: Option<i32>,
    /// Variables added to the environment, or changed.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables taken out of the environment.
    #[serde(default)]
    pub unset: Vec<String>,
    /// Text that the run reads from a pipe. Without this and `stdin_file` it reads `/dev/null`.
    pub stdin: Option<String>,
    /// A file of the work directory that is the run's standard input.
    pub stdin_file: Option<String>,
    /// A file of the work directory that is the run's standard output, in place of a pipe.
    pub stdout_file: Option<String>,
    /// Files and directories to copy from `files/`, or to generate (`gen/NAME`).
    #[serde(default)]
    pub files: Vec<String>,
    /// A shell script that prepares the work directory, run once, with plain exec.
    pub setup: Option<String>,
    /// Files whose content is not compared (their being there and their mode are).
    #[serde(default)]
    pub ignore_content: Vec<String>,
    /// Names of normalisers for the streams and for file names.
    #[serde(default)]
    pub normalise: Vec<String>,
    /// Whether a run takes so long that a quick test leaves it out or repeats it less.
    #[serde(default)]
    pub slow: bool,
    /// How long a run may take, in seconds, before it is killed and the entry fails.
    #[serde(default = "default_limit_s")]
    pub limit_s: u64,
}

fn default_limit_s() -> u64 {
    60
}

/// Which of an entry's two argument lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArgumentList {
    /// `argv`.
    Main,
    /// `alt`.
    Alt,
}

impl ArgumentList {
    /// The list for run number `run`, so that they alternate.
    pub fn for_run(run: usize) -> Self {
        if run.is_multiple_of(2) { Self::Main } else { Self::Alt }
    }

    /// The manifest's name for it.
    pub fn field(self) -> &'static str {
        match self {
            Self::Main => "argv",
            Self::Alt => "alt",
        }
    }
}

/// How a run is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// With an exit status.
    Exit(i32),
    /// By a signal.
    Signal(i32),
}

impl Expected {
    /// Whether `status` is what was expected.
    pub fn matches(self, status: ExitStatus) -> bool {
        match self {
            Self::Exit(code) => status.code() == Some(code),
            Self::Signal(signal) => status.signal() == Some(signal),
        }
    }
}

impl Entry {
    /// The program and arguments of one list.
    pub fn arguments(&self, which: ArgumentList) -> &[String] {
        match which {
            ArgumentList::Main => &self.argv,
            ArgumentList::Alt => &self.alt,
        }
    }

    /// How a run with one list is to end.
    pub fn expected(&self, which: ArgumentList) -> Expected {
        match which {
            ArgumentList::Main => self.signal.map_or(Expected::Exit(self.status), Expected::Signal),
            ArgumentList::Alt => self
                .alt_signal
                .map_or(Expected::Exit(self.alt_status.unwrap_or(self.status)), Expected::Signal),
        }
    }

    /// The program's name; [`Corpus::load`] has checked that there is one.
    pub fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    fn check(&self, normalisers: &BTreeMap<String, Normaliser>) -> Result<(), CorpusError> {
        let entry = || self.name.clone();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return Err(CorpusError::BadName { entry: entry() });
        }
        for which in [ArgumentList::Main, ArgumentList::Alt] {
            if self.arguments(which).is_empty() {
                return Err(CorpusError::EmptyArguments { entry: entry(), field: which.field() });
            }
        }
        if self.argv[0] != self.alt[0] {
            return Err(CorpusError::AltProgram { entry: entry() });
        }
        if self.argv == self.alt {
            return Err(CorpusError::AltSame { entry: entry() });
        }
        if self.stdin.is_some() && self.stdin_file.is_some() {
            return Err(CorpusError::TwoInputs { entry: entry() });
        }
        if let Some(unknown) = self.normalise.iter().find(|n| !normalisers.contains_key(*n)) {
            return Err(CorpusError::UnknownNormaliser { entry: entry(), normaliser: unknown.clone() });
        }
        let generated = self.files.iter().filter_map(|f| f.strip_prefix("gen/"));
        if let Some(file) = generated.into_iter().find(|f| generate(f).is_none()) {
            return Err(CorpusError::UnknownGenerated { entry: entry(), file: file.to_owned() });
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNormaliser {
    pattern: String,
    with: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    environment: BTreeMap<String, String>,
    #[serde(default)]
    normalisers: BTreeMap<String, RawNormaliser>,
    entry: Vec<Entry>,
}

impl Corpus {
    /// Reads and checks `corpus.toml` in `dir`, and that `packages.txt` beside it lists every package.
    ///
    /// # Errors
    ///
    /// A [`CorpusError`] that names the file or the entry and what is wrong with it.
    pub fn load(dir: &Path) -> Result<Self, CorpusError> {
        let path = dir.join("corpus.toml");
        let text = fs::read_to_string(&path).at("read", &path)?;
        let corpus = Self::parse(&text, dir)?;
        let path = dir.join("packages.txt");
        let list = fs::read_to_string(&path).at("read", &path)?;
        let listed: BTreeSet<&str> = list.lines().map(str::trim).collect();
        for entry in &corpus.entries {
            if !listed.contains(entry.package.as_str()) {
                let (package, entry) = (entry.package.clone(), entry.name.clone());
                return Err(CorpusError::UnlistedPackage { path, package, entry });
            }
        }
        Ok(corpus)
    }

    /// Reads and checks a manifest's text, whose input files are below `dir`.
    ///
    /// # Errors
    ///
    /// As [`Corpus::load`].
    pub fn parse(text: &str, dir: &Path) -> Result<Self, CorpusError> {
        let raw: RawManifest = toml::from_str(text)
            .map_err(|e| CorpusError::Manifest { path: dir.join("corpus.toml"), source: Box::new(e) })?;
        let mut normalisers = BTreeMap::new();
        for (name, RawNormaliser { pattern, with }) in raw.normalisers {
            let pattern = regex_lite::Regex::new(&pattern)
                .map_err(|source| CorpusError::Pattern { normaliser: name.clone(), source })?;
            normalisers.insert(name, Normaliser { pattern, with });
        }
        let mut names = BTreeSet::new();
        for entry in &raw.entry {
            entry.check(&normalisers)?;
            if !names.insert(entry.name.as_str()) {
                return Err(CorpusError::DuplicateName { entry: entry.name.clone() });
            }
        }
        Ok(Self { dir: dir.to_path_buf(), environment: raw.environment, normalisers, entries: raw.entry })
    }

    /// Keeps only the entries that `wanted` accepts.
    pub fn retain(&mut self, wanted: impl FnMut(&Entry) -> bool) {
        self.entries.retain(wanted);
    }

    /// Every `parts`-th entry, from number `part` on.
    pub fn part(&self, part: usize, parts: usize) -> Self {
        let entries = self.entries.iter().skip(part).step_by(parts.max(1)).cloned().collect();
        Self { entries, ..self.clone() }
    }

    /// Checks that each entry's program is on the manifest's `PATH`.
    ///
    /// # Errors
    ///
    /// [`CorpusError::MissingPrograms`] with every program that is not, and its Debian package.
    pub fn check_installed(&self) -> Result<(), CorpusError> {
        let mut missing: Vec<MissingProgram> = self
            .entries
            .iter()
            .filter(|entry| !entry.program().contains('/') && self.find_program(entry.program()).is_none())
            .map(|entry| MissingProgram {
                program: entry.program().to_owned(),
                package: entry.package.clone(),
            })
            .collect();
        missing.sort();
        missing.dedup();
        if missing.is_empty() { Ok(()) } else { Err(CorpusError::MissingPrograms(missing)) }
    }

    /// Where the manifest's `PATH` has `program`.
    pub fn find_program(&self, program: &str) -> Option<PathBuf> {
        let path = self.environment.get("PATH")?;
        std::env::split_paths(path).map(|dir| dir.join(program)).find(|candidate| {
            fs::metadata(candidate)
                .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
        })
    }
}
