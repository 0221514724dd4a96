//! What can go wrong with the corpus itself, as opposed to a run that differs.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// A program of the manifest that is not installed, and the Debian package that has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingProgram {
    /// The program, as the manifest names it.
    pub program: String,
    /// The Debian package to install.
    pub package: String,
}

impl fmt::Display for MissingProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (apt-get install {})", self.program, self.package)
    }
}

/// An error in the manifest, in the house, or in getting a run started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The manifest is no valid TOML, or has a field of the wrong name or type.
    #[error("cannot read the manifest {}: {source}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Where and what.
        source: Box<toml::de::Error>,
    },
    /// Two entries have one name, and would share a work directory.
    #[error("two entries are named {entry}")]
    DuplicateName {
        /// The name.
        entry: String,
    },
    /// The name of an entry is not a plain file name.
    #[error("entry {entry:?}: a name has only letters, digits, '-' and '_'")]
    BadName {
        /// The name.
        entry: String,
    },
    /// An argument list has no program.
    #[error("entry {entry}: {field} is empty")]
    EmptyArguments {
        /// The entry.
        entry: String,
        /// `argv` or `alt`.
        field: &'static str,
    },
    /// The alternating argument list is of another program.
    #[error("entry {entry}: argv and alt start different programs")]
    AltProgram {
        /// The entry.
        entry: String,
    },
    /// The alternating argument list does not alternate.
    #[error("entry {entry}: argv and alt are the same")]
    AltSame {
        /// The entry.
        entry: String,
    },
    /// An entry has two sources for its standard input.
    #[error("entry {entry}: give stdin or stdin_file, not both")]
    TwoInputs {
        /// The entry.
        entry: String,
    },
    /// An entry names a normaliser that the manifest does not define.
    #[error("entry {entry}: no normaliser is named {normaliser}")]
    UnknownNormaliser {
        /// The entry.
        entry: String,
        /// The name looked for.
        normaliser: String,
    },
    /// A normaliser's pattern is not a regular expression.
    #[error("normaliser {normaliser}: {source}")]
    Pattern {
        /// The normaliser.
        normaliser: String,
        /// What is wrong with it.
        source: regex_lite::Error,
    },
    /// An entry wants a generated file that no generator makes.
    #[error("entry {entry}: nothing generates {file}")]
    UnknownGenerated {
        /// The entry.
        entry: String,
        /// The file, without the leading `gen/`.
        file: String,
    },
    /// The package list lacks a package that an entry names.
    #[error("{} does not list {package}, which entry {entry} needs", path.display())]
    UnlistedPackage {
        /// The package list.
        path: PathBuf,
        /// The package.
        package: String,
        /// The entry.
        entry: String,
    },
    /// Programs of the manifest are not installed.
    #[error("programs are not installed: {}", list(.0))]
    MissingPrograms(Vec<MissingProgram>),
    /// The script that prepares an entry's work directory failed.
    #[error("entry {entry}: its setup ended with {status}: {stderr}")]
    Setup {
        /// The entry.
        entry: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        stderr: String,
    },
    /// A file in a work directory is of a kind that a template cannot hold.
    #[error("{} is neither file, directory nor symbolic link", path.display())]
    UnsupportedFile {
        /// The file.
        path: PathBuf,
    },
    /// A run could not be started, or did not end in time.
    #[error("entry {entry}: {source}")]
    Run {
        /// The entry.
        entry: String,
        /// The reason.
        source: io::Error,
    },
}

fn list(missing: &[MissingProgram]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Gives an I/O result the action and the path that it was about.
pub(super) trait At<T> {
    /// Names what was tried, and on which path.
    fn at(self, action: &'static str, path: &Path) -> Result<T, CorpusError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, CorpusError> {
        self.map_err(|e| CorpusError::Io { action, path: path.to_path_buf(), source: e.into() })
    }
}
