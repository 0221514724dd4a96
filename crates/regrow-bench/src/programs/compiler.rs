//! Compiles the small C programs that the benchmark brings along, with the system's `cc`.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Why a program cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// There is no compiler.
    #[error("cc is not installed")]
    NoCompiler,
    /// The compiler does not start.
    #[error("cc cannot be started")]
    Start {
        /// What the system said.
        source: io::Error,
    },
    /// The compiler refuses the sources.
    #[error("cc fails: {told}")]
    Source {
        /// The first line that it wrote.
        told: String,
    },
}

/// Compiles `sources` to `output`.
pub(crate) fn compile(flags: &[&str], sources: &[&Path], output: &Path) -> Result<(), CompileError> {
    let mut compiler = Command::new("cc");
    compiler.args(flags).arg("-o").arg(output).args(sources).stdin(Stdio::null());
    match compiler.output() {
        Ok(compiled) if compiled.status.success() => Ok(()),
        Ok(compiled) => {
            let text = String::from_utf8_lossy(&compiled.stderr);
            Err(CompileError::Source { told: text.lines().next().unwrap_or_default().to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(CompileError::NoCompiler),
        Err(source) => Err(CompileError::Start { source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_first_words_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let (source, output) = (folder.path().join("wrong.c"), folder.path().join("wrong"));
        std::fs::write(&source, "#error not today\n").unwrap();
        let error = compile(&[], &[&source], &output).unwrap_err();
        assert!(matches!(&error, CompileError::Source { told } if told.contains("not today")), "{error}");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        compile(&["-O2"], &[&source], &output).unwrap();
        assert!(output.exists());
    }
}
