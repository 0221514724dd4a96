//! What a request runs: the file that exec would load, and the rest of the image's key.

use std::borrow::Cow;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use regrow_image::resolve::{self, FoundProgram, ResolveError, find_program};
use regrow_image::script::{ResolvedScript as Chain, resolve_script_chain};

use regrow_sys::search;
use regrow_sys::strings::Strings;

use crate::run::creation::{Fallback, RequestPart};
use crate::run::front_end::FrontEnd;
use crate::run::request::Request;

/// Room for the arguments that come before the request's own.
const ARGUMENTS_BYTES: usize = 256;

/// A name of more bytes, the search path included, is left to exec: to look it up takes long, and so much of it is not kept.
const MAX_NAME_BYTES: usize = 16 * 1024;

/// What names a program in a request: the answer to these questions never changes unless a watched file does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name<'a> {
    pub(crate) program: Cow<'a, CStr>,
    pub(crate) arg0: Option<Cow<'a, CStr>>,
    /// `PATH`, in which the program is looked for, or what a script has `env` look for.
    pub(crate) path: Option<Cow<'a, [u8]>>,
    /// The directory that relative paths are relative to; `None` when nothing is relative.
    pub(crate) directory: Option<PathBuf>,
}

impl<'a> Name<'a> {
    /// Of a request. `Err` when the working directory cannot be told, or it is too long.
    pub(crate) fn of(request: &'a Request) -> Result<Name<'a>, Fallback> {
        let program = request.program.to_bytes();
        let path = request.env_value(b"PATH");
        let is_relative = |element: &[u8]| element.first() != Some(&b'/');
        let is_in_path = |path: &[u8]| search::elements(path).any(is_relative);
        let relative = program.contains(&b'/') && is_relative(program) || path.is_some_and(is_in_path);
        let directory = if relative { Some(working_directory(request)?) } else { None };
        let name = Name {
            program: Cow::Borrowed(&request.program),
            arg0: request.arg0.as_deref().map(Cow::Borrowed),
            path: path.map(Cow::Borrowed),
            directory,
        };
        if name.bytes() > MAX_NAME_BYTES {
            return Err(Fallback::UnsupportedRequest { what: RequestPart::LongName });
        }
        Ok(name)
    }

    /// How long it is.
    fn bytes(&self) -> usize {
        let directory = self.directory.as_ref().map_or(0, |directory| directory.as_os_str().len());
        let arg0 = self.arg0.as_ref().map_or(0, |arg0| arg0.count_bytes());
        self.program.count_bytes() + arg0 + self.path.as_ref().map_or(0, |path| path.len()) + directory
    }

    /// The same, borrowing nothing.
    pub(crate) fn into_owned(self) -> Name<'static> {
        Name {
            program: Cow::Owned(self.program.into_owned()),
            arg0: self.arg0.map(|arg0| Cow::Owned(arg0.into_owned())),
            path: self.path.map(|path| Cow::Owned(path.into_owned())),
            directory: self.directory,
        }
    }
}

fn working_directory(request: &Request) -> Result<PathBuf, Fallback> {
    let caller = || std::env::current_dir().map_err(|_| Fallback::ResolveError);
    match &request.current_dir {
        Some(directory) => {
            let directory = Path::new(OsStr::from_bytes(directory.to_bytes()));
            if directory.is_absolute() { Ok(directory.to_owned()) } else { Ok(caller()?.join(directory)) }
        }
        None => caller(),
    }
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// The path that exec is given, as a run sees it in `AT_EXECFN`.
    pub(crate) exec_path: CString,
    /// The absolute path of the ELF file: the program, or the interpreter of a script.
    pub(crate) file: CString,
    /// `argv[0]` of the run.
    pub(crate) argv0: CString,
    /// Arguments between `argv[0]` and those of the request: a script's interpreter gets them.
    pub(crate) extra: Vec<CString>,
    /// Files that decide this, and names where a file could appear that would.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) absent: Vec<PathBuf>,
}

impl Resolved {
    /// The arguments of a run before those of the request.
    pub(crate) fn first_arguments(&self) -> Strings {
        let mut strings = Strings::new();
        strings.push_c_str(&self.argv0);
        self.extra.iter().for_each(|extra| strings.push_c_str(extra));
        strings
    }

    /// The whole argument vector of a run, as one block.
    pub(crate) fn arguments(&self, request: &Request) -> Strings {
        let mut strings = Strings::with_capacity(ARGUMENTS_BYTES + request.args.as_bytes().len());
        strings.push_c_str(&self.argv0);
        self.extra.iter().for_each(|extra| strings.push_c_str(extra));
        strings.append(&request.args);
        strings
    }

    /// The script, where the program is one.
    pub(crate) fn script(&self) -> Option<&Path> {
        self.files.first().filter(|_| self.files.len() > 1).map(PathBuf::as_path)
    }

    /// Whether the path given to exec is not the image's own, so that the run must be told.
    pub(crate) fn own_exec_path(&self) -> Option<&[u8]> {
        (self.exec_path != self.file).then(|| self.exec_path.to_bytes())
    }
}

