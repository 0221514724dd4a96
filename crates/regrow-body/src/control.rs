//! A body's control area, seen from the engine.

#![allow(unsafe_code, reason = "shared memory that the other side writes")]

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::{Duration, Instant};

use regrow_abi::fault::FaultPoint;
use regrow_abi::{
    ARG_AREA_BYTES, ARG_AREA_OFFSET, Broken, Control, Order, State, command, order_flags, purpose,
};
use regrow_image::stack_plan::ArgumentBlock;
use regrow_sys::raw::{self, SharedMapping};

use crate::exchange::{self, RunExchange};
use crate::line::Line;
use crate::run::Run;

/// What a body is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// For one run after the other.
    #[default]
    Runs,
    /// For one run: it is not put back, and nothing is made ready for that.
    OneRun,
    /// To be broken up: its agent's memory can be unmapped, and so no run may be started in it before.
    Shell,
}

/// For this time a state may be busy-polled. To be woken takes as long, and the one who wakes a good part of it.
const BUSY_POLL: Duration = Duration::from_micros(40);
/// Each time that a task yields its deadline is a slice later; before Linux 6.18 also where it goes on at once.
const YIELD_AFTER: Duration = Duration::from_micros(15);

/// Times of the last run on the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The program was entered.
    pub main_ns: u64,
    /// The run had left the body.
    pub left_ns: u64,
    /// The body was put back.
    pub armed_ns: u64,
}

/// What the last reset did, in pages and ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResetWork {
    /// Pages compared with the image.
    pub compared: u32,
    /// Pages copied from the image.
    pub copied: u32,
    /// Pages zeroed in place.
    pub zeroed: u32,
    /// Pages given back to the kernel.
    pub dropped: u32,
    /// Ranges unmapped, mapped or re-protected.
    pub mappings: u32,
}

/// The process that an order is for, and which order of the body it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addressee {
    pub(crate) pid: i32,
    pub(crate) serial: u64,
}

/// What an order says beside its run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extra {
    /// Arguments or environment have other bounds than those of the body's last run.
    pub(crate) bounds_differ: bool,
    /// Where the working directory's path stands in the arg area.
    pub(crate) cwd_offset: u32,
}

/// Where the parts of an execution stand: addresses in the arg area, as the shell sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecPlace {
    pub(crate) path: u64,
    pub(crate) argv: u64,
    pub(crate) envp: u64,
    /// Where the working directory's path stands in the arg area.
    pub(crate) cwd_offset: u32,
    /// The number of the descriptor that the execution closes.
    pub(crate) fd: i32,
}

/// The mapped control area. All that is read from it is a hint: the program that ran in the body can have written it.
#[derive(Debug)]
pub(crate) struct ControlArea {
    shared: Arc<SharedMapping>,
    settings: Words,
}

/// The words of the control area that the engine sets for the life of a body. They are written again for each order, because a run
/// can have changed them.
#[derive(Debug, Default)]
struct Words {
    verify: AtomicU32,
    sessions: AtomicU32,
    trusts_runs: AtomicU32,
    fault: AtomicU32,
}

/// What tells a keeper that its run has been waited for.
#[derive(Clone, Debug)]
pub struct Bell {
    shared: Arc<SharedMapping>,
    line: Arc<Line>,
    /// The order that the run had; 0 for none.
    serial: u64,
    is_woken_ahead: bool,
    /// The process group that the run leads, or zero.
    group: i32,
    /// What the run was told, and has said.
    exchange: Option<Arc<RunExchange>>,
}

/// Whose run a bell is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunOf {
    /// The order that the run had; 0 for none.
    pub(crate) serial: u64,
    /// The processes of the body run code of the program before they have an order.
    pub(crate) is_woken_ahead: bool,
    /// The process group that the run leads, or zero.
    pub(crate) group: i32,
    /// What the run was told, and has said.
    pub(crate) exchange: Option<Arc<RunExchange>>,
}

impl Bell {
    /// After the end of a run with an exit status, and before a ring: whether it has refused its order, or has never taken it. Nothing
    /// of what was ordered has run then.
    #[must_use]
    pub fn was_refused(&self, status: i32) -> bool {
        // A process that waits in the agent ends in no other way.
        let may_be = status == regrow_abi::REFUSED_STATUS || self.is_woken_ahead;
        may_be && (self.line.is_untaken(self.serial) || self.line.take_refusal(self.serial).is_some())
    }

