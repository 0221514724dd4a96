//! Everything that one spawn asks for, owned.
//!
//! A front end (the `regrow` crate, the command line) resolves what its user said into a [`Request`]: strings
//! are checked for NUL bytes, the environment is the whole environment of the run, pipes are open. The engine
//! then carries the request out in a recycled body, or by exec; both read the same fields through the same
//! accessors, so that the run cannot tell which it was.
//!
//! ```text
//!   Strings:   H O M E = / r o o t \0 P A T H = / b i n \0        one block, each entry ended by a NUL
//!              '------ entry 0 -----' '----- entry 1 ----'
//! ```
//!
//! Invariants: no string of a request holds a NUL byte; the descriptors of a request stay open as long as it
//! lives; [`Request::descriptors`] names each target number once, in rising order.

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::io::FdFlags;

/// The value of a limit that limits nothing (`RLIM_INFINITY`).
pub const UNLIMITED: u64 = u64::MAX;

/// The longest path that the kernel takes, its ending NUL included (`PATH_MAX`).
const PATH_MAX: usize = 4096;

/// A string of a request holds a NUL byte, which no program can be given.
///
/// Its text, and the kind of the [`io::Error`] made from it, are those of `std::process`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nul byte found in provided data")]
pub struct NulFound;

impl From<NulFound> for io::Error {
    fn from(nul: NulFound) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, nul)
    }
}

/// A list of strings in one block of memory, each ended by a NUL byte: the form in which arguments and
/// environment are written into the arg area of a body, with one copy.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Strings {
    block: Vec<u8>,
    len: usize,
}

impl Strings {
    /// A list without strings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A list without strings that has room for `bytes`, the ending NUL bytes included.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { block: Vec::with_capacity(bytes), len: 0 }
    }

    /// Adds a string that consists of `parts`, one after the other.
    ///
    /// # Errors
    /// [`NulFound`] when a part holds a NUL byte; the list is then as it was.
    pub fn push(&mut self, parts: &[&[u8]]) -> Result<(), NulFound> {
        if parts.iter().any(|part| part.contains(&0)) {
            return Err(NulFound);
        }
        for part in parts {
            self.block.extend_from_slice(part);
        }
        self.block.push(0);
        self.len += 1;
        Ok(())
    }

    /// Adds a string that is known to hold no NUL byte.
    pub fn push_c_str(&mut self, string: &CStr) {
        self.block.extend_from_slice(string.to_bytes_with_nul());
        self.len += 1;
    }

    /// Adds all strings of another list.
    pub fn append(&mut self, other: &Strings) {
        self.block.extend_from_slice(&other.block);
        self.len += other.len;
    }

    /// How many strings the list has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the list has no string.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The strings of a block in which each ends with its NUL byte, without a gap; `None` when the last one does not.
    #[must_use]
    pub fn from_block(block: Vec<u8>) -> Option<Self> {
        let len = block.iter().filter(|&&byte| byte == 0).count();
        block.last().is_none_or(|&last| last == 0).then_some(Self { block, len })
    }

    /// All strings, each with its ending NUL byte, without a gap.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.block
    }

    /// The strings in the order in which they were added.
    #[must_use]
    pub fn iter(&self) -> StringsIter<'_> {
        StringsIter { rest: &self.block, left: self.len }
    }
}

impl<'a> IntoIterator for &'a Strings {
    type Item = &'a CStr;
    type IntoIter = StringsIter<'a>;

    fn into_iter(self) -> StringsIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The strings of a [`Strings`], one by one.
#[derive(Debug, Clone)]
pub struct StringsIter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for StringsIter<'a> {
    type Item = &'a CStr;

    fn next(&mut self) -> Option<&'a CStr> {
        let string = CStr::from_bytes_until_nul(self.rest).ok()?;
        self.rest = self.rest.get(string.count_bytes() + 1..)?;
        self.left = self.left.saturating_sub(1);
        Some(string)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for StringsIter<'_> {}

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

/// A descriptor that a run is given, as [`Request::descriptors`] tells it.
#[derive(Debug, Clone, Copy)]
pub struct GivenFd<'a> {
    /// The descriptor in the caller.
    pub source: BorrowedFd<'a>,
    /// Its number in the run.
    pub target: RawFd,
}

