//! Runs a program under trace from exec to its snapshot point.

use std::fs::File;
use std::path::Path;

use regrow_sys::maps::Mapping;
use regrow_sys::ptrace::{BREAKPOINTS, Resume, Stop, Stopped, Tracee};

use crate::arch::MAX_INSTRUCTION_BYTES;
use crate::error::{MakeError, refuse};
use crate::making::initial_stack::InitialStack;
use crate::making::remote::{Access, Remote, mappings};
use crate::making::startup::{AtCallEnd, Startup};
use crate::program::elf::ElfFacts;
use crate::stack_plan::at;

/// Most instructions from the program's entry to the call that names `main`.
const MAX_STEPS: usize = 600;

/// Numbers of the hardware breakpoints.
const AT_POINT: usize = 0;
const AT_LOADER: usize = 1;
const AT_GETENV: usize = 2;
const AT_SECURE_GETENV: usize = 3;

/// A program at its snapshot point.
#[derive(Debug)]
pub(crate) struct AtPoint {
    pub(crate) remote: Remote,
    pub(crate) stack: InitialStack,
    pub(crate) startup: Startup,
}

/// Waits for the exec of a traced process: the `entry` point.
pub(crate) fn to_entry(tracee: Tracee) -> Result<AtPoint, MakeError> {
    let mut tracee = tracee;
    let stopped = loop {
        match tracee.wait().map_err(MakeError::tracing("waiting for exec"))? {
            Stop::Exec(stopped) => break stopped,
            Stop::Gone(_) => return Err(MakeError::Died { step: "exec" }),
            Stop::Signal(stopped, signal) => tracee = resume(stopped, Resume::Continue, signal)?,
            other => return refuse(format!("an event before exec: {other:?}")),
        }
    };
    // The stop lies inside execve, whose end still writes a register.
    let stopped =
        match resume(stopped, Resume::Syscall, 0)?.wait().map_err(MakeError::tracing("waiting for exec"))? {
            Stop::SyscallExit(stopped, _) => stopped,
            Stop::Gone(_) => return Err(MakeError::Died { step: "exec" }),
            other => return refuse(format!("an event at the end of exec: {other:?}")),
        };
    let remote = Remote::new(stopped)?;
    let pointer =
        remote.stopped().registers().map_err(MakeError::tracing("reading registers"))?.stack_pointer();
    let stack = InitialStack::read(&remote, pointer)?;
    Ok(AtPoint { remote, stack, startup: Startup::default() })
}

fn resume(stopped: Stopped, how: Resume, signal: i32) -> Result<Tracee, MakeError> {
    stopped.resume(how, signal).map_err(MakeError::tracing("resuming"))
}

fn resume_syscall(remote: Remote) -> Result<(Tracee, Access), MakeError> {
    let (stopped, access) = remote.release();
    Ok((resume(stopped, Resume::Syscall, 0)?, access))
}

/// Lets a program that stands at its entry run to the call of `main`.
pub(crate) fn to_main(entry: AtPoint) -> Result<AtPoint, MakeError> {
    let AtPoint { remote, stack, startup } = with_room(entry)?;
    let start = stack.aux(at::ENTRY).ok_or_else(|| MakeError::Refused("no AT_ENTRY".to_owned()))?;
    breakpoint(&remote, AT_POINT, Some(start))?;
    watch_loader(&remote, &stack)?;
    let mut walk = Walk { startup, pending: AtCallEnd::Nothing, stack: &stack };
    let remote = walk.run_to_point(remote)?;
    let (remote, main) = walk.step_to_main(remote)?;
    breakpoint(&remote, AT_POINT, Some(main))?;
    let remote = walk.run_to_point(remote)?;
    clear_breakpoints(&remote)?;
    let startup = walk.startup;
    let registers = remote.stopped().registers().map_err(MakeError::tracing("reading registers"))?;
    let [argc, argv, _] = registers.arguments();
    if argc != stack.argv.len() as u64 || argv != stack.argv_address() {
        return refuse("main was not called with argc and argv");
    }
    Ok(AtPoint { remote, stack, startup })
}

/// Makes room on the stack of a program at its entry, for the argument blocks of its runs.
pub(crate) fn with_room(entry: AtPoint) -> Result<AtPoint, MakeError> {
    let AtPoint { remote, stack, startup } = entry;
    let stack = stack.moved_down(&remote)?;
    let stopped = remote.stopped();
    let mut registers = stopped.registers().map_err(MakeError::tracing("reading registers"))?;
    registers.set_stack_pointer(stack.pointer);
    stopped.set_registers(registers).map_err(MakeError::tracing("setting registers"))?;
    Ok(AtPoint { remote, stack, startup })
}

pub(crate) fn breakpoint(remote: &Remote, index: usize, address: Option<u64>) -> Result<(), MakeError> {
    remote
        .stopped()
        .set_breakpoint(index, address)
        .map_err(MakeError::tracing("setting a hardware breakpoint"))
}

pub(crate) fn clear_breakpoints(remote: &Remote) -> Result<(), MakeError> {
    (0..BREAKPOINTS).try_for_each(|index| breakpoint(remote, index, None))
}

/// The address of a function in a mapped file, if the file exports it.
fn function_in(mapping: &Mapping, all: &[Mapping], names: &[&str]) -> Option<Vec<Option<u64>>> {
    let path = mapping.name.path()?;
    let file = File::open(path).ok()?;
    let facts = ElfFacts::read(&file).ok()?;
    let lowest = all.iter().find(|other| other.inode == mapping.inode && other.dev == mapping.dev)?;
    let symbols = facts.symbols(&file, names).ok()?;
    let at = |symbol: &crate::program::elf::Symbol| {
        Some(lowest.start - lowest.offset + symbol.function_address()?)
    };
    Some(symbols.iter().map(|symbol| symbol.as_ref().and_then(at)).collect())
}