    /// Notes that the run has been waited for. Where it led a process group of its own, the kernel is asked whether that has members
    /// left: what they have executed since does not matter.
    pub fn run_is_over(&self) {
        if let Some(exchange) = &self.exchange {
            exchange.close();
        }
        if raw::has_members(self.group) {
            self.line.set_left();
        }
        self.line.set_over(self.serial);
    }

    /// Has a run begin that is ready with its order and waits.
    pub fn let_go(&self) {
        if let Some(exchange) = &self.exchange {
            exchange.let_go();
        }
    }

    /// What a run that has ended has said in the exchange, the first time.
    #[must_use]
    pub fn take_answer(&self) -> Option<Vec<u8>> {
        self.exchange.as_ref()?.take_answer()
    }

    /// When the last run that was timed entered its program, on the monotonic clock in nanoseconds.
    #[must_use]
    pub fn main_ns(&self) -> u64 {
        // SAFETY: as in `ring`.
        unsafe { &(*self.shared.as_ptr().cast::<Control>()).main_ns }.load(Acquire)
    }

    /// Wakes the keeper. Without effect when it is gone.
    pub fn ring(&self) {
        // SAFETY: as in `ControlArea::control`; the mapping lives as long as `self`.
        let bell = unsafe { &(*self.shared.as_ptr().cast::<Control>()).bell };
        bell.fetch_add(1, SeqCst);
        raw::futex_wake(bell);
    }
}

impl ControlArea {
    pub(crate) fn new(shared: SharedMapping) -> ControlArea {
        ControlArea { shared: Arc::new(shared), settings: Words::default() }
    }

    fn control(&self) -> &Control {
        // SAFETY: the mapping has `CONTROL_BYTES` bytes, page-aligned, for the life of `self`; every bit pattern is a
        // valid `Control`, and what the other side writes is atomic. `order` is only touched through raw pointers.
        unsafe { &*self.shared.as_ptr().cast::<Control>() }
    }

    /// A bell for whoever waits for the run of an order.
    pub(crate) fn bell(&self, line: &Arc<Line>, run: RunOf) -> Bell {
        let RunOf { serial, is_woken_ahead, group, exchange } = run;
        let (shared, line) = (Arc::clone(&self.shared), Arc::clone(line));
        Bell { shared, line, serial, is_woken_ahead, group, exchange }
    }

    /// What the body is doing; `None` for a word that is no state.
    pub(crate) fn state(&self) -> Option<State> {
        State::from_raw(self.control().state.load(SeqCst))
    }

    /// Wakes a keeper that waits for the state to change, so that it looks for the end of its socket.
    pub(crate) fn wake(&self) {
        raw::futex_wake(&self.control().state);
    }

    /// Takes the armed process, if there is one.
    pub(crate) fn take(&self) -> bool {
        self.swap(State::Armed, State::Taken)
    }

    /// Changes the state if it is what is expected, and wakes the other side.
    pub(crate) fn swap(&self, from: State, to: State) -> bool {
        let word = &self.control().state;
        let done = word.compare_exchange(from as u32, to as u32, SeqCst, SeqCst).is_ok();
        if done && to == State::Arming {
            raw::futex_wake(word);
        }
        done
    }

    /// Looks at the state for a moment, until `done` says so of it.
    pub(crate) fn busy_poll(&self, done: impl Fn(Option<State>) -> bool) {
        let started = Instant::now();
        let mut yielded = None;
        while !done(self.state()) && started.elapsed() < BUSY_POLL {
            let now = started.elapsed();
            if yielded.is_none_or(|then| now >= then + YIELD_AFTER) {
                // Who is waited for may need this processor.
                std::thread::yield_now();
                yielded = Some(now);
            }
            std::hint::spin_loop();
        }
    }