/// A resource that a limit bounds, by the name of its `RLIMIT_` constant (see `getrlimit(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Resource {
    /// CPU time, in seconds.
    Cpu = 0,
    /// Size of a file that the process writes, in bytes.
    Fsize = 1,
    /// Size of the data segment, in bytes.
    Data = 2,
    /// Size of the stack of the first thread, in bytes.
    Stack = 3,
    /// Size of a core file, in bytes.
    Core = 4,
    /// Resident set size, in bytes. Linux keeps the figure and enforces nothing.
    Rss = 5,
    /// Processes and threads of the user.
    Nproc = 6,
    /// One more than the highest descriptor number.
    Nofile = 7,
    /// Locked memory, in bytes.
    Memlock = 8,
    /// Size of the address space, in bytes.
    As = 9,
    /// File locks. Linux keeps the figure and enforces nothing.
    Locks = 10,
    /// Queued signals of the user.
    Sigpending = 11,
    /// Bytes in POSIX message queues of the user.
    Msgqueue = 12,
    /// The ceiling of the niceness, as 20 less the niceness.
    Nice = 13,
    /// The ceiling of the real-time priority.
    Rtprio = 14,
    /// CPU time under a real-time policy without a blocking call, in microseconds.
    Rttime = 15,
}

impl Resource {
    /// Every resource, by rising number.
    pub const ALL: [Self; 16] = [
        Self::Cpu,
        Self::Fsize,
        Self::Data,
        Self::Stack,
        Self::Core,
        Self::Rss,
        Self::Nproc,
        Self::Nofile,
        Self::Memlock,
        Self::As,
        Self::Locks,
        Self::Sigpending,
        Self::Msgqueue,
        Self::Nice,
        Self::Rtprio,
        Self::Rttime,
    ];

    /// The kernel's number of the resource, on x86-64 and aarch64.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// A limit that a run starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// What is limited.
    pub resource: Resource,
    /// The limit that is enforced, in the unit of the resource; [`UNLIMITED`] for none.
    pub soft: u64,
    /// Up to where the run may raise the soft limit; [`UNLIMITED`] for no bound.
    pub hard: u64,
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
    /// The process group to join; 0 makes a group of the run's own. Where it is `None` the run is in the
    /// caller's.
    pub process_group: Option<i32>,
    /// Whether the run starts as the leader of a session of its own.
    pub setsid: bool,
    /// The file mode creation mask, where it is not the caller's.
    pub umask: Option<u32>,
    /// The limits that are not the caller's, set in this order.
    pub limits: Vec<Limit>,
    /// The niceness (an absolute value, -20 to 19), where it is not the caller's.
    pub nice: Option<i32>,
    /// The caller does nothing but wait for the end, so that the start need not be waited for: a run takes over its
    /// caller's directory, root and umask when it starts.
    pub waits_for_end: bool,
    /// The start is busy-polled for a moment before it is slept for.
    pub busy_poll: bool,
    /// The calling thread traces the process from its start on, and it stops when it is about to end
    /// (`regrow_sys::ptrace::await_exit`).
    pub traced: bool,
    /// The front end whose image the run may start in. The program of the request itself is what is started where there is no
    /// such image. A descriptor that the request passes at the order's number is the order; where there is none it is written.
    pub warm: Option<Arc<Warm>>,
    /// The modules that an interpreter with a front end of Regrow's own is to have imported.
    pub preload: Vec<String>,
    /// Whether a script whose interpreter's front end can do so is to be compiled ahead.
    pub compile: bool,
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
            process_group: None,
            setsid: false,
            umask: None,
            limits: Vec::new(),
            nice: None,
            waits_for_end: false,
            busy_poll: false,
            traced: false,
            warm: None,
            preload: Vec::new(),
            compile: false,
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

    /// The files that may be the program, in the order in which exec tries them.
    ///
    /// A program with a slash is itself the only one. Another is looked for in the directories of the run's own
    /// `PATH` (in `/bin` and `/usr/bin` where it has none), as `execvp` does; an empty directory is the
    /// run's current one. Relative paths are relative to the directory that the run starts in.
    #[must_use]
    pub fn candidates(&self) -> Vec<CString> {
        let name = self.program.to_bytes();
        if name.is_empty() || name.contains(&b'/') {
            return vec![self.program.clone()];
        }
        let path = self.env_value(b"PATH").unwrap_or(b"/bin:/usr/bin");
        let directories = path.split(|&byte| byte == b':').filter(|directory| directory.len() < PATH_MAX);
        directories
            .filter_map(|directory| {
                let separator: &[u8] = if directory.is_empty() { b"" } else { b"/" };
                CString::new([directory, separator, name].concat()).ok()
            })
            .collect()
    }

