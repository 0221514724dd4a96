//! A small process that creates others: what is timed where a creation is looked at. The benchmark's own processes are large, and a copy of one takes
//! longer than all that is to be seen.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::error::BenchError;
use crate::programs::compiler::compile;
use crate::programs::list::compile_static;

const SOURCE: &str = include_str!("creator.c");
/// Creations that are timed in a turn, and those before them.
pub(super) const TIMED: u64 = 400;
pub(super) const WARM: u64 = 50;

/// How it creates: the words of a row, and its own.
pub(super) const WAYS: [(&str, &str); 3] = [
    ("fork, exit, wait", "fork"),
    ("vfork, exit, wait", "vfork"),
    ("posix_spawn of a static program, exit, wait", "spawn"),
];

/// The program, compiled.
pub(super) struct Creator {
    folder: TempDir,
    child: PathBuf,
}

impl Creator {
    pub(super) fn compile() -> Result<Creator, BenchError> {
        let folder = tempfile::tempdir().map_err(BenchError::system("a temporary folder cannot be made"))?;
        let source = folder.path().join("creator.c");
        std::fs::write(&source, SOURCE).map_err(BenchError::system("a source cannot be written"))?;
        let failed = BenchError::system("creator.c cannot be compiled");
        compile(&["-O2"], &[&source], &program(folder.path()))
            .map_err(|error| failed(std::io::Error::other(error)))?;
        let nothing = folder.path().join("nothing.c");
        std::fs::write(&nothing, "int nothing_is_here;\n")
            .map_err(BenchError::system("a source cannot be written"))?;
        let failed = BenchError::system("an empty library cannot be compiled");
        compile(&["-shared", "-fPIC"], &[&nothing], &empty_library(folder.path()))
            .map_err(|error| failed(std::io::Error::other(error)))?;
        let child = compile_static(folder.path())
            .map_err(|why| BenchError::system("a program cannot be compiled")(std::io::Error::other(why)))?;
        Ok(Creator { folder, child })
    }

    /// A turn, to be started; its standard output is to be [`read`].
    pub(super) fn command(&self, way: &str) -> Command {
        let mut command = Command::new(program(self.folder.path()));
        command.arg(way).arg(TIMED.to_string()).arg(&self.child).stdout(Stdio::piped());
        command
    }

    /// The same with a preloaded library in which there is nothing.
    pub(super) fn turn_with_empty_library(&self, way: &str) -> Result<f64, BenchError> {
        let mut command = self.command(way);
        let ran = command.env("LD_PRELOAD", empty_library(self.folder.path())).output().map_err(failed())?;
        read(&ran.stdout, way)
    }

    /// A turn: the median of its creations, in microseconds.
    pub(super) fn turn(&self, way: &str) -> Result<f64, BenchError> {
        let ran = self.command(way).output().map_err(failed())?;
        read(&ran.stdout, way)
    }
}

fn empty_library(folder: &Path) -> PathBuf {
    folder.join("nothing.so")
}

fn program(folder: &Path) -> PathBuf {
    folder.join("creator")
}

/// What it prints, in microseconds.
pub(super) fn read(output: &[u8], way: &str) -> Result<f64, BenchError> {
    let text = String::from_utf8_lossy(output);
    let ns = text.trim().parse::<f64>().ok().filter(|&ns| ns > 0.0);
    ns.map(|ns| ns / 1000.0).ok_or_else(|| BenchError::WrongRun {
        program: format!("a process that creates others by {way}"),
        what: format!("it printed {text:?}"),
    })
}

pub(super) fn failed() -> impl FnOnce(std::io::Error) -> BenchError {
    BenchError::system("a process cannot be created")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_creates_and_takes_time() -> Result<(), BenchError> {
        let creator = Creator::compile()?;
        for (_, way) in WAYS {
            assert!(creator.turn(way)? > 1.0, "{way}");
        }
        assert!(creator.turn("no way").is_ok(), "any other word is spawn");
        assert!(read(b"", "fork").is_err() && read(b"0\n", "fork").is_err());
        Ok(())
    }
}