    /// Waits until `done` says so of the state, at most `timeout`; returns the last state seen.
    pub(crate) fn wait_until(
        &self,
        timeout: Duration,
        done: impl Fn(Option<State>) -> bool,
    ) -> Option<State> {
        let control = self.control();
        let started = Instant::now();
        loop {
            let word = control.state.load(SeqCst);
            let state = State::from_raw(word);
            if done(state) {
                return state;
            }
            let spent = started.elapsed();
            if spent >= timeout {
                return state;
            }
            // The other side wakes only whom it knows to sleep; it may have changed the word before it looked.
            control.waiters.store(1, SeqCst);
            if control.state.load(SeqCst) != word {
                continue;
            }
            raw::futex_wait(&control.state, word, (timeout - spent).min(Duration::from_millis(20)));
        }
    }

    pub(crate) fn keeper(&self) -> i32 {
        self.control().keeper.load(Relaxed)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.control().pid.load(Relaxed)
    }

    /// Why the body was given up.
    pub(crate) fn broken(&self) -> Option<(Broken, i32)> {
        let control = self.control();
        let why = Broken::from_raw(control.broken.load(Relaxed))?;
        Some((why, control.errno.load(Relaxed)))
    }

    pub(crate) fn set_command(&self, command: u32) {
        self.control().command.store(command, SeqCst);
    }

    pub(crate) fn set_verify(&self, verify: bool) {
        self.settings.verify.store(u32::from(verify), Relaxed);
        self.write_settings();
    }

    pub(crate) fn set_sessions(&self, sessions: bool) {
        self.settings.sessions.store(u32::from(sessions), Relaxed);
        self.write_settings();
    }

    pub(crate) fn set_trusts_runs(&self, trusts_runs: bool) {
        self.settings.trusts_runs.store(u32::from(trusts_runs), Relaxed);
        self.write_settings();
    }

    pub(crate) fn set_fault(&self, fault: FaultPoint) {
        self.settings.fault.store(fault.number(), Relaxed);
        self.write_settings();
    }

    pub(crate) fn set_purpose(&self, purpose: Purpose) {
        let number = match purpose {
            Purpose::Runs => purpose::RUNS,
            Purpose::OneRun => purpose::ONE_RUN,
            Purpose::Shell => purpose::SHELL,
        };
        self.control().purpose.store(number, SeqCst);
    }

    /// Writes what the engine has set, and no command.
    fn write_settings(&self) {
        let control = self.control();
        control.verify.store(self.settings.verify.load(Relaxed), Relaxed);
        control.sessions.store(self.settings.sessions.load(Relaxed), Relaxed);
        control.trusts_runs.store(self.settings.trusts_runs.load(Relaxed), Relaxed);
        control.fault.store(self.settings.fault.load(Relaxed), Relaxed);
        control.command.store(command::NONE, Relaxed);
    }

    /// Whether a body is compared before each process is armed.
    pub(crate) fn is_verified(&self) -> bool {
        self.settings.verify.load(Relaxed) != 0
    }

    pub(crate) fn times(&self) -> Times {
        let control = self.control();
        Times {
            main_ns: control.main_ns.load(Relaxed),
            left_ns: control.left_ns.load(Relaxed),
            armed_ns: control.armed_ns.load(Relaxed),
        }
    }

    pub(crate) fn reset_work(&self) -> ResetWork {
        let reset = &self.control().reset;
        ResetWork {
            compared: reset.compared.load(Relaxed),
            copied: reset.copied.load(Relaxed),
            zeroed: reset.zeroed.load(Relaxed),
            dropped: reset.dropped.load(Relaxed),
            mappings: reset.mappings.load(Relaxed),
        }
    }

