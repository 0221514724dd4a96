//! One call of a builtin: the order, the wait, the status.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};

use regrow_abi::client::MAX_MESSAGE;
use regrow_client::buffer::{Buffer, Path};
use regrow_client::mark::is_program;
use regrow_client::message::Message;
use regrow_client::order::{About, Given, Order, Program, Room};
use regrow_client::sys;

use crate::bash::{self, FALL_BACK, Found, Words};
use crate::connection::Connection;

/// The status of a command of which nobody knows how it has ended.
const UNKNOWN: c_int = 125;
/// How many programs are known to be no launchers.
const MOST_KNOWN: usize = 32;

/// What the library remembers.
struct Memory {
    connection: Connection,
    /// Arguments and environment of an order.
    strings: Buffer<MAX_MESSAGE>,
    /// Device and inode of programs that are no launchers.
    known: [(u64, u64); MOST_KNOWN],
    next_known: usize,
}

/// Lets the one thread of a shell have its memory.
struct Shell(UnsafeCell<Memory>);

// SAFETY: a shell has one thread, and a builtin is not called from within another one.
unsafe impl Sync for Shell {}

static SHELL: Shell = Shell(UnsafeCell::new(Memory {
    connection: Connection::none(),
    strings: Buffer::new(),
    known: [(0, 0); MOST_KNOWN],
    next_known: 0,
}));

/// Runs the program of a name with these arguments; its status as the shell has it, or [`FALL_BACK`] where nothing was run.
pub fn run(name: &'static CStr, words: *const Words) -> c_int {
    // SAFETY: see `Shell`.
    let memory = unsafe { &mut *SHELL.0.get() };
    let status = memory.run(name, words).unwrap_or(FALL_BACK);
    // It may not come back: nothing of this call is open any more.
    bash::act();
    status
}

/// What an order needs of the environment.
#[derive(Default)]
struct Variables {
    runtime_folder: Option<&'static [u8]>,
    /// Somebody wants something of the full command.
    for_command: bool,
}

impl Memory {
    fn run(&mut self, name: &'static CStr, words: *const Words) -> Option<c_int> {
        if has_terminal() {
            return None;
        }
        let found = Found::of(name)?;
        self.check(found.path())?;
        self.strings.clear();
        for word in bash::words(words) {
            self.strings.put(word.to_bytes_with_nul());
        }
        let args = self.strings.length();
        let variables = self.put_environment(found.path());
        if variables.for_command || !self.strings.is_whole() {
            return None;
        }
        let signals = sys::block_signals(0, 0);
        let about = About {
            blocked: signals,
            ignored: Some(bash::ignored_in_programs(sys::ignored_signals())),
            stays: true,
        };
        let strings = self.strings.filled();
        let program = Program {
            path: found.path().to_bytes(),
            arg0: name.to_bytes(),
            args: strings.get(..args)?,
            env: strings.get(args..)?,
        };
        let (given, mut room) = (Given::inherited()?, Room::new());
        let order = Order::new(program, &given, &about, &mut room)?;
        let ticket = sys::counter() as i32;
        let ticket = if ticket < 0 { return None } else { Ticket(ticket) };
        let connection = &mut self.connection;
        // The daemon may have closed a connection that was idle for long.
        for _ in 0..2 {
            connection.open(variables.runtime_folder)?;
            if order.send(connection.socket(), connection.secret(), ticket.0) >= 0 {
                return until_the_end(connection, &ticket, signals);
            }
            connection.close();
        }
        None
    }

    /// `None` where the path is not that of a program, or that of a launcher.
    fn check(&mut self, path: &CStr) -> Option<()> {
        let found = sys::stat(path.as_ptr().cast())?;
        if self.known.contains(&found.identity) {
            return Some(());
        }
        let mut room = Path::new();
        room.put(path.to_bytes_with_nul());
        if !room.is_whole() || !is_program(&found, &room) {
            return None;
        }
        *self.known.get_mut(self.next_known % MOST_KNOWN)? = found.identity;
        self.next_known += 1;
        Some(())
    }

    /// Appends the environment. In a program that the shell executes, `_` is its path.
    fn put_environment(&mut self, path: &CStr) -> Variables {
        let mut variables = Variables::default();
        let mut has_path = false;
        for entry in bash::environment() {
            let bytes = entry.to_bytes();
            match bytes.first() {
                Some(b'_') if bytes.starts_with(b"_=") => {
                    has_path = true;
                    self.put_path(path);
                    continue;
                }
                Some(b'X') => {
                    variables.runtime_folder =
                        variables.runtime_folder.or(bytes.strip_prefix(b"XDG_RUNTIME_DIR="));
                }
                Some(b'R') => {
                    variables.for_command |=
                        bytes.starts_with(b"REGROW_LOG=") || bytes.starts_with(b"REGROW_DISABLE=");
                }
                _ => {}
            }
            self.strings.put(entry.to_bytes_with_nul());
        }
        if !has_path {
            self.put_path(path);
        }
        variables
    }

    fn put_path(&mut self, path: &CStr) {
        self.strings.put(b"_=");
        self.strings.put(path.to_bytes_with_nul());
    }
}

/// What is to be taken back where the daemon is gone.
struct Ticket(i32);

impl Ticket {
    /// Whether nobody has taken it: then nothing was started, and nothing will be.
    fn take_back(&self) -> bool {
        let mut count = [0; 8];
        sys::read(self.0, &mut count) == 8
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

/// Waits for the end of the run; its status as a shell has it. `None` where the program is still to be run.
fn until_the_end(connection: &mut Connection, ticket: &Ticket, signals: u64) -> Option<c_int> {
    let mut process = -1;
    let status = loop {
        let mut message = [0; 12];
        let (bytes, descriptor) = sys::take(connection.socket(), &mut message);
        if bytes == 0 || bytes < 0 && !matches!(bytes, sys::TRY_AGAIN | sys::INTERRUPTED) {
            connection.close();
            break if ticket.take_back() { None } else { Some(end_of(process)) };
        }
        if bytes < 0 {
            wait(connection, signals);
            if bash::is_interrupted() {
                // The run ends with its connection.
                connection.close();
                break Some(UNKNOWN);
            }
            continue;
        }
        match Message::read(message.get(..bytes as usize).unwrap_or_default()) {
            Message::Started(_) => process = descriptor,
            Message::Ended(status) => break Some(shell_status(status)),
            Message::Declined => break None,
            // It was stopped, or goes on. An error is told before the connection ends.
            Message::Other => {}
        }
    };
    if process >= 0 {
        sys::close(process);
    }
    status
}

/// Waits for a message, or a signal that ends the shell or what it is doing.
fn wait(connection: &Connection, signals: u64) {
    // Whatever comes after the question ends the wait.
    sys::block_signals(2, !0);
    if !bash::is_interrupted() {
        sys::wait_with_signals(connection.socket(), signals);
    }
    sys::block_signals(2, signals);
}

/// Waits for the end of a run whose daemon is gone. Nobody knows its status.
fn end_of(process: i32) -> c_int {
    if process >= 0 {
        sys::wait(process, -1);
    }
    const TEXT: &[u8] = b"regrow: the daemon is gone, and nobody knows how the program has ended\n";
    sys::write(2, TEXT);
    UNKNOWN
}

/// A wait status as the shell's `$?`.
fn shell_status(status: i32) -> c_int {
    match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    }
}

/// Whether the program could open `/dev/tty`.
fn has_terminal() -> bool {
    let fd = sys::open_terminal() as i32;
    if fd >= 0 {
        sys::close(fd);
    }
    fd >= 0
}
