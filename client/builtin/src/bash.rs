//! What bash (4.4 and later) gives its builtins, and they give it: types and names are those of its headers.

#![allow(non_upper_case_globals, reason = "the names are bash's")]

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};

/// A status by which a builtin has the shell execute the program of its name (`EX_DISKFALLBACK`).
pub const FALL_BACK: c_int = 262;
/// A builtin may be used (`BUILTIN_ENABLED`).
const ENABLED: c_int = 1;
/// The signals of which the shell has its own ways.
const INTERRUPT: c_int = 2;
const QUIT: c_int = 3;
/// A program is looked for in the table of those that were found (`CMDSRCH_HASH`).
const REMEMBERED: c_int = 1;

/// A word (`WORD_DESC`).
#[repr(C)]
pub struct Word {
    text: *const c_char,
    flags: c_int,
}

/// Words (`WORD_LIST`).
#[repr(C)]
pub struct Words {
    next: *const Words,
    word: *const Word,
}

/// What bash looks for in a library: `NAME_struct`. Bash writes to it.
#[repr(transparent)]
pub struct Builtin(UnsafeCell<Entry>);

/// The same as bash has it (`struct builtin`).
#[repr(C)]
struct Entry {
    name: *const c_char,
    function: unsafe extern "C" fn(*const Words) -> c_int,
    flags: c_int,
    long_doc: *const Text,
    short_doc: *const c_char,
    handle: *const c_char,
}

// SAFETY: this library only makes it, and the shell has one thread.
unsafe impl Sync for Builtin {}

/// A pointer to a constant text.
#[repr(transparent)]
pub struct Text(*const c_char);

// SAFETY: nobody writes there.
unsafe impl Sync for Text {}

static LONG_DOC: [Text; 2] = [
    Text(c"The program of this name, run by the daemon of Regrow in a recycled process.".as_ptr()),
    Text(core::ptr::null()),
];

impl Builtin {
    /// That of a name.
    pub const fn new(name: &'static CStr, function: unsafe extern "C" fn(*const Words) -> c_int) -> Builtin {
        Builtin(UnsafeCell::new(Entry {
            name: name.as_ptr(),
            function,
            flags: ENABLED,
            long_doc: LONG_DOC.as_ptr(),
            short_doc: name.as_ptr(),
            handle: core::ptr::null(),
        }))
    }
}

unsafe extern "C" {
    static export_env: *const *const c_char;
    static terminating_signal: c_int;
    static interrupt_state: c_int;
    static subshell_environment: c_int;
    static job_control: c_int;
    fn maybe_make_export_env();
    fn search_for_command(name: *const c_char, flags: c_int) -> *mut c_char;
    fn termsig_handler(signal: c_int);
    fn throw_to_top_level();
    fn signal_is_ignored(signal: c_int) -> c_int;
    fn signal_is_hard_ignored(signal: c_int) -> c_int;
    fn free(memory: *mut c_void);
}

/// The words behind the name.
pub fn words<'a>(first: *const Words) -> impl Iterator<Item = &'a CStr> {
    let mut at = first;
    core::iter::from_fn(move || {
        // SAFETY: bash's list lives as long as the builtin runs, and ends with null; each word of it is a text that ends in NUL.
        unsafe {
            let words = at.as_ref()?;
            at = words.next;
            Some(CStr::from_ptr((*words.word).text))
        }
    })
}

/// What a program that the shell executes has for an environment, the variables before its name among them. Until the shell goes on.
pub fn environment<'a>() -> impl Iterator<Item = &'a CStr> {
    // SAFETY: the shell has one thread, and this is it.
    let mut at = unsafe {
        maybe_make_export_env();
        export_env
    };
    core::iter::from_fn(move || {
        // SAFETY: the list ends with null; each entry is a text that ends in NUL.
        unsafe {
            if at.is_null() || (*at).is_null() {
                return None;
            }
            let entry = CStr::from_ptr(*at);
            at = at.add(1);
            Some(entry)
        }
    })
}

/// The path of the program that the shell would execute.
pub struct Found(*mut c_char);

impl Found {
    /// Looks for a name as the shell does, which remembers what it has found.
    pub fn of(name: &CStr) -> Option<Found> {
        // SAFETY: a text that ends in NUL; the answer is the caller's, to be freed.
        let path = unsafe { search_for_command(name.as_ptr(), REMEMBERED) };
        (!path.is_null()).then_some(Found(path))
    }

    /// The path.
    pub fn path(&self) -> &CStr {
        // SAFETY: bash's answer ends in NUL, and lives as long as this.
        unsafe { CStr::from_ptr(self.0) }
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: it is from bash's allocator, and nobody uses it any more.
        unsafe { free(self.0.cast()) };
    }
}

/// The signals that a program ignores which the shell executes, where the shell itself ignores these. INT and QUIT it gives back what they were, or
/// what a trap says; but a command in the background ignores them.
pub fn ignored_in_programs(ignored: u64) -> u64 {
    const ASYNCHRONOUS: c_int = 0x1;
    const FORKED: c_int = 0x8;
    const IN_PARENTHESES: c_int = 0x2;
    // SAFETY: words that the shell's one thread writes; questions with a number.
    let (environment, has_jobs, is_told) = unsafe {
        (
            (&raw const subshell_environment).read_volatile(),
            (&raw const job_control).read_volatile() != 0,
            |signal| signal_is_ignored(signal) | signal_is_hard_ignored(signal) != 0,
        )
    };
    let is_background =
        environment & (ASYNCHRONOUS | FORKED | IN_PARENTHESES) == ASYNCHRONOUS | FORKED && !has_jobs;
    [INTERRUPT, QUIT].into_iter().fold(ignored, |ignored, signal| {
        let bit = 1 << (signal - 1);
        if is_background || is_told(signal) { ignored | bit } else { ignored & !bit }
    })
}

/// Whether a signal has come that ends the shell, or what it is doing.
pub fn is_interrupted() -> bool {
    // SAFETY: bash's handlers write these words; they are read anew each time.
    unsafe {
        (&raw const terminating_signal).read_volatile() | (&raw const interrupt_state).read_volatile() != 0
    }
}

/// Does what that signal wants. Returns where it wants nothing.
pub fn act() {
    // SAFETY: the shell's own functions, called from a builtin as its own builtins do; this library has nothing to be undone.
    unsafe {
        let signal = (&raw const terminating_signal).read_volatile();
        if signal != 0 {
            termsig_handler(signal);
        }
        if (&raw const interrupt_state).read_volatile() != 0 {
            throw_to_top_level();
        }
    }
}
