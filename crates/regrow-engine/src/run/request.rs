//! Everything that one spawn asks for, owned.
//!
//! An interface (the `regrow` crate, the command line) resolves what its user said into a [`Request`]: strings hold no NUL
//! byte, the environment is the whole environment of the run, pipes are open. The engine then carries the request out in a
//! recycled body, or by exec. Both read the same fields through the same accessors, so that the run cannot tell which it
//! was.
//!
//! Invariants: no string of a request holds a NUL byte; the descriptors of a request stay open as long as it lives;
//! [`Request::descriptors`] names each target number once, in rising order.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use regrow_abi::task::Task;
use regrow_body::Run;
use regrow_front::DESCRIPTOR;
use regrow_sys::exec::{Hook, Identity};
use regrow_sys::search;
use regrow_sys::strings::Strings;
use rustix::io::FdFlags;

use crate::run::creation::RequestPart;

/// What one of the three standard descriptors of a run is.
#[derive(Debug, Clone)]
pub enum StdioFd {
    /// The descriptor of the same number of the caller, if that is open and is not marked close-on-exec.
    Inherit,
    /// This descriptor.
    Given(Arc<OwnedFd>),
    /// Nothing: the number is free when the run starts.
    Closed,
}

/// A descriptor that a run has beside the three standard ones.
#[derive(Debug, Clone)]
pub struct ExtraFd {
    /// The descriptor in the caller.
    pub source: Arc<OwnedFd>,
    /// Its number in the run. A number below three replaces the standard descriptor.
    pub target: RawFd,
}

/// A front end (`docs/warm.md`): how the program is to be executed once to prepare itself for many runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Warm {
    /// Its arguments after `argv[0]`. The program is that of the request.
    pub args: Strings,
    /// The variables that it reads in any case: part of the image's key, as all others that it is seen to read. A name that
    /// ends with `*` stands for all that begin so.
    pub variables: Vec<Vec<u8>>,
    /// The directory in which it may read relative paths: part of the key. It must be the caller's when the image is made.
    pub directory: Option<CString>,
    /// Whether nobody looks at its system calls: the image is made in less time, and depends on no file that the front end reads. The
    /// front end stops itself once more, as soon as it has prepared itself (`--unfollowed`).
    pub unfollowed: bool,
}

/// An order for a front end of the caller's own. It goes through memory that a body and its caller share, where the front end takes it
/// there, and in a file else.
#[derive(Debug)]
pub struct WarmOrder {
    bytes: Arc<Vec<u8>>,
    file: OnceLock<OwnedFd>,
}

impl WarmOrder {
    /// An order of these bytes, for one run: a front end that reads the file moves its offset.
    #[must_use]
    pub fn new(bytes: Arc<Vec<u8>>) -> Self {
        Self { bytes, file: OnceLock::new() }
    }

    /// The order.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The order in a file in memory, which is made when it is asked for. Its offset is at the start.
    fn file(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(file) = self.file.get() {
            return Ok(file.as_fd());
        }
        let file = File::from(regrow_sys::raw::memfd("regrow-order", 0)?);
        file.write_all_at(&self.bytes, 0)?;
        Ok(self.file.get_or_init(|| file.into()).as_fd())
    }
}

/// Everything that one spawn asks for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The program as the user named it: a path if it has a slash, else a name to look for in `PATH`.
    pub program: CString,
    /// `argv[0]`, where it is not the program's name.
    pub arg0: Option<CString>,
    /// The arguments after `argv[0]`.
    pub args: Strings,
    /// The whole environment of the run, entries of the form `NAME=VALUE`.
    pub env: Strings,
    /// The directory that the run starts in, where it is not the caller's. A relative program is looked for
    /// from there.
    pub current_dir: Option<CString>,
    /// Standard input, output and error.
    pub stdio: [StdioFd; 3],
    /// Further descriptors. Of two with one target the later counts.
    pub extra_fds: Vec<ExtraFd>,
    /// The attributes that are not the caller's: session, group, umask, limits and the like.
    pub task: Task,
    /// The user and the groups that are not the caller's.
    pub identity: Identity,
    /// What the run calls before it executes the program.
    pub hooks: Vec<Hook>,
    /// The caller does nothing but wait for the end, so that the start need not be waited for: a run takes over its
    /// caller's directory, root and umask when it starts.
    pub waits_for_end: bool,
    /// The start is busy-polled for a moment before it is slept for.
    pub busy_poll: bool,
    /// The calling thread traces the process from its start on, and it stops when it is about to end
    /// (`regrow_sys::ptrace::await_exit`).
    pub traced: bool,
    /// The run has its body alone: no run was in it before, and none comes after.
    pub single_use: bool,
    /// The front end whose image the run may start in. The program of the request itself is what is started where there is no
    /// such image. A descriptor that the request passes at the order's number is the order; where there is none it is written.
    pub warm: Option<Arc<Warm>>,
    /// The order of that front end, where the caller has made it; a descriptor that the request passes at its number comes first.
    pub order: Option<Arc<WarmOrder>>,
    /// The process gets ready with that order and waits until it is let go ([`Started::let_go`](crate::run::started::Started::let_go)). Nothing is started where
    /// it could not.
    pub is_ahead: bool,
    /// The modules that an interpreter with a front end of Regrow's own is to have imported.
    pub preload: Vec<String>,
    /// Whether a script whose interpreter's front end can do so is to be compiled ahead.
    pub compile: bool,
    /// The creation site: a number that is equal for equal places in the caller, where it is known. The pool learns by it what comes next.
    pub site: Option<u64>,
    /// Somebody has looked the program up, and seen that it may be kept where local files alone are.
    pub looked_up: bool,
}

