//! Standard output, and files that a flag names.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::CliError;

/// Prints a text to standard output.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(CliError::Print)
}

/// A file that is created before something takes long: what cannot be written fails at once.
pub(crate) struct JsonFile {
    path: PathBuf,
    file: File,
}

impl JsonFile {
    /// Creates the file.
    pub(crate) fn create(path: &Path) -> Result<Self, CliError> {
        let path = path.to_owned();
        match File::create(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(CliError::Write { path, source }),
        }
    }

    /// Writes a value as JSON, in lines.
    pub(crate) fn write(mut self, value: &impl Serialize) -> Result<(), CliError> {
        let mut text = serde_json::to_vec_pretty(value).map_err(CliError::Json)?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(|source| CliError::Write { path: self.path, source })
    }
}
