//! The shape of `bench/results/NAME.json`: what a benchmark measured, with the machine and the date.
//!
//! ```text
//! { "benchmark": "daemon", "date": "2026-01-31", "machine": {…}, "figures": what the benchmark wrote }
//! ```
//!
//! A benchmark writes its figures alone: `regrow bench --json` and the drivers in `bench/`. [`ResultsFile`] adds the rest.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::machine::Machine;

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A file cannot be read or written.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not JSON, or has another shape.
    #[error("{}: not the figures of a benchmark", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// The figures of one benchmark, and where and when it measured them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultsFile {
    /// The benchmark: the file's name without its ending.
    pub benchmark: String,
    /// The day, as `2026-01-31`.
    pub date: String,
    /// The machine.
    pub machine: Machine,
    /// What the benchmark wrote.
    pub figures: Value,
}

impl ResultsFile {
    /// Takes the figures that a benchmark wrote on this machine, this day.
    ///
    /// # Errors
    /// [`ResultsError`] when the file cannot be read, or is no JSON.
    pub fn of_figures(path: &Path) -> Result<Self, ResultsError> {
        let benchmark = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { benchmark, date: today(), machine: Machine::look(), figures: read(path)? })
    }

    /// Reads results.
    ///
    /// # Errors
    /// [`ResultsError`] when the file cannot be read, or has another shape.
    pub fn read(path: &Path) -> Result<Self, ResultsError> {
        read(path)
    }

    /// Writes the results into a folder, and returns the file.
    ///
    /// # Errors
    /// [`ResultsError::File`].
    pub fn write(&self, folder: &Path) -> Result<PathBuf, ResultsError> {
        let path = folder.join(format!("{}.json", self.benchmark));
        match std::fs::write(&path, self.text()) {
            Ok(()) => Ok(path),
            Err(source) => Err(ResultsError::File { path, source }),
        }
    }

    /// The file: a line for each figure, so that two states can be compared by their lines.
    fn text(&self) -> String {
        let figures = match &self.figures {
            Value::Array(figures) => lines("[", figures.iter().map(Value::to_string), "]"),
            Value::Object(figures) => {
                lines("{", figures.iter().map(|(name, figure)| format!("{}: {figure}", json!(name))), "}")
            }
            other => other.to_string(),
        };
        let (benchmark, date, machine) = (json!(self.benchmark), json!(self.date), json!(self.machine));
        let head = [format!("\"benchmark\": {benchmark}"), format!("\"date\": {date}")];
        let rest = [format!("\"machine\": {machine}"), format!("\"figures\": {figures}")];
        lines("{", head.into_iter().chain(rest), "}") + "\n"
    }

    /// The figures as what the benchmark is known to have written.
    ///
    /// # Errors
    /// [`ResultsError::Shape`].
    pub fn figures<T: serde::de::DeserializeOwned>(&self) -> Result<T, ResultsError> {
        let path = PathBuf::from(format!("{}.json", self.benchmark));
        serde_json::from_value(self.figures.clone()).map_err(|source| ResultsError::Shape { path, source })
    }
}

/// Entries of a list or an object, each on a line.
fn lines(begin: &str, entries: impl Iterator<Item = String>, end: &str) -> String {
    format!("{begin}\n{}\n{end}", entries.collect::<Vec<_>>().join(",\n"))
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ResultsError> {
    let text = std::fs::read(path).map_err(|source| ResultsError::File { path: path.to_owned(), source })?;
    serde_json::from_slice(&text).map_err(|source| ResultsError::Shape { path: path.to_owned(), source })
}

/// The day in universal time.
fn today() -> String {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let figures = folder.path().join("daemon.json");
        std::fs::write(&figures, r#"[{"name": "a", "measured": 1.5}]"#).unwrap();
        let results = ResultsFile::of_figures(&figures).unwrap();
        assert_eq!((results.benchmark.as_str(), &results.figures[0]["measured"]), ("daemon", &1.5.into()));
        let kept = tempfile::tempdir().unwrap();
        let path = results.write(kept.path()).unwrap();
        assert_eq!(ResultsFile::read(&path).unwrap(), results);
        let ways =
            ResultsFile { figures: serde_json::json!({"one \"way\"": [1, 2], "other": null}), ..results };
        assert_eq!(ResultsFile::read(&ways.write(kept.path()).unwrap()).unwrap(), ways);
        std::fs::write(&figures, "no JSON").unwrap();
        assert!(matches!(ResultsFile::of_figures(&figures), Err(ResultsError::Shape { .. })));
    }

    #[test]
    fn a_day_is_year_month_and_day() {
        let day = today();
        assert_eq!(day.split('-').map(str::len).collect::<Vec<_>>(), [4, 2, 2], "{day}");
    }
}