impl Request {
    /// A request to run `program` without arguments and environment, its standard descriptors the caller's.
    #[must_use]
    pub fn new(program: CString) -> Self {
        Self {
            program,
            arg0: None,
            args: Strings::new(),
            env: Strings::new(),
            current_dir: None,
            stdio: [StdioFd::Inherit, StdioFd::Inherit, StdioFd::Inherit],
            extra_fds: Vec::new(),
            task: Task::new(),
            identity: Identity::default(),
            hooks: Vec::new(),
            waits_for_end: false,
            busy_poll: false,
            traced: false,
            single_use: false,
            warm: None,
            order: None,
            is_ahead: false,
            preload: Vec::new(),
            compile: false,
            site: None,
            looked_up: false,
        }
    }

    /// What no body can give, whatever the program.
    pub(crate) fn only_exec_gives(&self) -> Option<RequestPart> {
        if !self.identity.is_callers() {
            Some(RequestPart::Identity)
        } else if !self.hooks.is_empty() {
            Some(RequestPart::Hook)
        } else {
            None
        }
    }

    /// The program as the user named it.
    #[must_use]
    pub fn program_name(&self) -> &OsStr {
        OsStr::from_bytes(self.program.to_bytes())
    }

    /// What the run sees as `argv[0]`.
    #[must_use]
    pub fn argv0(&self) -> &CStr {
        self.arg0.as_deref().unwrap_or(&self.program)
    }

    /// The whole argument vector.
    pub fn argv(&self) -> impl Iterator<Item = &CStr> {
        std::iter::once(self.argv0()).chain(&self.args)
    }

    /// The value of a variable of the run's environment: of the first entry, where there are several.
    #[must_use]
    pub fn env_value(&self, name: &[u8]) -> Option<&[u8]> {
        self.env.iter().find_map(|entry| entry.to_bytes().strip_prefix(name)?.strip_prefix(b"="))
    }

    /// The files that may be the program, in the order in which exec tries them. The search goes through the run's own
    /// `PATH`. Relative paths are relative to the directory that the run starts in.
    #[must_use]
    pub fn candidates(&self) -> Vec<CString> {
        let found = search::candidates(self.program.to_bytes(), self.env_value(b"PATH"));
        found.filter_map(|candidate| candidate.c_path()).collect()
    }

    /// The run of a body or shell that the request becomes: a process that is told to be `task`, with these arguments and
    /// descriptors. The caller adds what it knows of the body.
    #[must_use]
    pub fn run<'a>(
        &'a self,
        task: &'a Task,
        args: &'a Strings,
        fds: &'a [(BorrowedFd<'a>, RawFd)],
    ) -> Run<'a> {
        Run {
            args,
            env: &self.env,
            fds,
            order: None,
            is_ahead: false,
            task,
            processors: None,
            caller_sleeps: false,
            directory: self.current_dir.as_deref().map(CStr::to_bytes),
            exec_path: None,
            random: [0; 3],
            await_start: !self.waits_for_end && !self.traced,
            busy_poll: self.busy_poll,
            traced: self.traced,
            single_use: self.single_use,
            timed: false,
        }
    }

    /// The descriptors that are open when the run starts with the numbers that they get, which rise, each number once. That of its order
    /// is among them.
    ///
    /// Asks the kernel whether an inherited standard descriptor is open and stays open over exec.
    ///
    /// # Errors
    /// `EBADF` for a negative target number; what making the file of an order says.
    pub fn descriptors(&self) -> io::Result<Vec<(BorrowedFd<'_>, RawFd)>> {
        let mut given = self.descriptors_beside_order()?;
        let at = given.partition_point(|&(_, target)| target < DESCRIPTOR);
        if let Some(order) = &self.order
            && given.get(at).is_none_or(|&(_, target)| target != DESCRIPTOR)
        {
            given.insert(at, (order.file()?, DESCRIPTOR));
        }
        Ok(given)
    }

    /// The same without the order.
    ///
    /// # Errors
    /// `EBADF` for a negative target number.
    pub fn descriptors_beside_order(&self) -> io::Result<Vec<(BorrowedFd<'_>, RawFd)>> {
        let mut given: Vec<(BorrowedFd<'_>, RawFd)> = Vec::with_capacity(4 + self.extra_fds.len());
        let callers = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        for ((stdio, caller), target) in self.stdio.iter().zip(callers).zip(0..) {
            match stdio {
                StdioFd::Inherit if is_inherited(caller) => given.push((caller, target)),
                StdioFd::Given(fd) => given.push((fd.as_fd(), target)),
                StdioFd::Inherit | StdioFd::Closed => {}
            }
        }
        for extra in &self.extra_fds {
            if extra.target < 0 {
                return Err(rustix::io::Errno::BADF.into());
            }
            given.retain(|&(_, earlier)| earlier != extra.target);
            given.push((extra.source.as_fd(), extra.target));
        }
        given.sort_unstable_by_key(|&(_, target)| target);
        Ok(given)
    }
}