/// Stops where the dynamic loader tells debuggers that it has loaded something: constructors have not run then.
pub(crate) fn watch_loader(remote: &Remote, stack: &InitialStack) -> Result<(), MakeError> {
    let base = stack.aux(at::BASE).unwrap_or(0);
    if base == 0 {
        return watch_getenv(remote);
    }
    let all = mappings(remote.pid())?;
    let Some(loader) = all.iter().find(|mapping| mapping.contains(base)) else { return Ok(()) };
    if let Some(&[Some(address)]) = function_in(loader, &all, &["_dl_debug_state"]).as_deref() {
        breakpoint(remote, AT_LOADER, Some(address))?;
    }
    watch_getenv(remote)
}

/// Stops at `getenv` and `secure_getenv` of whichever mapped file has them.
fn watch_getenv(remote: &Remote) -> Result<(), MakeError> {
    let all = mappings(remote.pid())?;
    let mut seen: Vec<&Path> = Vec::new();
    for mapping in &all {
        let Some(path) = mapping.name.path().filter(|path| !seen.contains(path)) else { continue };
        seen.push(path);
        let Some(found) = function_in(mapping, &all, &["getenv", "secure_getenv"]) else { continue };
        let is_libc = found.iter().all(Option::is_some) || is_libc_name(path);
        if let (true, &[getenv, secure]) = (is_libc, found.as_slice()) {
            breakpoint(remote, AT_GETENV, getenv)?;
            return breakpoint(remote, AT_SECURE_GETENV, secure);
        }
    }
    Ok(())
}

fn is_libc_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"libc."))
}

/// The way from entry to `main`.
struct Walk<'a> {
    startup: Startup,
    pending: AtCallEnd,
    stack: &'a InitialStack,
}

impl Walk<'_> {
    /// Runs until breakpoint [`AT_POINT`], looking at every system call and at what the environment is asked for.
    fn run_to_point(&mut self, remote: Remote) -> Result<Remote, MakeError> {
        let (mut running, mut access) = resume_syscall(remote)?;
        loop {
            match running.wait().map_err(MakeError::tracing("waiting"))? {
                Stop::SyscallEnter(stopped, call) => {
                    let remote = access.stopped(stopped);
                    self.pending = self.startup.enter(&remote, call)?;
                    (running, access) = resume_syscall(remote)?;
                }
                Stop::SyscallExit(stopped, result) => {
                    let pending = std::mem::replace(&mut self.pending, AtCallEnd::Nothing);
                    self.startup.exit(pending, result);
                    running = resume(stopped, Resume::Syscall, 0)?;
                }
                Stop::Trap(stopped, fired) => {
                    let remote = access.stopped(stopped);
                    if fired & (1 << AT_POINT) != 0 {
                        return Ok(remote);
                    }
                    note_trap(&remote, fired, &mut self.startup)?;
                    (running, access) = resume_syscall(remote)?;
                }
                Stop::Gone(_) => return Err(MakeError::Died { step: "its start before main" }),
                Stop::Signal(_, signal) => {
                    return refuse(format!("signal {signal} before main"));
                }
                Stop::Clone(..) | Stop::Attached(_) => {
                    return refuse("a thread or child before main");
                }
                Stop::Exec(_) => return refuse("an exec before main"),
            }
        }
    }

    /// Steps from the program's entry until a call passes `main`, `argc` and `argv` in the argument registers: the call
    /// of `__libc_start_main`, whatever it is named, in glibc and in musl, in stripped and in static programs.
    fn step_to_main(&self, remote: Remote) -> Result<(Remote, u64), MakeError> {
        let (argc, argv) = (self.stack.argv.len() as u64, self.stack.argv_address());
        let code = executable(remote.pid())?;
        let (mut stopped, access) = remote.release();
        let mut before = stopped.registers().map_err(MakeError::tracing("reading registers"))?;
        for _ in 0..MAX_STEPS {
            let stop = resume(stopped, Resume::Step, 0)?.wait().map_err(MakeError::tracing("stepping"))?;
            let Stop::Trap(next, _) = stop else {
                return refuse("an event between entry and main");
            };
            stopped = next;
            let now = stopped.registers().map_err(MakeError::tracing("reading registers"))?;
            let straight_on =
                before.instruction_pointer()..=before.instruction_pointer() + MAX_INSTRUCTION_BYTES;
            let jumped = !straight_on.contains(&now.instruction_pointer());
            let [main, second, third] = now.arguments();
            let is_code = code.iter().any(|range| range.0 <= main && main < range.1);
            if jumped && second == argc && third == argv && is_code {
                return Ok((access.stopped(stopped), main));
            }
            before = now;
        }
        refuse("no main was found")
    }
}

/// A breakpoint was hit: the loader is done, or the environment is asked for a variable.
pub(crate) fn note_trap(remote: &Remote, fired: u64, startup: &mut Startup) -> Result<(), MakeError> {
    if fired & (1 << AT_LOADER) != 0 {
        return watch_getenv(remote);
    }
    if fired & (1 << AT_GETENV | 1 << AT_SECURE_GETENV) != 0 {
        let registers = remote.stopped().registers().map_err(MakeError::tracing("reading registers"))?;
        let name = remote.read_string(registers.arguments()[0])?;
        if !startup.asked.contains(&name) {
            startup.asked.push(name);
        }
    }
    Ok(())
}

/// Where a process has code.
fn executable(pid: i32) -> Result<Vec<(u64, u64)>, MakeError> {
    let all = mappings(pid)?;
    Ok(all.iter().filter(|mapping| mapping.exec).map(|mapping| (mapping.start, mapping.end)).collect())
}
