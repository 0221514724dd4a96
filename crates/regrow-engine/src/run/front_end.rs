//! Which front end a run has, and the order that it gives to it (`docs/warm.md`).
//!
//! A caller brings a front end of its own, or Regrow has one for the program's language.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use regrow_front::DESCRIPTOR;
use regrow_front::language::{CommandLine, Plan};
use regrow_front::{languages, order};

use regrow_sys::strings::Strings;

use crate::run::creation::{Fallback, RequestPart};
use crate::run::request::{Request, Warm};

/// Which front end an image is of: part of its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FrontEnd {
    /// The caller's own.
    Own(Arc<Warm>),
    /// The one that Regrow has for a language.
    OfLanguage(Arc<Plan>),
}

impl FrontEnd {
    /// The one that Regrow has for a program, if it has one. `file` is what exec loads, `arguments` gives the run's argument vector.
    pub(crate) fn of_program(
        file: &CStr,
        arguments: impl FnOnce() -> Strings,
        request: &Request,
    ) -> Option<FrontEnd> {
        let file_name = Path::new(OsStr::from_bytes(file.to_bytes())).file_name()?;
        let language = languages::of_interpreter(file_name.as_bytes())?;
        let arguments = arguments();
        let argv: Vec<&[u8]> = arguments.iter().map(CStr::to_bytes).collect();
        let plan = (language.plan)(CommandLine {
            argv: &argv,
            variable: &|name| request.env_value(name.as_bytes()),
            modules: language.modules(&request.preload),
            compile: request.compile,
        })?;
        Some(FrontEnd::OfLanguage(Arc::new(plan)))
    }

    /// The front end to try where there can be no image of this one.
    pub(crate) fn plainer(&self) -> Option<FrontEnd> {
        match self {
            FrontEnd::Own(_) => None,
            FrontEnd::OfLanguage(plan) => plan.plainer().map(FrontEnd::OfLanguage),
        }
    }

    /// What it has loaded when it stops, in words; `None` where only its caller knows.
    pub(crate) fn loaded(&self) -> Option<String> {
        match self {
            FrontEnd::Own(_) => None,
            FrontEnd::OfLanguage(plan) => Some(plan.loaded()).filter(|loaded| !loaded.is_empty()),
        }
    }

    /// Whether it loads modules that a request names.
    pub(crate) fn loads_modules_of(&self, request: &Request) -> bool {
        match self {
            FrontEnd::Own(_) => false,
            FrontEnd::OfLanguage(plan) => request.preload.iter().any(|name| plan.language().has_module(name)),
        }
    }

    /// How it is executed.
    pub(crate) fn execution(&self) -> Result<Arc<Warm>, Fallback> {
        let plan = match self {
            FrontEnd::Own(warm) => return Ok(Arc::clone(warm)),
            FrontEnd::OfLanguage(plan) => plan,
        };
        let arguments = plan
            .arguments()
            .map_err(|_| Fallback::UnsupportedRequest { what: RequestPart::FrontEndArguments })?;
        let mut args = Strings::new();
        arguments.iter().for_each(|argument| args.push_c_str(argument));
        let variables = plan.language().variables.patterns();
        Ok(Arc::new(Warm { args, variables, ..Warm::default() }))
    }
}

/// Why the modules that a request names are not loaded ahead, where there is no front end that could.
pub(crate) fn not_loaded(front_end: Option<&FrontEnd>, request: &Request) -> Option<String> {
    let is_for_any = |name: &String| languages::LANGUAGES.iter().all(|language| language.has_module(name));
    (front_end.is_none() && request.preload.iter().any(is_for_any))
        .then(|| "there is no front end for this program with these arguments".to_owned())
}

/// The order of a run, as a descriptor; `None` where the request passes one.
pub(crate) fn order(
    fds: &[(BorrowedFd<'_>, i32)],
    arguments: &Strings,
    env: &Strings,
) -> Result<Option<OwnedFd>, Fallback> {
    if fds.iter().any(|fd| fd.1 == DESCRIPTOR) {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(arguments.as_bytes().len() + env.as_bytes().len() + 64);
    order::write(order::strings(arguments.as_bytes()), order::strings(env.as_bytes()), &[], &mut bytes);
    let file = regrow_sys::raw::memfd("regrow-order", 0).map(File::from);
    // Its offset stays at the start: the front end reads it from there.
    let written = file.and_then(|file| file.write_all_at(&bytes, 0).map(|()| file));
    written.map(|file| Some(file.into())).map_err(|_| Fallback::NoDescriptors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    fn strings(words: &[&str]) -> Strings {
        let mut strings = Strings::new();
        words.iter().for_each(|word| strings.push(&[word.as_bytes()]).expect("no NUL"));
        strings
    }

    fn of_perl(file: &CStr, compile: bool) -> Option<FrontEnd> {
        let mut request = Request::new(file.to_owned());
        request.preload = vec!["CGI".to_owned(), "python:json".to_owned()];
        request.compile = compile;
        FrontEnd::of_program(file, || strings(&["perl", "/a.pl"]), &request)
    }

    #[test]
    fn a_front_end_is_of_its_programs_language() {
        let front_end = of_perl(c"/usr/bin/perl", false).expect("a front end");
        assert_eq!(front_end.loaded().as_deref(), Some("/a.pl,CGI"));
        let warm = front_end.execution().expect("its arguments");
        assert!(warm.args.iter().any(|argument| argument.to_bytes() == b"/a.pl"));
        assert!(warm.variables.contains(&b"PERL*".to_vec()));
        assert_eq!(of_perl(c"/bin/cat", false), None);
    }

    #[test]
    fn arguments_are_asked_for_where_there_is_a_language() {
        let request = Request::new(c"/bin/cat".to_owned());
        assert_eq!(FrontEnd::of_program(c"/bin/cat", || panic!("they are not needed"), &request), None);
    }

    #[test]
    fn a_plainer_front_end_is_that_of_a_plainer_request() {
        let compiled = of_perl(c"/usr/bin/perl", true).expect("a front end");
        assert_eq!(compiled.plainer(), of_perl(c"/usr/bin/perl", false));
        assert_eq!(compiled.plainer().and_then(|plainer| plainer.plainer()), None);
        let own = Warm { args: strings(&["-x"]), variables: Vec::new(), ..Warm::default() };
        let own = FrontEnd::Own(Arc::new(own));
        assert_eq!((own.plainer(), own.loaded()), (None, None));
    }

    #[test]
    fn an_order_is_written_unless_the_caller_passes_one() {
        let (arguments, env) = (strings(&["a", "b"]), strings(&["A=1", "REGROW_WARM=1"]));
        let written = order(&[], &arguments, &env).expect("memory").expect("an order");
        let mut text = String::new();
        File::from(written).read_to_string(&mut text).expect("its text");
        assert_eq!(text, "regrow 1 2 1 0\na\0b\0A=1\0");
        let null = File::open("/dev/null").expect("a file");
        let passed = order(&[(null.as_fd(), DESCRIPTOR)], &arguments, &env).expect("memory");
        assert!(passed.is_none());
    }
}
