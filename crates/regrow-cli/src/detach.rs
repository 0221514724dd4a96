//! What this process does to itself or to a copy of itself: it becomes a program, ends by a signal, starts the daemon as
//! nobody's child, takes over a socket.

#![allow(unsafe_code, reason = "fork and exec, and a descriptor that is known by its number")]

use std::ffi::{CStr, CString, NulError, OsStr, OsString, c_char};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// This program itself.
const SELF: &CStr = c"/proc/self/exe";

/// Starts `regrow daemon` in a session of its own, as a child of the first process. Of two daemons that start at once, one
/// finds the other's lock and ends. The daemon is for the next command: nobody waits for it.
pub(crate) fn start_daemon() {
    start_in_background(&[c"regrow", c"daemon"]);
}

/// Starts `regrow env --learn` in the same way.
pub(crate) fn start_learning() {
    start_in_background(&[c"regrow", c"env", c"--learn"]);
}

fn start_in_background(words: &[&CStr]) {
    let args: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: this process has one thread, so its copy may do anything; the copy does not return from here.
    let child = unsafe { libc::fork() };
    match child {
        0 => {
            // SAFETY: calls with numbers, and strings that live as long as the program.
            unsafe {
                libc::setsid();
                if libc::fork() == 0 {
                    clean_up();
                    libc::execv(SELF.as_ptr(), args.as_ptr());
                }
                libc::_exit(0)
            }
        }
        // The next command tries again.
        child if child < 0 => {}
        child => {
            // SAFETY: our own child, which ends at once.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        }
    }
}

/// Drops what the daemon must not inherit from the command that starts it.
fn clean_up() {
    // SAFETY: calls with numbers, strings that live as long as the program, and zeroed structures that are valid.
    unsafe {
        libc::chdir(c"/".as_ptr());
        libc::close_range(0, u32::MAX, 0);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        libc::dup2(null, 1);
        libc::dup2(null, 2);
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Becomes a program by `execvp`, with the environment, descriptors, signal mask and dispositions that this process was
/// given. The standard library would change some of them. Returns only when it fails, with the reason.
pub(crate) fn become_program(file: &OsStr, argv0: &OsStr, args: &[OsString]) -> io::Error {
    let c_string = |string: &OsStr| CString::new(string.as_bytes());
    let strings: Result<Vec<CString>, NulError> =
        std::iter::once(argv0).chain(args.iter().map(OsString::as_os_str)).map(c_string).collect();
    let (file, strings) = match (c_string(file), strings) {
        (Ok(file), Ok(strings)) => (file, strings),
        (Err(error), _) | (_, Err(error)) => return error.into(),
    };
    let mut pointers: Vec<*const c_char> = strings.iter().map(|string| string.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: strings with NUL that live until the call returns, and a list of them that ends with null.
    unsafe { libc::execvp(file.as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Becomes a program that is found by the present `PATH`, and has these variables in its environment, each in the place of one that is
/// there.
pub(crate) fn become_program_with(
    program: &OsStr,
    args: &[OsString],
    variables: &[(&str, OsString)],
) -> io::Error {
    let set =
        |(name, value): &(&str, OsString)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat());
    let is_of = |entry: &CStr, name: &str| {
        entry.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    };
    let environment = regrow_sys::environ::current();
    let mut entries = Vec::new();
    for entry in &environment {
        let variable = variables.iter().find(|(name, _)| is_of(entry, name));
        entries.push(variable.map_or_else(|| Ok(entry.to_owned()), set));
    }
    let is_missing = |(name, _): &&(&str, OsString)| !environment.iter().any(|entry| is_of(entry, name));
    entries.extend(variables.iter().filter(is_missing).map(set));
    let c_string = |string: &OsStr| CString::new(string.as_bytes());
    let words: Result<Vec<CString>, NulError> =
        std::iter::once(program).chain(args.iter().map(OsString::as_os_str)).map(c_string).collect();
    let (words, entries) = match (words, entries.into_iter().collect::<Result<Vec<CString>, NulError>>()) {
        (Ok(words), Ok(entries)) => (words, entries),
        (Err(error), _) | (_, Err(error)) => return error.into(),
    };
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&words), pointers(&entries));
    let Some(&file) = argv.first() else { return io::ErrorKind::InvalidInput.into() };
    // SAFETY: lists that end with null, of strings with NUL that live until the call returns. It looks for the program in the
    // `PATH` of this process.
    unsafe { libc::execvpe(file, argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// Ends this process by a signal, without a core dump: the run has left its own. Returns where the signal does not end the
/// process: the first process of a pid namespace ignores it.
pub(crate) fn die_by(signal: i32) {
    regrow_sys::raw::set_signal_mask(regrow_sys::caller::signal_mask() & !(1u64 << (signal - 1)));
    // SAFETY: calls with numbers. Nothing of this process is left to be put in order.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// A descriptor that a client of one page has handed over to this very process.
pub(crate) fn handed_over(number: i32) -> Option<OwnedFd> {
    if number <= libc::STDERR_FILENO || flags_of(number) < 0 {
        return None;
    }
    // SAFETY: the client has opened this descriptor and kept it through exec for this process, and nothing here has taken it yet.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(descriptor)
}

/// The flags of a descriptor by its number, negative where it is not open.
fn flags_of(number: i32) -> i32 {
    // SAFETY: numbers only.
    unsafe { libc::fcntl(number, libc::F_GETFD) }
}

/// The listening socket that a service manager passed to this very process, if it did.
pub(crate) fn passed_socket() -> Option<OwnedFd> {
    const FIRST_PASSED: i32 = 3;
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID")? != std::process::id() || number("LISTEN_FDS")? < 1 {
        return None;
    }
    // SAFETY: the service manager has opened this descriptor for this process, and nothing here has taken it yet.
    let socket = unsafe { OwnedFd::from_raw_fd(FIRST_PASSED) };
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(socket)
}
