//! The client of one page: what a shell executes in a program's place.
//!
//! It is the file behind every launcher, and `regrow run` in the common case. It asks the daemon for a run in one message and ends as the
//! run does. All else is the full command's, which it executes, or the program itself.
//!
//! ```text
//!   which program?  ── not known ─────────────▶ the full command
//!   a terminal?     ── yes ───────────────────▶ the program
//!   a daemon?       ── no ────────────────────▶ the full command, which starts one
//!   ask ──▶ declined ─────────────────────────▶ the program
//!       ──▶ ended ──▶ ends as the run did
//!       ──▶ a signal, a stop, anything else ──▶ the full command takes the connection over: signals that wait go on waiting through exec
//! ```
//!
//! Invariants: no libc, no memory but the stack, no relocations, one segment (the build checks it). A program is executed here only where
//! the daemon has declined, or was not asked; whoever takes over asks the ticket ([`regrow_abi::client`]). No code here may panic.

#![no_std]
#![no_main]

mod command;
mod search;
mod start;
mod talk;

use regrow_abi::client::LauncherMark;
use regrow_client::buffer::Path;
use regrow_client::order::{About, Given, Order, Program, Room};
use regrow_client::{place, sys};

use command::{HandOver, hand_over};
use search::StartedAs;
use start::Start;
use talk::{Connection, Outcome, Signals};

/// By it every regrow knows that this is a launcher.
#[used]
#[unsafe(link_section = ".note.regrow")]
static MARK: LauncherMark = LauncherMark::MARK;

/// The exit status of a command that cannot run its program.
const FAILED: i32 = 125;

/// What this process is to do.
struct Task {
    /// The number of the argument that is the program's `argv[0]`.
    first: usize,
    /// How the full command is told to do the same.
    instead: HandOver<'static>,
    /// What was started has the program's own path for a name, and not `argv[0]`.
    by_path: bool,
    /// A terminal does not keep the daemon from running the program.
    no_terminal: bool,
}

regrow_client::entry!();

/// Where the kernel begins.
///
/// # Safety
/// Called by the entry alone, with the stack pointer that the kernel has set.
#[unsafe(no_mangle)]
unsafe extern "C" fn client_start(stack: *const usize) -> ! {
    // SAFETY: see the contract.
    if let Some(start) = unsafe { Start::read(stack) } {
        run(&start);
    }
    sys::exit(FAILED)
}

/// Does what this process is for. Returns when nothing could be executed.
fn run(start: &Start) {
    let mut path = Path::new();
    let (own, started_as) = search::started_as(start);
    let by_path = search::is_found_by_path(start);
    let task = match started_as {
        StartedAs::Launcher(name) => {
            Task { first: 0, instead: HandOver::Launcher(name), by_path, no_terminal: false }
        }
        StartedAs::Command => plain_run(start),
        StartedAs::Unknown => Task { first: 0, instead: HandOver::Same, by_path: false, no_terminal: false },
    };
    let name = match task.instead {
        HandOver::Launcher(name) => Some(name),
        _ => start.arg(task.first).filter(|_| task.first > 0),
    };
    let is_plain = !start.variables.for_command && !start.is_secure;
    let found = match (own, name) {
        (Some(own), Some(name)) if is_plain => {
            // The daemon looks at this process while this process looks for the program.
            let asking = Asking::begin(start, &task);
            let is_launcher = matches!(task.instead, HandOver::Launcher(_));
            let beside = if by_path { search::program_beside(start, own, &mut path) } else { None };
            let found = beside.or_else(|| search::program(name, start, own, is_launcher, &mut path));
            found.map(|()| asking)
        }
        _ => None,
    };
    let is_found = found.is_some();
    if let Some(asking) = found {
        match asking {
            Asking::Nobody => {}
            Asking::Daemon(given, connection) => ask(start, &task, &path, &given, &connection),
            Asking::Command => hand_over(&task.instead, start, task.first),
        }
        // The program, where the daemon or a terminal wants that. A file without a format is the full command's.
        if !by_path {
            execute(start, &task, &path);
        }
    }
    hand_over(&task.instead, start, task.first);
    if is_found && !by_path {
        execute(start, &task, &path);
    }
}

