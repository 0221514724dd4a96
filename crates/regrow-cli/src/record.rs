//! `regrow record`: the sequence of process creations below a command, as a trace (see [`regrow_pool::trace`]).
//!
//! ```text
//!   COMMAND ──ptrace──> born, executed, leaving, gone ──> Recording ──> rows ──> FILE
//! ```
//!
//! A row is an exec. What a process that has executed a program executes next is a row of its own, asked for by the first
//! one. Tracing makes every creation slower by some tens of microseconds, and the times that are recorded with it.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::{Duration, Instant};

use regrow_pool::trace::{self, Creation, argv_hash};
use regrow_sys::follow::{FollowError, Follower, Happened};

use crate::bench::find_in;
use crate::cli::RecordArgs;
use crate::error::CliError;
use crate::run::{NOT_EXECUTABLE, NOT_FOUND, SIGNALLED};
use crate::{complain, error};

/// What stands at the top of a trace, for a reader who has nothing else.
const COLUMNS: &str = "\
Creations of processes, in their order. A row is an exec; a fork that executes nothing has none.
program    the file that was executed; for a script its interpreter
argv_hash  64-bit FNV-1a of the arguments, each ended by a zero byte
parent     number of the row that asked for it, from 1; 0: none here
start_us   when it was executed, in microseconds since the recording began
end_us     when it had ended, or had executed something else, which is a row of its own
peak_kib   most memory that was resident, in KiB; empty: not known";

/// Carries out the command.
pub(crate) fn record(args: &RecordArgs) -> Result<u8, CliError> {
    let search = std::env::var_os("PATH");
    let Some(path) = find_in(&args.program, search.as_deref()) else {
        return Ok(not_found(&args.program, search.as_deref()));
    };
    // Before the command runs: a file that cannot be written is not to be found out after it.
    let cannot_write = |source| CliError::Write { path: args.output.clone(), source };
    let file = File::create(&args.output).map_err(cannot_write)?;
    let mut follower = match start(&path, args) {
        Err(FollowError::Exec(source)) => {
            return Ok(not_executable(&args.program, source));
        }
        other => other?,
    };
    let mut recording = Recording::new(args.limit);
    let mut status = 0;
    while let Some(happened) = follower.next_event()? {
        recording.take(happened);
        if let Happened::Gone { pid, status: raw } = happened
            && pid == follower.root()
        {
            status = exit_status(raw);
        }
    }
    let rows = recording.finish();
    let words = std::iter::once(&args.program).chain(&args.args);
    let command: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let comment = format!("{COLUMNS}\nRecorded below: {}", command.join(" ").replace('\n', " "));
    trace::write(BufWriter::new(file), &comment, &rows)?;
    complain(&told(&rows, recording.left_out));
    Ok(status)
}