    /// The descriptors that are open when the run starts, by rising target number, each number once.
    ///
    /// Asks the kernel whether an inherited standard descriptor is open and stays open over exec.
    ///
    /// # Errors
    /// `EBADF` for a negative target number.
    pub fn descriptors(&self) -> io::Result<Vec<GivenFd<'_>>> {
        let mut given: Vec<GivenFd<'_>> = Vec::with_capacity(3 + self.extra_fds.len());
        let callers = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        for ((stdio, caller), target) in self.stdio.iter().zip(callers).zip(0..) {
            match stdio {
                StdioFd::Inherit if is_inherited(caller) => given.push(GivenFd { source: caller, target }),
                StdioFd::Given(fd) => given.push(GivenFd { source: fd.as_fd(), target }),
                StdioFd::Inherit | StdioFd::Closed => {}
            }
        }
        for extra in &self.extra_fds {
            if extra.target < 0 {
                return Err(rustix::io::Errno::BADF.into());
            }
            given.retain(|earlier| earlier.target != extra.target);
            given.push(GivenFd { source: extra.source.as_fd(), target: extra.target });
        }
        given.sort_unstable_by_key(|fd| fd.target);
        Ok(given)
    }
}

/// Whether a child made by exec has the caller's descriptor.
fn is_inherited(fd: BorrowedFd<'_>) -> bool {
    rustix::io::fcntl_getfd(fd).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
}

impl GivenFd<'_> {
    /// The number of the descriptor in the caller.
    #[must_use]
    pub fn source_number(&self) -> RawFd {
        self.source.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn strings_keep_order_and_lie_in_one_block() {
        let mut strings = Strings::new();
        strings.push(&[b"A", b"=", b"1"]).expect("no NUL");
        strings.push(&[]).expect("no NUL");
        strings.push_c_str(c"B=2");
        assert_eq!(strings.as_bytes(), b"A=1\0\0B=2\0");
        assert_eq!(strings.iter().collect::<Vec<_>>(), [c"A=1", c"", c"B=2"]);
        assert_eq!((strings.len(), strings.iter().len()), (3, 3));
    }

    #[test]
    fn a_nul_byte_is_refused_and_leaves_the_list_alone() {
        let mut strings = Strings::new();
        assert_eq!(strings.push(&[b"A=", b"x\0y"]), Err(NulFound));
        assert!(strings.is_empty() && strings.as_bytes().is_empty());
        assert_eq!(io::Error::from(NulFound).kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_program_with_a_slash_is_not_looked_for() {
        assert_eq!(candidates("./x", &["PATH=/a:/b"]), ["./x"]);
        assert_eq!(candidates("", &["PATH=/a"]), [""]);
    }

    #[test]
    fn a_name_is_looked_for_in_the_path_of_the_run() {
        assert_eq!(
            candidates("x", &["XPATH=/no", "PATH=/a::b/:/c", "PATH=/no"]),
            ["/a/x", "x", "b//x", "/c/x"]
        );
        assert_eq!(candidates("x", &[]), ["/bin/x", "/usr/bin/x"]);
        assert_eq!(candidates("x", &["PATH="]), ["x"]);
        let long = format!("PATH={}:/a", "d".repeat(PATH_MAX));
        assert_eq!(candidates("x", &[&long]), ["/a/x"]);
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
        let numbers: Vec<_> = given.iter().map(|fd| (fd.source_number(), fd.target)).collect();
        assert_eq!(numbers, [(third.as_raw_fd(), 0), (second.as_raw_fd(), 7)]);
    }

    #[test]
    fn a_negative_target_is_a_bad_descriptor() {
        let mut request = request("x", &[]);
        let source = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").expect("/dev/null")));
        request.extra_fds.push(ExtraFd { source, target: -1 });
        let error = request.descriptors().expect_err("no descriptor has a negative number");
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn resources_have_the_numbers_of_the_kernel() {
        for (resource, number) in Resource::ALL.into_iter().zip(0..) {
            assert_eq!(resource.number(), number, "{resource:?}");
        }
        assert_eq!(u64::from(Resource::Nofile.number()), u64::from(libc::RLIMIT_NOFILE));
        assert_eq!(u64::from(Resource::Rttime.number()), u64::from(libc::RLIMIT_RTTIME));
    }
}
