//! Real programs that create processes: what is watched here. All of them are Debian's.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use regrow_machine::{Machine, MachineOptions, Scope};
use regrow_sites::Event;
use tempfile::TempDir;

use crate::error::BenchError;
use crate::watched::{Scripts, Watched, watch};

/// The scripts, by the names of their files.
const SCRIPTS: [(&str, &str); 6] = [
    ("make.sh", include_str!("../../../../traces/drivers/make.sh")),
    ("git.sh", include_str!("../../../../traces/drivers/git.sh")),
    ("python.sh", include_str!("../../../../traces/drivers/python.sh")),
    ("browser.sh", include_str!("scripts/browser.sh")),
    ("office.sh", include_str!("scripts/office.sh")),
    ("desktop.sh", include_str!("scripts/desktop.sh")),
];

/// Tests of Python that take some seconds, and start processes.
const PYTHON_TESTS: [&str; 6] = [
    "test_cmd_line",
    "test_cmd_line_script",
    "test_popen",
    "test_script_helper",
    "test_utf8_mode",
    "test_runpy",
];

/// A folder in which workloads run.
pub(super) struct Workloads {
    folder: TempDir,
}

impl Workloads {
    /// Fetches the source of what is made.
    pub(super) fn new() -> Result<Workloads, BenchError> {
        let folder = tempfile::tempdir().map_err(BenchError::system("a temporary folder cannot be made"))?;
        for (name, text) in SCRIPTS {
            std::fs::write(folder.path().join(name), text)
                .map_err(BenchError::system("a script cannot be written"))?;
        }
        let workloads = Workloads { folder };
        let mut fetch = workloads.script("make.sh", &["fetch", workloads.path()]);
        let ran = fetch.stderr(Stdio::piped()).output().map_err(failed())?;
        if !ran.status.success() {
            let what =
                format!("the source of zlib cannot be fetched: {}", String::from_utf8_lossy(&ran.stderr));
            return Err(BenchError::WrongRun { program: "make.sh".to_owned(), what });
        }
        Ok(workloads)
    }

    fn path(&self) -> &str {
        self.folder.path().to_str().unwrap_or_default()
    }

    fn script(&self, name: &str, words: &[&str]) -> Command {
        let mut command = Command::new("bash");
        command.arg(self.folder.path().join(name)).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// `configure`, `make` and `make check` of zlib, four times.
    pub(super) fn make(&self) -> Command {
        self.script("make.sh", &["build", self.path()])
    }

    /// A session with git.
    pub(super) fn git(&self) -> Command {
        self.script("git.sh", &[])
    }

    /// Tests of Python, twice: as those who work on something run its tests.
    pub(super) fn python(&self) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", "bash \"$@\" && bash \"$@\"", "bash"]).arg(self.folder.path().join("python.sh"));
        command.args(PYTHON_TESTS).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Chromium with pages of these kinds, each for so many seconds.
    pub(super) fn browser(&self, seconds: u32, kinds: &[&str]) -> Command {
        let mut command = self.script("browser.sh", &[self.path(), &seconds.to_string()]);
        command.args(kinds);
        command
    }

    /// Two browsers that load a page, and a player.
    pub(super) fn desktop(&self) -> Command {
        let mut command = Command::new("bash");
        command.arg(self.folder.path().join("desktop.sh")).arg(self.folder.path());
        command
    }

    /// The player alone, with one piece.
    pub(super) fn piece(&self) -> Command {
        let mut command = self.desktop();
        command.arg("piece");
        command
    }

    /// A folder for what is learned.
    pub(super) fn state(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("state-{name}"))
    }

    /// LibreOffice with a document of this kind.
    pub(super) fn office(&self, kind: &str) -> Command {
        self.script("office.sh", &[self.path(), kind])
    }
}

/// What happens below a command, by the preloaded library.
pub(super) fn by_library(name: &str, command: &mut Command) -> Result<(Vec<Event>, Scripts), BenchError> {
    let watched = watch(command)?;
    let lost = watched.lost();
    let Watched { status, events, scripts, .. } = watched;
    if !status.success() || lost > 0 {
        let what = format!("{status}, and {lost} words of processes were lost");
        return Err(BenchError::WrongRun { program: name.to_owned(), what });
    }
    Ok((events, scripts))
}

/// The same as the kernel tells it, which needs root, and sees static programs and system calls without a library.
pub(super) fn by_kernel(name: &str, command: &mut Command) -> Result<Vec<Event>, BenchError> {
    let scope = Scope::Below(std::process::id());
    let mut machine = Machine::start(&MachineOptions { scope, ..MachineOptions::default() })?;
    let mut events = Vec::new();
    let mut child = command.spawn().map_err(failed())?;
    let status = loop {
        machine.collect(std::time::Duration::from_millis(20), &mut |event| events.push(event))?;
        if let Some(status) = child.try_wait().map_err(failed())? {
            break status;
        }
    };
    let losses = machine.finish(&mut |event| events.push(event))?;
    if !status.success() || losses.created + losses.executed + losses.ended > 0 {
        let what = format!("{status}, {losses:?}");
        return Err(BenchError::WrongRun { program: name.to_owned(), what });
    }
    Ok(events)
}

fn failed() -> impl FnOnce(std::io::Error) -> BenchError {
    BenchError::system("a workload cannot be started")
}
