//! Whether what the gateway serves can run at all: the program is there, the application can be imported.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regrow::{Command, Stdio};
use regrow_sys::search;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, access};

use crate::error::WebError;
use crate::serve::records::{last_line, one_record};

/// The most bytes of an application's words that the gateway reads.
const MAX_BYTES: u64 = 64 * 1024;

/// Checks that exec finds a program in these folders, as `PATH` has them.
pub(crate) fn check_program(program: &OsStr, path: Option<&[u8]>) -> Result<(), WebError> {
    let mut found = search::candidates(program.as_bytes(), path).map(|candidate| candidate.path());
    let is_program = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if found.any(|path| is_program(&path)) {
        return Ok(());
    }
    Err(WebError::NoProgram { program: program.to_owned() })
}

/// A process that imports an application, and does nothing else.
pub(crate) struct ImportCheck {
    /// The name of the application.
    pub(crate) name: String,
    /// The interpreter.
    pub(crate) python: PathBuf,
    /// Imports the application, and says on standard error why that is not possible.
    pub(crate) command: Command,
    /// The longest time that it takes.
    pub(crate) timeout: Duration,
}

impl ImportCheck {
    /// Runs the process to its end. Logs what it says if it fails.
    pub(crate) fn run(self) -> Result<(), WebError> {
        let (name, path) = (self.name.clone(), self.python.clone());
        let cannot = |source| WebError::Path { path, what: "the interpreter cannot run", source };
        let Some((why, said)) = self.failure().map_err(cannot)? else { return Ok(()) };
        if !said.is_empty() {
            tracing::error!(name, "{}", one_record(&said));
        }
        Err(WebError::Application { name, why })
    }

    /// Why the application cannot be imported, and all that the process says; `None` if it can.
    fn failure(mut self) -> io::Result<Option<(String, String)>> {
        let mut said = tempfile::tempfile()?;
        self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?);
        let mut child = self.command.spawn()?;
        let is_late = !is_readable(child.pidfd()?, self.timeout)?;
        if is_late {
            child.kill()?;
        }
        let status = child.wait()?;
        if status.success() {
            return Ok(None);
        }
        let said = read_words(&mut said)?;
        let why = match last_line(&said) {
            _ if is_late => format!("the import takes longer than {} s", self.timeout.as_secs_f64()),
            Some(line) if status.code().is_some() => line.to_owned(),
            _ => format!("the interpreter has ended with {status}"),
        };
        Ok(Some((why, said)))
    }
}

/// Whether a descriptor becomes readable in time.
fn is_readable(descriptor: impl std::os::fd::AsFd, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut polled, Some(&timeout)))? > 0)
}

fn read_words(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow::Pool;

    fn import(script: &str, timeout: Duration) -> Result<(), WebError> {
        let mut command = Pool::builder().recycle(false).build().command("/bin/sh");
        command.args(["-c", script]);
        let (name, python) = ("app:app".to_owned(), "/bin/sh".into());
        ImportCheck { name, python, command, timeout }.run()
    }

    #[test]
    fn a_program_is_a_file_that_can_be_executed() {
        assert!(check_program(OsStr::new("/bin/sh"), None).is_ok());
        assert!(check_program(OsStr::new("sh"), Some(b"/nowhere:/bin")).is_ok());
        for (program, path) in [("sh", "/nowhere"), ("/bin", "/bin"), ("/etc/passwd", "/bin"), ("", "/bin")] {
            let error = check_program(OsStr::new(program), Some(path.as_bytes())).expect_err(program);
            assert!(error.to_string().starts_with(&format!("{program}: ")), "{error}");
        }
    }

    #[test]
    fn a_failure_has_the_last_words_of_the_interpreter_or_its_end() {
        let long = Duration::from_secs(3600);
        assert!(import("echo warning >&2", long).is_ok());
        let why = |script, timeout| import(script, timeout).expect_err("no import").to_string();
        assert_eq!(
            why("echo Traceback: >&2; echo Error: no >&2; exit 1", long),
            "app:app cannot be loaded: Error: no"
        );
        assert!(
            why("kill -SEGV $$", long).ends_with("signal: 11 (SIGSEGV)"),
            "{}",
            why("kill -SEGV $$", long)
        );
        assert!(why("exec sleep 3600", Duration::from_millis(1)).ends_with("takes longer than 0.001 s"));
    }
}
