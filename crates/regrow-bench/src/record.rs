//! `regrow record`: the sequence of process creations below a command, as a trace (see [`regrow_pool::trace`]).
//!
//! ```text
//!   COMMAND ──ptrace──> born, executed, leaving, gone ──> TraceBuilder ──> rows ──> file
//!   COMMAND ──preloaded library──> events ──> rows ──> file                          (with sites)
//! ```
//!
//! A row is an exec. When a process executes one program after another, the second is a row of its own, and the first is its
//! parent. Tracing makes every creation slower by some tens of microseconds, and the recorded times with it;
//! the library by two or three, and it knows the site, but sees no static program.

mod builder;
mod of_events;

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use regrow_image::resolve::{ResolveError, find_program};
use regrow_pool::trace::{self, Creation, TraceError};
use regrow_sys::follow::{FollowError, Follower, Happened};

use self::builder::TraceBuilder;
use crate::error::BenchError;
use crate::watched::{Watched, watch};

/// Stands at the top of a trace, for a reader who has nothing else.
const COLUMNS: &str = "\
Creations of processes, in their order. A row is an exec; a fork that executes nothing has none.
program    the file that was executed; for a script its interpreter
argv_hash  64-bit FNV-1a of the arguments, each ended by a zero byte
parent     number of the row that asked for it, from 1; 0: none here
start_us   when it was executed, in microseconds since the recording began
end_us     when it had ended, or had executed something else, which is a row of its own
peak_kib   most memory that was resident, in KiB; empty: not known
cpu_us     processor time between the two, without children, in microseconds; empty: not known
site       the place in the parent that created it, as a hash; empty: not known";

/// Why a command is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is no such program.
    #[error("{}: there is no such program that can be executed", program.display())]
    NotFound {
        /// The program as the user named it.
        program: OsString,
    },
    /// The program is there and cannot be executed.
    #[error("{}: cannot be started by exec", program.display())]
    NotExecutable {
        /// The program as the user named it.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// The command cannot be followed.
    #[error("the command cannot be followed")]
    Follow(#[from] FollowError),
    /// The command cannot be watched.
    #[error("the command cannot be watched")]
    Watch(#[from] Box<BenchError>),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// A command whose creations are recorded.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    /// The command with its arguments.
    words: Vec<OsString>,
}

/// What a recording gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// How the command ended.
    pub status: ExitStatus,
    /// What was recorded, in a sentence.
    pub summary: String,
}

impl Recording {
    /// Looks the program of a command up.
    ///
    /// # Errors
    /// [`RecordError::NotFound`] or [`RecordError::NotExecutable`], as exec would fail.
    pub fn find(program: &OsStr, args: &[OsString]) -> Result<Self, RecordError> {
        let found = find_program(program, std::env::var_os("PATH").as_deref(), None);
        let cannot = |error: ResolveError| cannot_execute(program, error.errno().unwrap_or(libc::ENOENT));
        let path = found.map_err(cannot)?.path;
        let words = std::iter::once(program.to_owned()).chain(args.iter().cloned()).collect();
        Ok(Self { path, words })
    }

    /// Runs the command, and writes at most `limit` of its creations to a file.
    ///
    /// # Errors
    /// [`RecordError`] when the command cannot be executed or followed, or the trace cannot be written.
    pub fn run(&self, limit: Option<usize>, output: &File) -> Result<Recorded, RecordError> {
        let mut follower = self.start()?;
        let mut builder = TraceBuilder::new(limit);
        let mut status = 0;
        while let Some(happened) = follower.next_event()? {
            builder.take(happened);
            if let Happened::Gone { pid, status: raw } = happened
                && pid == follower.root()
            {
                status = raw;
            }
        }
        let rows = builder.finish();
        let summary = summary(&rows, builder.left_out);
        self.write(&rows, output)?;
        Ok(Recorded { status: ExitStatus::from_raw(status), summary })
    }

    /// The same by a preloaded library, which tells the sites as well.
    ///
    /// # Errors
    /// [`RecordError`] when the command cannot be executed or watched, or the trace cannot be written.
    pub fn run_with_sites(&self, limit: Option<usize>, output: &File) -> Result<Recorded, RecordError> {
        let mut command = Command::new(&self.path);
        command.args(self.words.iter().skip(1));
        if let Some(name) = self.words.first() {
            command.arg0(name);
        }
        let watched = watch(&mut command).map_err(Box::new)?;
        let lost = watched.lost();
        let Watched { status, events, .. } = watched;
        let (rows, left_out) = of_events::rows(&events, limit.unwrap_or(trace::MOST).min(trace::MOST));
        self.write(&rows, output)?;
        let mut summary = summary(&rows, left_out);
        if lost > 0 {
            summary.push_str(&format!("; {lost} words of processes were lost"));
        }
        Ok(Recorded { status, summary })
    }

    fn write(&self, rows: &[Creation], output: &File) -> Result<(), RecordError> {
        let command: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        let comment = format!("{COLUMNS}\nRecorded below: {}", command.join(" ").replace('\n', " "));
        Ok(trace::write(BufWriter::new(output), &comment, rows)?)
    }

    /// Starts the command, and follows it. The calling thread alone can ask what happens.
    ///
    /// # Errors
    /// [`RecordError`] when the command cannot be executed or followed.
    pub fn start(&self) -> Result<Follower, RecordError> {
        let c_string = |word: &OsStr| CString::new(word.as_bytes());
        let strings = || -> Result<_, io::Error> {
            let argv: Vec<CString> =
                self.words.iter().map(|word| c_string(word)).collect::<Result<_, _>>()?;
            let variable = |(name, value): (OsString, OsString)| {
                c_string(&OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat()))
            };
            let envp: Vec<CString> = std::env::vars_os().map(variable).collect::<Result<_, _>>()?;
            Ok((c_string(self.path.as_os_str())?, argv, envp))
        };
        let (path, argv, envp) = strings().map_err(FollowError::Exec)?;
        let argv: Vec<&CStr> = argv.iter().map(CString::as_c_str).collect();
        let envp: Vec<&CStr> = envp.iter().map(CString::as_c_str).collect();
        match Follower::start(&path, &argv, &envp) {
            Err(FollowError::Exec(source)) => {
                let program = self.words.first().cloned().unwrap_or_default();
                Err(RecordError::NotExecutable { program, source })
            }
            other => Ok(other?),
        }
    }
}

fn cannot_execute(program: &OsStr, errno: i32) -> RecordError {
    let (program, source) = (program.to_owned(), io::Error::from_raw_os_error(errno));
    match source.kind() {
        io::ErrorKind::NotFound => RecordError::NotFound { program },
        _ => RecordError::NotExecutable { program, source },
    }
}

fn summary(rows: &[Creation], left_out: u64) -> String {
    let programs: BTreeSet<&str> = rows.iter().map(|row| row.program.as_str()).collect();
    let last = rows.iter().map(|row| row.end_us).max().unwrap_or(0);
    let seconds = Duration::from_micros(last).as_secs_f64();
    let more = if left_out > 0 { format!("; {left_out} more were left out") } else { String::new() };
    format!("{} creations of {} programs in {seconds:.1} s{more}", rows.len(), programs.len())
}
