//! The report of `regrow run`: one JSON line for each run.
//!
//! The help of `regrow run` documents the keys. They are stable.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use regrow::Creation;
use serde::Serialize;

use crate::error::CliError;

/// The file of the lines. Each line is written as soon as its run has ended.
#[derive(Debug)]
pub(super) struct RunReport {
    file: File,
    path: PathBuf,
}

impl RunReport {
    /// Creates the file, or empties it.
    pub(super) fn create(path: &Path) -> Result<Self, CliError> {
        let path = path.to_owned();
        match File::create(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(source) => Err(CliError::Write { path, source }),
        }
    }

    /// Writes a line.
    pub(super) fn write(&mut self, line: &RunLine) -> Result<(), CliError> {
        let mut text = serde_json::to_vec(line).map_err(CliError::Json)?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(|source| CliError::Write { path: self.path.clone(), source })
    }
}

/// The line of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RunLine {
    /// The number of the run, from 1.
    run: u64,
    /// `recycled`, `forked_body` or `exec`; nothing for a run that could not be started.
    how: Option<&'static str>,
    /// The snapshot point.
    point: Option<&'static str>,
    /// The name of the reason why it was not recycled.
    fallback: Option<&'static str>,
    /// The same in words.
    detail: Option<String>,
    /// The exit status, as the command has it.
    pub(super) status: u8,
    /// The signal that ended the run.
    pub(super) signal: Option<i32>,
    /// Why the run could not be started, or its end not be seen.
    pub(super) error: Option<String>,
    /// The number of the process.
    pid: Option<u32>,
    /// From the call to the end seen.
    pub(super) wall_us: Option<f64>,
}

impl RunLine {
    /// A run that was started and whose end is not known.
    pub(super) fn of(run: u64, creation: &Creation, pid: u32) -> Self {
        let fallback = creation.fallback();
        Self {
            run,
            how: Some(creation.how()),
            point: creation.point().map(regrow::Point::name),
            fallback: fallback.map(regrow::Fallback::name),
            detail: fallback.map(ToString::to_string),
            status: 0,
            signal: None,
            error: None,
            pid: Some(pid),
            wall_us: None,
        }
    }

    /// A run that could not be started.
    pub(super) fn not_started(run: u64, status: u8, error: &io::Error) -> Self {
        let nothing = None;
        Self {
            run,
            how: nothing,
            point: nothing,
            fallback: nothing,
            detail: None,
            status,
            signal: None,
            error: Some(error.to_string()),
            pid: None,
            wall_us: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow::{Fallback, Point};

    #[test]
    fn a_recycled_run_has_a_point_and_no_reason() {
        let mut line = RunLine::of(2, &Creation::Recycled { point: Point::Main }, 4711);
        line.wall_us = Some(21.5);
        let expected = r#"{"run":2,"how":"recycled","point":"main","fallback":null,"detail":null,"status":0,"#
            .to_owned() + r#""signal":null,"error":null,"pid":4711,"wall_us":21.5}"#;
        assert_eq!(serde_json::to_string(&line).unwrap(), expected);
    }

    #[test]
    fn an_exec_says_why_in_a_name_and_in_words() {
        let why = Fallback::RefusedState { detail: "2 threads at main".to_owned() };
        let line = RunLine::of(1, &Creation::Exec { why }, 4711);
        assert_eq!((line.how, line.point, line.fallback), (Some("exec"), None, Some("refused_state")));
        assert_eq!(line.detail.unwrap(), "the program's state cannot be kept: 2 threads at main");
    }

    #[test]
    fn a_run_that_could_not_be_started_has_no_process() {
        let line = RunLine::not_started(1, 127, &io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!((line.how, line.pid, line.status), (None, None, 127));
        assert_eq!(line.error.unwrap(), "No such file or directory (os error 2)");
    }
}