/// What `regrow run [--no-tty] [--] PROGRAM` asks for. In any other command line there is no program: it is the full command's.
fn plain_run(start: &Start) -> Task {
    let no_terminal = start.arg(2) == Some(b"--no-tty");
    let next = if no_terminal { 3 } else { 2 };
    let is_ended = start.arg(next) == Some(b"--");
    let first = if is_ended { next + 1 } else { next };
    let is_flag = |word: &[u8]| !is_ended && word.starts_with(b"-");
    let is_plain = start.arg(1) == Some(b"run") && start.arg(first).is_some_and(|word| !is_flag(word));
    Task { first: if is_plain { first } else { 0 }, instead: HandOver::Same, by_path: false, no_terminal }
}

/// Becomes the program. Returns when that fails.
fn execute(start: &Start, task: &Task, path: &Path) {
    // SAFETY: the path ends in NUL, and the lists in null.
    unsafe { sys::execute(path.pointer(), start.list_from(task.first), start.env) };
}

/// Who is asked for the run.
#[allow(clippy::large_enum_variant, reason = "there is no memory but the stack")]
enum Asking {
    /// Nobody: the program could open a terminal.
    Nobody,
    /// The daemon. The run gets the descriptors that this process was given.
    Daemon(Given, Connection),
    /// The full command: there is no daemon, or it cannot be asked in one message.
    Command,
}

impl Asking {
    /// Connects to the daemon, if it is to be asked.
    fn begin(start: &Start, task: &Task) -> Asking {
        // Until here nothing of the client's own is open.
        let given = Given::look();
        if !task.no_terminal && has_terminal() {
            return Asking::Nobody;
        }
        let address = place::address(start.variables.runtime_folder, start.user);
        match (given, address.and_then(|address| Connection::open(&address))) {
            (Some(given), Some(connection)) => Asking::Daemon(given, connection),
            _ => Asking::Command,
        }
    }
}

/// Asks the daemon, and ends as the run does. Returns where this process is to be the program; has the full command do what it must.
fn ask(start: &Start, task: &Task, path: &Path, given: &Given, connection: &Connection) {
    let signals = Signals::hold();
    let mut room = Room::new();
    let path = path.filled().strip_suffix(&[0]).unwrap_or_default();
    // SAFETY: the path lives as long as the process: this function's caller never returns to its own.
    let path: &'static [u8] = unsafe { &*core::ptr::from_ref(path) };
    let order = order(start, task, path, given, signals.before, &mut room);
    let done = order.map(|order| talk::until_the_end(&order, connection, &signals, path));
    match done {
        Some(Outcome::Ended(status)) => end_as(status, &signals),
        Some(Outcome::Declined) => signals.let_go(),
        Some(Outcome::TakeOver(run)) => {
            hand_over(&HandOver::Run(&run), start, task.first);
            // Without the full command nobody knows how the run ends.
            sys::exit(FAILED)
        }
        Some(Outcome::Nothing) | None => {
            signals.let_go();
            hand_over(&task.instead, start, task.first);
        }
    }
}

/// The order for a program. `None` where it is too long for one message, or the stack is not what the kernel makes.
fn order<'a>(
    start: &Start,
    task: &Task,
    path: &'a [u8],
    given: &'a Given,
    blocked: u64,
    room: &'a mut Room,
) -> Option<Order<'a>> {
    let program = Program {
        path,
        arg0: if task.by_path { path } else { start.arg(task.first)? },
        args: start.block_from(task.first + 1)?,
        env: start.env_block,
    };
    // What it ignores the daemon asks the kernel.
    let about = About { blocked, ignored: None, stays: false };
    Order::new(program, given, &about, room)
}

/// Whether the program could open `/dev/tty`.
fn has_terminal() -> bool {
    let fd = sys::open_terminal();
    if fd >= 0 {
        sys::close(fd as i32);
    }
    fd >= 0
}

/// Ends this process as the run ended: with its status, or by the same signal.
fn end_as(status: i32, signals: &Signals) -> ! {
    let signal = status & 0x7f;
    if signal == 0 {
        sys::exit(status >> 8 & 0xff)
    }
    sys::die_by(signal, signals.held());
    // The first process of a pid namespace does not end by every signal.
    sys::exit(128 + signal)
}
