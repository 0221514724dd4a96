//! The files that a profile is written to, and its table.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use regrow_bench::table::output_width;
use regrow_profile::Report;

use super::table;
use crate::cli::sites::OutputArgs;
use crate::error::CliError;
use crate::output::print;

/// Stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Where something goes.
enum Target {
    File(PathBuf, File),
    StandardOutput,
}

impl Target {
    fn create(path: Option<&Path>) -> Result<Option<Target>, CliError> {
        let Some(path) = path else { return Ok(None) };
        if path.as_os_str() == STANDARD_OUTPUT {
            return Ok(Some(Target::StandardOutput));
        }
        let failed = |source| CliError::Write { path: path.to_owned(), source };
        Ok(Some(Target::File(path.to_owned(), File::create(path).map_err(failed)?)))
    }

    fn write(self, bytes: &[u8]) -> Result<(), CliError> {
        match self {
            Target::File(path, mut file) => {
                file.write_all(bytes).map_err(|source| CliError::Write { path, source })
            }
            Target::StandardOutput => {
                let mut stdout = io::stdout();
                stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(CliError::Print)
            }
        }
    }
}

/// The files that were asked for.
pub(super) struct Outputs {
    json: Option<Target>,
    csv: Option<Target>,
    pprof: Option<Target>,
    html: Option<Target>,
}

impl Outputs {
    /// Creates the files.
    pub(super) fn create(args: &OutputArgs) -> Result<Outputs, CliError> {
        Ok(Outputs {
            json: Target::create(args.json.as_deref())?,
            csv: Target::create(args.csv.as_deref())?,
            pprof: Target::create(args.pprof.as_deref())?,
            html: Target::create(args.html.as_deref())?,
        })
    }

    /// Writes them, and the table: to standard error where standard output is a command's, or has one of the files.
    pub(super) fn write(self, report: &Report, limit: usize, has_command: bool) -> Result<(), CliError> {
        let is_taken =
            [&self.json, &self.csv].into_iter().any(|file| matches!(file, Some(Target::StandardOutput)));
        let in_memory = |what: &'static str| CliError::system(what);
        if let Some(target) = self.json {
            target.write(&report.to_json().map_err(CliError::Json)?)?;
        }
        if let Some(target) = self.csv {
            target.write(&report.to_csv().map_err(in_memory("the table cannot be written as CSV"))?)?;
        }
        if let Some(target) = self.pprof {
            target.write(&report.to_pprof().map_err(in_memory("the profile cannot be compressed"))?)?;
        }
        if let Some(target) = self.html {
            target.write(report.to_html().map_err(CliError::Json)?.as_bytes())?;
        }
        let text = table::table(report, limit, output_width());
        if has_command || is_taken {
            // Where standard error is gone, nobody reads it.
            let _ = io::stderr().write_all(text.as_bytes());
            return Ok(());
        }
        print(&text)
    }
}