    /// Writes `bytes` into the arg area. False when they do not fit.
    pub(crate) fn write_args(&self, offset: usize, bytes: &[u8]) -> bool {
        if offset.checked_add(bytes.len()).is_none_or(|end| end > ARG_AREA_BYTES) {
            return false;
        }
        // SAFETY: the range lies in the mapping, checked above; the agent reads it only after the order's message.
        unsafe {
            let to = self.shared.as_ptr().add(ARG_AREA_OFFSET + offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        true
    }

    /// Writes what a run is told in the exchange. `None` when that does not fit.
    pub(crate) fn open_exchange(
        &self,
        order: &[u8],
        is_ahead: bool,
        trusts_runs: bool,
    ) -> Option<RunExchange> {
        RunExchange::open(&self.shared, order, is_ahead, trusts_runs)
    }

    /// Whether nothing stands in the exchange.
    pub(crate) fn has_clear_exchange(&self) -> bool {
        exchange::of(&self.shared).is_clear()
    }

    /// Writes the order of a run. The state must be `Taken`, so that the agent does not read it meanwhile.
    pub(crate) fn write_order(
        &self,
        to: Addressee,
        run: &Run<'_>,
        block: &ArgumentBlock,
        bytes: u64,
        more: Extra,
    ) {
        let mut flags = run_flags(run);
        if more.bounds_differ {
            flags |= order_flags::BOUNDS;
        }
        // SAFETY: the order lies in the mapping; by the state protocol only this side touches it while the state is
        // `Taken`. The fields are written one by one, because most of the order is not used by most runs.
        let order = unsafe { &mut *self.order() };
        self.write_settings();
        order.flags = flags;
        (order.pid, order.serial) = (to.pid, to.serial);
        order.block_address = block.address;
        order.block_bytes = bytes;
        order.stack_pointer = block.address;
        order.argc = block.argc;
        order.argv = block.argv;
        order.envp = block.envp;
        order.bounds = block.bounds;
        order.start_stack = block.address;
        order.random = run.random;
        order.comm = run.exec_path.map(comm).unwrap_or_default();
        order.cwd_offset = more.cwd_offset;
        order.task = *run.task;
        if let Some(all) = run.processors {
            order.task.set_affinity(all);
        }
        write_targets(order, run.fds);
    }

    /// Writes the order of an execution in a shell, as [`ControlArea::write_order`] does.
    pub(crate) fn write_exec_order(
        &self,
        to: Addressee,
        run: &Run<'_>,
        fds: &[(BorrowedFd<'_>, i32)],
        place: ExecPlace,
    ) {
        // The program is executed, so that it has the name and the bounds that the kernel gives it.
        let memory = order_flags::COMM | order_flags::BOUNDS | order_flags::TIMES;
        let flags = run_flags(run) & !memory | order_flags::PLACE_FDS | order_flags::EXEC;
        // SAFETY: as in `write_order`.
        let order = unsafe { &mut *self.order() };
        self.write_settings();
        order.flags = flags;
        (order.pid, order.serial) = (to.pid, to.serial);
        order.block_address = place.path;
        order.argv = place.argv;
        order.envp = place.envp;
        order.exec_fd = place.fd;
        order.cwd_offset = place.cwd_offset;
        order.task = *run.task;
        write_targets(order, fds);
    }

    /// Writes the pointers that the run gets.
    pub(crate) fn write_patches(&self, patches: impl Iterator<Item = (u64, u64)>) {
        // SAFETY: as in `write_order`.
        let order = unsafe { &mut *self.order() };
        let mut count = 0u32;
        for (to, (address, value)) in order.patches.iter_mut().zip(patches) {
            *to = regrow_abi::Patch { address, value };
            count += 1;
        }
        order.patch_count = count;
    }

    fn order(&self) -> *mut Order {
        // SAFETY: takes the address of a field of the mapped area.
        unsafe { &raw mut (*self.shared.as_ptr().cast::<Control>()).order }
    }
}

/// Writes how many descriptors come with the order, and which numbers they get.
fn write_targets(order: &mut Order, fds: &[(BorrowedFd<'_>, i32)]) {
    order.fd_count = u32::try_from(fds.len()).unwrap_or(u32::MAX);
    for (to, from) in order.fd_targets.iter_mut().zip(fds) {
        *to = from.1;
    }
}

/// The name that exec gives a task: the last component of the path, cut to 15 bytes.
fn comm(path: &[u8]) -> [u8; 16] {
    let mut comm = [0; 16];
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    for (to, from) in comm.iter_mut().take(15).zip(name) {
        *to = *from;
    }
    comm
}

/// What an order says of its run beside the task.
fn run_flags(run: &Run<'_>) -> u32 {
    let table = [
        (!run.has_plain_fds(), order_flags::PLACE_FDS),
        (run.directory.is_some(), order_flags::CWD),
        (run.timed, order_flags::TIMES),
        (run.single_use, order_flags::SINGLE_USE),
        (run.exec_path.is_some(), order_flags::COMM),
    ];
    table.iter().filter(|row| row.0).fold(0, |flags, row| flags | row.1)
}

#[cfg(test)]
mod tests;
