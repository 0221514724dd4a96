//! Scripts that name their interpreter with `#!`, by the kernel's rules (`binfmt_script`).
//!
//! A recycled run of a script uses the image of the last interpreter, so the program and the
//! argument vector that the kernel would have made must be known beforehand:
//!
//! ```text
//! exec("dir/tool", ["tool", "x"])     dir/tool begins "#!/bin/sed  -f -n \n"
//!   program  /bin/sed
//!   argv     /bin/sed   "-f -n"   dir/tool   x
//!            interp.    argument  as given   argv[1..]; argv[0] is lost
//! ```
//!
//! The kernel looks at the first 256 bytes of the file, padded with NULs, and nothing else:
//!
//! - The line ends at the first newline, if no NUL comes before it. Blanks (space, tab) at both
//!   ends are dropped; the rest after the interpreter's name is one single argument.
//! - Without a newline the line is what the 256 bytes hold, less the last one. It counts only if
//!   a blank or NUL ends the interpreter's name, which otherwise might be cut off. A name or
//!   argument ends at a NUL. Blanks before the padding are not dropped: they end the argument, or
//!   make an *empty* one.
//! - An interpreter may be a script itself, up to five in a row.
//!
//! A relative interpreter is looked up in the working directory of the exec, never in `PATH`.
//! The set-id bits and file capabilities of a script do not count, those of its interpreter do.
//! The task's `comm` and `AT_EXECFN` come from the script, `/proc/self/exe` from the program.
//!
//! Formats registered with `binfmt_misc` go before scripts and are not looked at here.

#[cfg(test)]
pub(crate) mod lab;
#[cfg(test)]
mod tests;

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::program::resolve::error::ResolveError;
use crate::program::resolve::place::StartDirectory;

/// How many bytes of a file the kernel looks at (`BINPRM_BUF_SIZE`).
pub const HEAD_BYTES: usize = 256;

/// How many scripts may follow one another.
pub const MAX_SCRIPTS: usize = 5;

/// What exec makes of a path and an argument vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedScript {
    /// The program that is loaded in the end; its content has not been looked at beyond not
    /// being a script.
    pub program: PathBuf,
    /// The argument vector that it is given.
    pub argv: Vec<CString>,
    /// All scripts in the chain, the first one first, as exec opens them: relative paths are
    /// relative to the working directory of the exec. Empty when the path is no script.
    pub files: Vec<PathBuf>,
}

impl ResolvedScript {
    /// The program that `env` will execute, where a script's first line leaves it to find one (`#!/usr/bin/env python3`): a single word that is
    /// neither an option nor a variable. It changes nothing else for it.
    #[must_use]
    pub fn word_for_env(&self) -> Option<&OsStr> {
        let is_env = [Path::new("/usr/bin/env"), Path::new("/bin/env")].contains(&self.program.as_path());
        let word = self.argv.get(1).filter(|_| is_env && !self.files.is_empty())?.to_bytes();
        let is_plain =
            !word.starts_with(b"-") && !word.iter().any(|&byte| byte == b'=' || byte.is_ascii_whitespace());
        (is_plain && !word.is_empty()).then(|| OsStr::from_bytes(word))
    }
}

/// What the first line of a script says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstLine {
    /// The interpreter's path. It can be empty: exec then fails with `EACCES`.
    pub interpreter: Vec<u8>,
    /// The rest of the line.
    pub argument: Option<Vec<u8>>,
}

/// What the first bytes of a file make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptHead {
    /// It does not begin with `#!`.
    NoScript,
    /// It is a script for an interpreter.
    Script(FirstLine),
    /// It begins with `#!` but names no interpreter, or one that may be cut off. Exec fails with
    /// `ENOEXEC`.
    NoInterpreter,
}

/// A script on the way to the program.
struct ScriptStep {
    script: PathBuf,
    line: FirstLine,
}

/// Follows the interpreters from `path` to a program that is no script. `cwd` is the working
/// directory of the exec, the caller's own when `None`.
///
/// # Errors
///
/// The error that exec would give, see [`ResolveError::errno`]; or
/// [`ResolveError::Unreadable`] when exec could go on and this function cannot.
pub fn resolve_script_chain(
    path: &Path,
    argv: &[CString],
    cwd: Option<&Path>,
) -> Result<ResolvedScript, ResolveError> {
    let (program, steps) = follow(&StartDirectory::open(cwd)?, path)?;
    let mut argv = argv.to_vec();
    for step in &steps {
        // The kernel drops argv[0], of which it makes an empty one when there is none.
        argv.drain(..argv.len().min(1));
        let head = [Some(step.line.interpreter.as_slice()), step.line.argument.as_deref()];
        let script = step.script.as_os_str().as_bytes();
        let parts = head.into_iter().flatten().chain([script]);
        let parts = parts.map(CString::new).collect::<Result<Vec<_>, _>>();
        let parts = parts.map_err(|_| ResolveError::NulByte { name: path.as_os_str().to_owned() })?;
        argv.splice(0..0, parts);
    }
    Ok(ResolvedScript { program, argv, files: steps.into_iter().map(|step| step.script).collect() })
}

