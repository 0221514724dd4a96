//! Images of front ends (`docs/warm.md`): how one is made, and the order that a run in it is given.
//!
//! ```text
//!  the run's environment ──> the part that belongs to the key ──> the front end prepares itself ──> stop
//!            ^                                                          │ names that it has read besides
//!            └──────────────── again, with those as well ───────────────┘
//! ```
//!
//! A front end is given the variables of its image's key and no others, so that an image holds nothing of one run's environment
//! that another run has not. Which those are is learned by making it: what it asks for and was not given makes it be made again.

use std::ffi::{CStr, OsString};
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use regrow_abi::WARM_FD;
use regrow_front::{order, perl, python, report};
use regrow_image::envkey::KeyNames;
use regrow_image::image::Image;

use crate::creation::{Fallback, Point};
use crate::maker::{self, Job, as_path};
use crate::program::Resolved;
use crate::request::{Request, Strings, Warm};

/// How often an image is made again because more variables were read. Each time adds names, of which there are few.
const MAX_ATTEMPTS: usize = 5;

/// Makes the image of a front end. Gives the names that belong to its key too.
pub(crate) fn make_image(
    job: &Job,
    env: &[&CStr],
    front_end: &FrontEnd,
) -> Result<(Image, KeyNames), Fallback> {
    let warm = front_end.execution()?;
    // Its own variables it is given by whoever starts it.
    let env: Vec<&CStr> = env.iter().copied().filter(|entry| !is_own(entry)).collect();
    let mut names = KeyNames::default().and_of_front_end(&warm.variables);
    for _ in 0..MAX_ATTEMPTS {
        let given = names.select(env.iter().copied());
        let image = maker::attempt(job, &given, Point::Warm, true, Some(&warm));
        let mut image = image.map_err(maker::fallback)?;
        let report = report::parse(&image.report)
            .map_err(|error| Fallback::ImageFailed { detail: format!("its report: {error}") })?;
        let mut read: Vec<Vec<u8>> = image.learned.clone();
        read.extend(report.env);
        if report.all_env {
            read.push(b"*".to_vec());
        }
        names =
            KeyNames::with_learned(&image.learned).and_of_front_end(&warm.variables).and_of_front_end(&read);
        if names.select(env.iter().copied()) == given {
            let paths = |list: Vec<Vec<u8>>| list.into_iter().map(|path| OsString::from_vec(path).into());
            image.dependencies.files.extend(paths(report.files));
            image.dependencies.absent.extend(paths(report.absent));
            return Ok((image, names));
        }
    }
    Err(Fallback::ImageFailed { detail: "it reads more variables each time it is prepared".to_owned() })
}

/// Which front end an image is of: part of its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FrontEnd {
    /// The caller's own.
    Own(Arc<Warm>),
    /// The one for Python.
    Python(Arc<python::Plan>),
    /// The one for Perl.
    Perl(Arc<perl::Plan>),
}

impl FrontEnd {
    /// The front end to try where there can be no image of this one.
    pub(crate) fn plainer(&self) -> Option<FrontEnd> {
        match self {
            FrontEnd::Perl(plan) => plan.without_compiling().map(|plan| FrontEnd::Perl(Arc::new(plan))),
            FrontEnd::Own(_) | FrontEnd::Python(_) => None,
        }
    }

    /// What it has loaded when it stops, in words; nothing where only its caller knows.
    pub(crate) fn loaded(&self) -> Option<String> {
        let loaded = match self {
            FrontEnd::Own(_) => return None,
            FrontEnd::Python(plan) => plan.loaded(),
            FrontEnd::Perl(plan) => plan.loaded(),
        };
        Some(loaded).filter(|loaded| !loaded.is_empty())
    }

    /// How it is executed.
    pub(crate) fn execution(&self) -> Result<Arc<Warm>, Fallback> {
        let (args, names) = match self {
            FrontEnd::Own(warm) => return Ok(Arc::clone(warm)),
            FrontEnd::Python(plan) => (plan.args(), &python::NAMES),
            FrontEnd::Perl(plan) => (plan.args(), &perl::NAMES),
        };
        let mut strings = Strings::new();
        args.map_err(|_| Fallback::UnsupportedRequest)?.iter().for_each(|arg| strings.push_c_str(arg));
        Ok(Arc::new(Warm { args: strings, variables: names.patterns(), directory: None }))
    }
}

/// The front end that Regrow has for a program, if it has one.
pub(crate) fn of_program(resolved: &Resolved, request: &Request) -> Option<FrontEnd> {
    let path = as_path(&resolved.file);
    let name = path.file_name()?.as_bytes();
    // Most programs are none that it knows.
    let (is_python, is_perl) = (name.starts_with(b"python"), name.starts_with(b"perl"));
    if !is_python && !is_perl {
        return None;
    }
    let arguments = resolved.arguments(request);
    let argv: Vec<&[u8]> = arguments.iter().map(CStr::to_bytes).collect();
    let variable = |name: &str| request.env_value(name.as_bytes());
    if is_python {
        let plan = python::plan(path, &argv, variable, &preload(request, "python:"))?;
        return Some(FrontEnd::Python(Arc::new(plan)));
    }
    let has_variable = |name: &str| variable(name).is_some();
    let plan = perl::plan(path, &argv, has_variable, &preload(request, "perl:"), request.compile)?;
    Some(FrontEnd::Perl(Arc::new(plan)))
}

/// The modules that a request names for a language: those that begin with its name and a colon, and those that name no language.
fn preload(request: &Request, language: &str) -> Vec<String> {
    let of_language = |name: &String| {
        let word = name.find(|letter: char| !letter.is_ascii_alphanumeric()).map_or("", |end| &name[end..]);
        if !word.starts_with(':') || word.starts_with("::") {
            return Some(name.clone());
        }
        name.strip_prefix(language).map(str::to_owned)
    };
    request.preload.iter().filter_map(of_language).collect()
}

/// Whether an entry of an environment is one of the variables that front ends are told of their descriptor by.
fn is_own(entry: &CStr) -> bool {
    let names = [regrow_front::WARM_VARIABLE, regrow_front::ORDER_VARIABLE];
    names.iter().any(|name| {
        entry.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
    })
}

/// The order of a run, as a descriptor; `None` where the request passes one.
pub(crate) fn order(
    fds: &[(BorrowedFd<'_>, i32)],
    arguments: &Strings,
    env: &Strings,
) -> Result<Option<OwnedFd>, Fallback> {
    if fds.iter().any(|fd| fd.1 == WARM_FD) {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(arguments.as_bytes().len() + env.as_bytes().len() + 64);
    order::write(order::strings(arguments.as_bytes()), order::strings(env.as_bytes()), &[], &mut bytes);
    let file = regrow_sys::raw::memfd("regrow-order", 0).map(File::from);
    // Its offset stays at the start: the front end reads it from there.
    let written = file.and_then(|file| file.write_all_at(&bytes, 0).map(|()| file));
    written.map(|file| Some(file.into())).map_err(|_| Fallback::NoDescriptors)
}