/// Tells why there is no program to execute, and gives the exit status that `env` has then.
fn not_found(program: &OsStr, search: Option<&OsStr>) -> u8 {
    // Names of something, where exec would look: it goes on after one that it may not execute, and says so at the end.
    let denied = if program.as_bytes().contains(&b'/') {
        why_not(Path::new(program))
    } else {
        let folders = search.into_iter().flat_map(std::env::split_paths);
        let named = folders.filter(|_| !program.is_empty()).map(|folder| folder.join(program));
        let mut denied = named.filter_map(|path| why_not(&path));
        denied.find(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    match denied {
        Some(source) => not_executable(program, source),
        None => {
            complain(&error::chain(&CliError::NoProgram { program: program.to_owned() }));
            NOT_FOUND
        }
    }
}

/// Why a file that is no program cannot be executed; none where there is no file.
fn why_not(path: &Path) -> Option<io::Error> {
    match fs::metadata(path) {
        Ok(_) => Some(io::Error::from_raw_os_error(libc::EACCES)),
        Err(error) => (error.kind() != io::ErrorKind::NotFound).then_some(error),
    }
}

fn not_executable(program: &OsStr, source: io::Error) -> u8 {
    let program = program.to_string_lossy().into_owned();
    complain(&error::chain(&CliError::Start { program, by: "exec", source }));
    NOT_EXECUTABLE
}

fn start(path: &Path, args: &RecordArgs) -> Result<Follower, FollowError> {
    let c_string = |word: &OsStr| CString::new(word.as_bytes());
    let strings = || -> Result<_, io::Error> {
        let argv: Vec<CString> = std::iter::once(&args.program)
            .chain(&args.args)
            .map(|word| c_string(word))
            .collect::<Result<_, _>>()?;
        let variable = |(name, value): (OsString, OsString)| {
            c_string(OsStr::from_bytes(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
        };
        let envp: Vec<CString> = std::env::vars_os().map(variable).collect::<Result<_, _>>()?;
        Ok((c_string(path.as_os_str())?, argv, envp))
    };
    let (path, argv, envp) = strings().map_err(FollowError::Exec)?;
    let argv: Vec<&CStr> = argv.iter().map(CString::as_c_str).collect();
    let envp: Vec<&CStr> = envp.iter().map(CString::as_c_str).collect();
    Follower::start(&path, &argv, &envp)
}

fn exit_status(raw: i32) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let status = std::process::ExitStatus::from_raw(raw);
    let status = status.code().or_else(|| Some(SIGNALLED + status.signal()?)).unwrap_or(0);
    u8::try_from(status).unwrap_or(u8::MAX)
}

fn told(rows: &[Creation], left_out: u64) -> String {
    let programs: BTreeSet<&str> = rows.iter().map(|row| row.program.as_str()).collect();
    let last = rows.iter().map(|row| row.end_us).max().unwrap_or(0);
    let seconds = Duration::from_micros(last).as_secs_f64();
    let more = if left_out > 0 { format!("; {left_out} more were left out") } else { String::new() };
    format!("{} creations of {} programs in {seconds:.1} s{more}", rows.len(), programs.len())
}

/// A process that is alive.
#[derive(Debug, Clone, Copy, Default)]
struct Alive {
    /// The row of the program that it runs, if it has executed one itself.
    row: Option<usize>,
    /// The number of the row whose program made it; 0 for none.
    maker: u32,
    /// The most of its memory that was resident.
    peak_kib: Option<u64>,
}

/// The rows so far.
#[derive(Debug)]
struct Recording {
    began: Instant,
    limit: usize,
    rows: Vec<Creation>,
    alive: HashMap<i32, Alive>,
    left_out: u64,
}

impl Recording {
    fn new(limit: Option<usize>) -> Recording {
        Recording {
            began: Instant::now(),
            limit: limit.unwrap_or(trace::MOST).min(trace::MOST),
            rows: Vec::new(),
            alive: HashMap::new(),
            left_out: 0,
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn take(&mut self, happened: Happened) {
        match happened {
            Happened::Born { pid, parent } => {
                let parent = self.alive.get(&parent).copied().unwrap_or_default();
                let maker = parent.row.map_or(parent.maker, number);
                self.alive.insert(pid, Alive { maker, ..Alive::default() });
            }
            Happened::Executed { pid } => self.executed(pid, &program(pid), argv_hash(&cmdline(pid))),
            Happened::Leaving { pid } => {
                let peak_kib = peak_kib(pid);
                let alive = self.alive.entry(pid).or_default();
                alive.peak_kib = alive.peak_kib.max(peak_kib);
            }
            Happened::Gone { pid, .. } => {
                if let Some(alive) = self.alive.remove(&pid) {
                    self.ended(alive);
                }
            }
        }
    }

    fn executed(&mut self, pid: i32, program: &str, argv_hash: u64) {
        let before = self.alive.remove(&pid).unwrap_or_default();
        // The memory of what it ran before is gone, and what was most of it is not known any more.
        self.ended(Alive { peak_kib: None, ..before });
        let maker = before.row.map_or(before.maker, number);
        let start_us = self.now_us();
        let row = if self.rows.len() < self.limit {
            let program = program.to_owned();
            self.rows.push(Creation {
                program,
                argv_hash,
                parent: maker,
                start_us,
                end_us: start_us,
                peak_kib: None,
            });
            Some(self.rows.len() - 1)
        } else {
            self.left_out += 1;
            None
        };
        self.alive.insert(pid, Alive { row, maker, peak_kib: None });
    }

    fn ended(&mut self, alive: Alive) {
        let end_us = self.now_us();
        if let Some(row) = alive.row.and_then(|row| self.rows.get_mut(row)) {
            (row.end_us, row.peak_kib) = (end_us, alive.peak_kib);
        }
    }

    /// The rows; what is still alive ends at this moment.
    fn finish(&mut self) -> Vec<Creation> {
        let alive: Vec<Alive> = self.alive.drain().map(|(_, alive)| alive).collect();
        alive.into_iter().for_each(|alive| self.ended(alive));
        std::mem::take(&mut self.rows)
    }
}

/// The number of a row.
fn number(row: usize) -> u32 {
    u32::try_from(row + 1).unwrap_or(u32::MAX)
}

/// The file that a stopped process runs.
fn program(pid: i32) -> String {
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default().into_os_string();
    let name = String::from_utf8_lossy(&path.into_vec()).into_owned();
    let name = name.strip_suffix(" (deleted)").map_or(name.clone(), str::to_owned);
    if name.is_empty() { "unknown".to_owned() } else { name }
}

fn cmdline(pid: i32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn peak_kib(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_executes_twice_has_two_rows_and_a_fork_none() {
        let mut recording = Recording::new(Some(4));
        recording.executed(10, "/bin/sh", 1);
        recording.take(Happened::Born { pid: 11, parent: 10 });
        // A subshell, which makes another process.
        recording.take(Happened::Born { pid: 12, parent: 11 });
        recording.executed(12, "/usr/bin/env", 2);
        recording.executed(12, "/usr/bin/perl", 3);
        recording.take(Happened::Gone { pid: 12, status: 0 });
        recording.take(Happened::Gone { pid: 11, status: 0 });
        recording.executed(10, "/bin/true", 4);
        recording.executed(10, "/bin/false", 5);
        assert_eq!(recording.left_out, 1);
        let rows = recording.finish();
        let parents: Vec<(&str, u32)> = rows.iter().map(|row| (row.program.as_str(), row.parent)).collect();
        assert_eq!(parents, [("/bin/sh", 0), ("/usr/bin/env", 1), ("/usr/bin/perl", 2), ("/bin/true", 1)]);
        assert!(rows.iter().all(|row| row.end_us >= row.start_us));
        assert!(rows[1].end_us <= rows[2].end_us && rows[2].end_us <= rows[0].end_us);
    }

    #[test]
    fn statuses_are_told_as_env_tells_them() {
        assert_eq!([exit_status(0), exit_status(7 << 8), exit_status(libc::SIGTERM)], [0, 7, 143]);
    }
}