/// The file that exec of `path` would load in the end.
pub(crate) fn final_program(place: &StartDirectory, path: &Path) -> Result<PathBuf, ResolveError> {
    follow(place, path).map(|(program, _)| program)
}

fn follow(place: &StartDirectory, path: &Path) -> Result<(PathBuf, Vec<ScriptStep>), ResolveError> {
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(ResolveError::NulByte { name: path.as_os_str().to_owned() });
    }
    let mut steps: Vec<ScriptStep> = Vec::new();
    let mut current = path.to_owned();
    loop {
        check(place, &current, steps.last())?;
        if steps.len() > MAX_SCRIPTS {
            return Err(ResolveError::TooDeep { path: path.to_owned() });
        }
        match read_head(place, &current)? {
            ScriptHead::NoScript => return Ok((current, steps)),
            ScriptHead::NoInterpreter => return Err(ResolveError::NoInterpreter { script: current }),
            ScriptHead::Script(line) => {
                let interpreter = PathBuf::from(OsString::from_vec(line.interpreter.clone()));
                steps.push(ScriptStep { script: std::mem::replace(&mut current, interpreter), line });
            }
        }
    }
}

/// Checks the file itself, or the interpreter that the last step named.
fn check(place: &StartDirectory, path: &Path, last: Option<&ScriptStep>) -> Result<(), ResolveError> {
    let path = path.to_owned();
    let Some(step) = last else {
        return place.check_executable(&path).map_err(|errno| ResolveError::File { path, errno });
    };
    let script = step.script.clone();
    let failed = |errno| ResolveError::Interpreter { script, interpreter: path.clone(), errno };
    place.check_interpreter(&path).map_err(failed)
}

fn read_head(place: &StartDirectory, path: &Path) -> Result<ScriptHead, ResolveError> {
    let unreadable = |errno| ResolveError::Unreadable { path: path.to_owned(), errno };
    let file = place.open_file(path).map_err(unreadable)?;
    let mut head = [0; HEAD_BYTES];
    let mut filled = 0;
    while let Some(rest) = head.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(&file, rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(unreadable(errno)),
        }
    }
    Ok(parse_head(&head))
}

/// Reads the first line as the kernel does. `head` is the beginning of a file; bytes beyond
/// [`HEAD_BYTES`] do not count.
#[must_use]
pub fn parse_head(head: &[u8]) -> ScriptHead {
    let mut padded = [0; HEAD_BYTES];
    for (to, from) in padded.iter_mut().zip(head) {
        *to = *from;
    }
    let Some(rest) = padded.strip_prefix(b"#!") else { return ScriptHead::NoScript };
    match line_of(rest).and_then(split_line) {
        Some(line) => ScriptHead::Script(line),
        None => ScriptHead::NoInterpreter,
    }
}

/// The part of the padded bytes that the name and the argument are taken from, without blanks at
/// its end.
fn line_of(rest: &[u8]) -> Option<&[u8]> {
    let end = rest.iter().position(|byte| matches!(byte, b'\n' | 0));
    let line = match end {
        Some(end) if rest.get(end) == Some(&b'\n') => rest.get(..end)?,
        _ => {
            let name = rest.get(rest.iter().position(|byte| !is_blank(byte))?..)?;
            name.iter().position(ends_word)?;
            // The last byte is where the kernel puts its NUL.
            rest.split_last()?.1
        }
    };
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    line.get(..end)
}

fn split_line(line: &[u8]) -> Option<FirstLine> {
    let line = line.get(line.iter().position(|byte| !is_blank(byte))?..)?;
    let end = line.iter().position(ends_word).unwrap_or(line.len());
    let (name, rest) = line.split_at_checked(end)?;
    let mut argument = None;
    if rest.first().is_some_and(is_blank) {
        let rest = rest.get(rest.iter().position(|byte| !is_blank(byte))?..)?;
        let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        argument = Some(rest.get(..end)?.to_vec());
    }
    Some(FirstLine { interpreter: name.to_vec(), argument })
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn ends_word(byte: &u8) -> bool {
    is_blank(byte) || *byte == 0
}