/// Whether a child made by exec has the caller's descriptor.
fn is_inherited(fd: BorrowedFd<'_>) -> bool {
    rustix::io::fcntl_getfd(fd).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn request(program: &str, env: &[&str]) -> Request {
        let mut request = Request::new(CString::new(program).expect("no NUL"));
        for entry in env {
            request.env.push(&[entry.as_bytes()]).expect("no NUL");
        }
        request
    }

    fn candidates(program: &str, env: &[&str]) -> Vec<String> {
        let found = request(program, env).candidates();
        found.into_iter().map(|path| path.into_string().expect("UTF-8")).collect()
    }

    #[test]
    fn a_program_with_a_slash_is_not_looked_for() {
        assert_eq!(candidates("./x", &["PATH=/a:/b"]), ["./x"]);
        assert!(candidates("", &["PATH=/a"]).is_empty());
    }

    #[test]
    fn a_name_is_looked_for_in_the_path_of_the_run() {
        assert_eq!(
            candidates("x", &["XPATH=/no", "PATH=/a::b/:/c", "PATH=/no"]),
            ["/a/x", "x", "b//x", "/c/x"]
        );
        assert_eq!(candidates("x", &[]), ["/bin/x", "/usr/bin/x"]);
        assert_eq!(candidates("x", &["PATH="]), ["x"]);
    }

    #[test]
    fn of_two_descriptors_with_one_target_the_later_counts() {
        let file = || Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").expect("/dev/null")));
        let mut request = request("x", &[]);
        let (first, second, third) = (file(), file(), file());
        request.stdio = [StdioFd::Given(first.clone()), StdioFd::Closed, StdioFd::Closed];
        request.extra_fds = vec![
            ExtraFd { source: first, target: 7 },
            ExtraFd { source: second.clone(), target: 7 },
            ExtraFd { source: third.clone(), target: 0 },
        ];
        let given = request.descriptors().expect("targets are not negative");
        let numbers: Vec<_> = given.iter().map(|(fd, target)| (fd.as_raw_fd(), *target)).collect();
        assert_eq!(numbers, [(third.as_raw_fd(), 0), (second.as_raw_fd(), 7)]);
    }

    #[test]
    fn an_order_is_in_a_file_unless_the_request_passes_one() {
        let null = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").expect("/dev/null")));
        let mut request = request("x", &[]);
        request.stdio = [StdioFd::Given(null.clone()), StdioFd::Closed, StdioFd::Closed];
        request.extra_fds = vec![ExtraFd { source: null.clone(), target: DESCRIPTOR + 1 }];
        request.order = Some(Arc::new(WarmOrder::new(Arc::new(b"an order".to_vec()))));
        let numbers = |given: &[(BorrowedFd<'_>, RawFd)]| given.iter().map(|fd| fd.1).collect::<Vec<_>>();
        let beside = request.descriptors_beside_order().expect("numbers");
        assert_eq!(numbers(&beside), [0, DESCRIPTOR + 1]);
        let given = request.descriptors().expect("a file");
        assert_eq!(numbers(&given), [0, DESCRIPTOR, DESCRIPTOR + 1]);
        let mut content = [0; 9];
        assert_eq!(rustix::io::read(given[1].0, &mut content), Ok(8));
        assert_eq!(&content, b"an order\0");
        request.extra_fds.push(ExtraFd { source: null.clone(), target: DESCRIPTOR });
        let given = request.descriptors().expect("numbers");
        assert_eq!(numbers(&given), [0, DESCRIPTOR, DESCRIPTOR + 1]);
        assert_eq!(given[1].0.as_raw_fd(), null.as_raw_fd());
    }

    #[test]
    fn a_negative_target_is_a_bad_descriptor() {
        let mut request = request("x", &[]);
        let source = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").expect("/dev/null")));
        request.extra_fds.push(ExtraFd { source, target: -1 });
        let error = request.descriptors().expect_err("no descriptor has a negative number");
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
