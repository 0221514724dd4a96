//! What an interpreter is started with, and what it prepares before its first run.
//!
//! ```text
//!   a command line   python3 OPTIONS WORDS                                    in the image of Regrow's own front end, or not
//!   a call           python3 OPTIONS -c FRONT SKIP PREPARATION  ──stops──>    the image
//!                    python3 OPTIONS -c START                   ──order──>    the run, in the image or without one
//! ```
//!
//! The front end and its words are those of docs/warm.md. `START` has the front end and its words read from a file of this
//! process: they are long, and a run that is recycled is given the arguments of its command without having any use of them.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use regrow::{Command, Strings, Warm};
use regrow_front::python::{FRONT, NAMES};
use regrow_front::{DESCRIPTOR, ORDER_VARIABLE, order};
use regrow_sys::environ;
use rustix::fs::MemfdFlags;

use crate::errors::os_error;
use crate::files;
use crate::runner::{CALL, PROCESS};
use crate::tasks::TASK;

/// What the arguments of a call have, and the first line of its order.
const USUAL_ARGUMENTS: usize = 512;

/// An interpreter, its options, and what it prepares: for calls the words of the front end after `SKIP`, for command lines
/// the modules that are imported. `variables` are names of variables that it reads beside those that it is seen to read
/// (`*`: all), `directory` where it may read relative paths: the caller's. `unfollowed` has the image depend on none of the files that
/// it reads, for a caller who drops the image himself: `variables` are all that it reads then.
#[pyclass(frozen, name = "Image", module = "regrow._core")]
pub(crate) struct PyImage {
    program: OsString,
    options: Vec<OsString>,
    preload: Vec<String>,
    front_end: Arc<Warm>,
    /// The front end and its words, each ended by a NUL.
    start: OwnedFd,
}

#[pymethods]
impl PyImage {
    #[new]
    #[pyo3(signature = (program, options, preparation, *, preload = vec![], variables = vec![], directory = None,
                        unfollowed = false))]
    fn new(
        program: OsString,
        options: Vec<OsString>,
        preparation: Vec<OsString>,
        preload: Vec<String>,
        variables: Vec<String>,
        directory: Option<PathBuf>,
        unfollowed: bool,
    ) -> PyResult<Self> {
        let mut preparation = preparation;
        preparation.extend(unfollowed.then(|| OsString::from("--unfollowed")));
        let image = Self::described(program, options, preparation, preload);
        let mut image = image
            .and_then(|image| image.that_reads(variables, directory))
            .map_err(|error| os_error(&error))?;
        Arc::make_mut(&mut image.front_end).unfollowed = unfollowed;
        Ok(image)
    }
}

impl PyImage {
    fn described(
        program: OsString,
        options: Vec<OsString>,
        preparation: Vec<OsString>,
        preload: Vec<String>,
    ) -> io::Result<Self> {
        let words = [OsString::from((1 + options.len()).to_string())].into_iter().chain(preparation);
        let words: Vec<OsString> = words.collect();
        let mut args = strings(&options)?;
        args.push(&[b"-c"])?;
        args.push(&[FRONT.as_bytes()])?;
        let mut start = [FRONT.as_bytes(), b"\0"].concat();
        for word in &words {
            args.push(&[word.as_bytes()])?;
            start.extend_from_slice(word.as_bytes());
            start.push(0);
        }
        let front_end = Arc::new(Warm { args, variables: NAMES.patterns(), ..Warm::default() });
        Ok(Self { program, options, preload, front_end, start: front_file(&start)? })
    }

    /// Has the front end be one that reads these variables in any case, and relative paths in this directory.
    fn that_reads(mut self, variables: Vec<String>, directory: Option<PathBuf>) -> io::Result<Self> {
        let warm = Arc::make_mut(&mut self.front_end);
        warm.variables.extend(variables.into_iter().map(String::into_bytes));
        let directory = directory.map(|path| CString::new(path.into_os_string().into_vec()));
        warm.directory = directory.transpose().map_err(io::Error::from)?;
        Ok(self)
    }

    /// The interpreter.
    pub(crate) fn program(&self) -> &OsStr {
        &self.program
    }

    /// Has a command be a command line of the interpreter, with these words after the options.
    pub(crate) fn command_line(&self, command: &mut Command, words: &[OsString]) {
        command.args(&self.options).args(words).preload(&self.preload);
    }

    /// Whether an order with these bytes is one that a runner takes out of the exchange: it needs no file then, unless there is no body.
    pub(crate) fn is_for_runner(payload: &[u8]) -> bool {
        let rest = [CALL, TASK, PROCESS].iter().find_map(|kind| payload.strip_prefix(*kind));
        rest.is_some_and(|rest| !rest.is_empty())
    }

    /// Has a command be a call, which has these words as `sys.argv`. Its order is written to an empty file, where it is given one.
    pub(crate) fn call(
        &self,
        command: &mut Command,
        words: &[OsString],
        payload: &[u8],
        file: Option<&OwnedFd>,
    ) -> io::Result<()> {
        command.args(&self.options).arg("-c").arg(self.starter());
        command.env(ORDER_VARIABLE, DESCRIPTOR.to_string());
        let order = self.order(words, payload);
        match file {
            Some(file) => {
                files::write_all(file, &order)?;
                command.fd(file.try_clone()?, DESCRIPTOR);
            }
            None => {
                command.order(order);
            }
        }
        command.warm(Arc::clone(&self.front_end));
        Ok(())
    }

    /// A program that becomes the front end.
    fn starter(&self) -> String {
        let (process, number) = (std::process::id(), self.start.as_raw_fd());
        format!(
            "import sys\nsys.argv[1:] = open('/proc/{process}/fd/{number}', encoding=sys.getfilesystemencoding(), \
             errors='surrogateescape', newline='').read().split('\\0')[:-1]\nexec(sys.argv.pop(1))"
        )
    }

    /// The order of a call.
    fn order(&self, words: &[OsString], payload: &[u8]) -> Vec<u8> {
        let argv = [&self.program].into_iter().chain(&self.options).chain(words);
        let environment = environ::current();
        let variables = environment.iter().map(CStr::to_bytes).filter(|entry| is_variable(entry));
        let mut bytes = Vec::with_capacity(environment.as_bytes().len() + payload.len() + USUAL_ARGUMENTS);
        order::write(argv.map(|word| word.as_bytes()), variables, payload, &mut bytes);
        bytes
    }
}

/// Whether an entry of an environment is `NAME=VALUE`. A name may begin with `=`.
fn is_variable(entry: &[u8]) -> bool {
    entry.iter().skip(1).any(|&byte| byte == b'=')
}

fn strings(words: &[OsString]) -> io::Result<Strings> {
    let mut strings = Strings::new();
    for word in words {
        strings.push(&[word.as_bytes()])?;
    }
    Ok(strings)
}

/// A file in memory with the front end and its words.
fn front_file(content: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("regrow-front", MemfdFlags::CLOEXEC)?;
    files::write_all(&file, content)?;
    Ok(file)
}