/// Finds the file that exec of a request would load.
pub(crate) fn resolve(request: &Request, name: &Name<'_>) -> Result<Resolved, Fallback> {
    let path_var = name.path.as_deref().map(OsStr::from_bytes);
    let directory = request.current_dir.as_ref().map(|dir| Path::new(OsStr::from_bytes(dir.to_bytes())));
    let found = find_program(request.program_name(), path_var, directory).map_err(|error| refused(&error))?;
    let argv = [request.argv0().to_owned()];
    let chain = resolve_script_chain(&found.path, &argv, directory).map_err(|error| refused(&error))?;
    let absolute = |path: &Path| match &name.directory {
        Some(directory) if path.is_relative() => directory.join(path),
        _ => path.to_owned(),
    };
    let searched = |found: &FoundProgram, name: &OsStr| -> Vec<PathBuf> {
        found.earlier_dirs.iter().map(|dir| absolute(dir).join(name)).collect()
    };
    let mut absent = searched(&found, request.program_name());
    let mut files: Vec<PathBuf> = Vec::new();
    let (mut found, mut chain) = (found, chain);
    if let Some((sought, behind)) = behind_env(&chain, path_var, directory) {
        absent.extend(chain.word_for_env().map(|word| searched(&sought, word)).unwrap_or_default());
        files.extend(chain.files.iter().chain([&chain.program]).map(|file| absolute(file)));
        (found, chain) = (sought, behind);
    }
    let program = absolute(&chain.program);
    files.extend(chain.files.iter().map(|file| absolute(file)));
    files.push(program.clone());
    let mut argv = chain.argv.into_iter();
    Ok(Resolved {
        exec_path: c_path(&found.path)?,
        file: c_path(&program)?,
        argv0: argv.next().unwrap_or_default(),
        extra: argv.collect(),
        files,
        absent,
    })
}

/// What `env` would execute for a script, and with which arguments; nothing where that is not certain, or would fail.
fn behind_env(
    chain: &Chain,
    path_var: Option<&OsStr>,
    directory: Option<&Path>,
) -> Option<(FoundProgram, Chain)> {
    let found = find_program(chain.word_for_env()?, path_var, directory).ok()?;
    let behind = resolve_script_chain(&found.path, chain.argv.get(1..)?, directory).ok()?;
    Some((found, behind))
}

fn c_path(path: &Path) -> Result<CString, Fallback> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Fallback::ResolveError)
}

fn refused(error: &ResolveError) -> Fallback {
    tracing::debug!(%error, "a program could not be looked up");
    Fallback::ResolveError
}

/// Why a file is not kept.
pub(crate) fn refusal(refusal: &resolve::FileRefusal) -> Fallback {
    use resolve::FileRefusal;
    tracing::debug!(%refusal, "a program is not kept");
    match refusal {
        FileRefusal::SetUid { .. } => Fallback::SetUid,
        FileRefusal::SetGid { .. } => Fallback::SetGid,
        FileRefusal::FileCapabilities { .. } | FileRefusal::UnknownCapabilities { .. } => {
            Fallback::FileCapabilities
        }
        FileRefusal::NotReadable { .. } => Fallback::NotReadable,
        FileRefusal::ForeignArchitecture { .. } => Fallback::ForeignArchitecture,
        FileRefusal::Malformed { .. } => Fallback::Malformed,
        FileRefusal::NotRegular { .. } => Fallback::NotRegular,
        FileRefusal::NoExecMount { .. } => Fallback::NoexecMount,
        FileRefusal::Changing { .. } => Fallback::ProgramChanged,
        FileRefusal::Unreachable { .. } | FileRefusal::NotExecutable { .. } => Fallback::ResolveError,
    }
}

/// What an image is of, beside the files: two requests with equal keys may share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key<'a> {
    pub(crate) file: Cow<'a, CStr>,
    pub(crate) argv0: Cow<'a, CStr>,
    /// Soft limit of the stack: libc keeps it at its start.
    pub(crate) stack_limit: u64,
    /// The front end that the file is executed with, for an image at `warm`.
    pub(crate) warm: Option<FrontEnd>,
    /// The signals that a front end ignores from its start, bit 0 is signal 1: what it makes of them it decides when it prepares
    /// itself. None at the other points, where each run is given its own.
    pub(crate) ignored: u64,
    /// The script whose runs alone the image is for; `None` where all that are started alike share it.
    pub(crate) script: Option<Cow<'a, Path>>,
}

impl Key<'_> {
    /// The same, borrowing nothing.
    pub(crate) fn into_owned(self) -> Key<'static> {
        Key {
            file: Cow::Owned(self.file.into_owned()),
            argv0: Cow::Owned(self.argv0.into_owned()),
            stack_limit: self.stack_limit,
            warm: self.warm,
            ignored: self.ignored,
            script: self.script.map(|script| Cow::Owned(script.into_owned())),
        }
    }
}

/// The strings of an environment.
pub(crate) fn env_strings(env: &Strings) -> Vec<&CStr> {
    env.iter().collect()
}
