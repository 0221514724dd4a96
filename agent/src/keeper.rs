//! The keeper: holds the address space, makes each process, and puts the memory back when it has left.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use regrow_abi::{
    Broken, ImageHeader, KEEPER_SOCKET_FD, Refused, Report, State, command, fault, order_flags,
};

use crate::arch::{nr, woken};
use crate::sleep::{self, Memory};
use crate::state::Agent;
use crate::{armed, attributes, reset, shell, sys};

const CLONE_VM: u64 = 0x100;
const CLONE_FS: u64 = 0x200;
const CLONE_PARENT: u64 = 0x8000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;

const ARMING: u32 = State::Arming as u32;
const ARMED: u32 = State::Armed as u32;
const TAKEN: u32 = State::Taken as u32;

/// Takes from this task what would make the kernel write into the kept memory, and blocks every signal.
pub fn park(agent: &Agent) {
    let image = agent.image();
    let all = u64::MAX;
    // SAFETY: numbers and live pointers; a rseq or robust list that is not registered gives an error, which is fine.
    unsafe {
        sys::raw(nr::RT_SIGPROCMASK, [2, &raw const all as usize, 0, 8, 0, 0]);
        if image.rseq_bytes != 0 {
            let (address, bytes) = (image.rseq_address as usize, image.rseq_bytes as usize);
            sys::raw(nr::RSEQ, [address, bytes, 1, image.rseq_signature as usize, 0, 0]);
        }
        sys::raw(nr::SET_ROBUST_LIST, [0, 24, 0, 0, 0, 0]);
        sys::raw(nr::SET_TID_ADDRESS, [0, 0, 0, 0, 0, 0]);
    }
}

/// The life of a body, up to where its first process waits.
pub fn run(agent: &Agent) -> ! {
    let control = agent.control();
    control.keeper.store(sys::getpid(), Relaxed);
    if !agent.is_for_one_run() {
        reset::open_proc(agent);
        reset::track::begin(agent);
        reset::quick::begin(agent);
    }
    if agent.is_warm() {
        sys::give_way();
    }
    if !agent.is_for_one_run() {
        attributes::begin(agent);
    }
    if control.command.load(SeqCst) == command::PREFAULT {
        reset::prefault(agent);
        control.command.store(command::NONE, SeqCst);
    }
    wait_for_verify(agent);
    arm(agent, agent.has_sessions())
}

/// Makes the next process, and sleeps. `steps_back` is whether this task is still to [`step_back`].
fn arm(agent: &Agent, steps_back: bool) -> ! {
    let control = agent.control();
    agent.set_state(State::Arming);
    if control.fault.load(Relaxed) == fault::ARMING_FAILS.number() {
        agent.give_up(Broken::Fault, 0);
    }
    touch_canary(agent);
    let bell = control.bell.load(SeqCst);
    let args = armed_args(agent);
    sleep::sleep(agent, Memory::of(agent, steps_back), bell, wake, Some((args.as_ptr(), armed::start)))
}

/// Goes on after the sleep:
///
/// ```text
///   sleep ──kernel: nobody shares the memory──> left, the stack empty
///     ├────kernel: the process has not begun──> obey, and to sleep again
///     ├────kernel: the process is gone, and somebody shares the memory──> the body is given up
///     └────kernel: the process could not be made──> the body is given up
/// ```
///
/// # Safety
/// Called by `arch::sleep` alone, on an empty stack.
unsafe extern "C" fn wake(
    image: &ImageHeader,
    why: u64,
    bell: u64,
    pid: u64,
    ignored: u64,
    oom_score: u64,
) -> ! {
    // SAFETY: it is the header of this body's image, as it was handed to the sleep.
    let agent = &unsafe { Agent::new(image) };
    let memory = Memory::from_words([pid, ignored, oom_score]);
    match why {
        woken::ALONE => left(agent, &memory),
        woken::NOT_BEGUN => {
            obey(agent);
            sleep::sleep(agent, memory, bell as u32, wake, None)
        }
        woken::NOT_MADE => agent.give_up(Broken::Clone, -(bell as i64) as i32),
        _ => agent.give_up(Broken::Shared, 0),
    }
}

/// The process is gone, or has executed another program, and nobody else shares the memory: puts the body back.
fn left(agent: &Agent, memory: &Memory) -> ! {
    memory.put_back(agent);
    let control = agent.control();
    // SAFETY: the armed process wrote this flag before it left the memory.
    if unsafe { (*agent.private()).engine_gone } != 0 {
        sys::exit(0);
    }
    let commanded = matches!(control.command.load(SeqCst), command::TRIM | command::PREFAULT);
    if commanded || matches!(control.state.load(SeqCst), ARMING | ARMED) {
        // The process died before it got an order; the engine has it to wait for.
        sys::report(KEEPER_SOCKET_FD, Report::Gone { pid: memory.pid() });
        agent.give_up(Broken::Clone, 0);
    }
    let serves_no_other = agent.is_for_one_run() || control.order.flags & order_flags::SINGLE_USE != 0;
    if !serves_no_other && !is_only_copy(agent) {
        agent.give_up(Broken::LeftProcesses, 0);
    }
    if control.state.load(SeqCst) == TAKEN && control.command.load(SeqCst) == command::NONE {
        // With its order, and it is neither the run nor has it refused.
        note_untaken(agent);
        agent.give_up(Broken::Died, 0);
    }
    if serves_no_other {
        sys::exit(0);
    }
    if control.command.load(SeqCst) == command::BREAK_UP {
        shell::become_one(agent);
        control.command.store(command::NONE, SeqCst);
    }
    if agent.is_shell() {
        arm(agent, memory.steps_back());
    }
    let timed = control.order.flags & order_flags::TIMES != 0;
    if timed {
        control.left_ns.store(sys::now_ns(), Relaxed);
    }
    if !attributes::are_unchanged(agent) {
        agent.give_up(Broken::Keeper, 0);
    }
    agent.set_state(State::Resetting);
    let steps_back = memory.steps_back() && !step_back();
    reset::run(agent);
    if timed {
        control.armed_ns.store(sys::now_ns(), Relaxed);
    }
    wait_for_verify(agent);
    arm(agent, steps_back)
}

/// Has whoever makes a reply come before this task, which puts back what the last one has left. It gets a session of its own, and where
/// sessions share the processors (`sched_autogroup_enabled`, for tasks in no cpu cgroup) the session gets a third of the usual share. Whoever looks
/// for what runs have left in other sessions is told of this task by the engine. False where it is to be tried again.
fn step_back() -> bool {
    const WRONLY_CLOEXEC: u32 = 0o2_000_001;
    const NICENESS: &[u8] = b"5";
    const EAGAIN: isize = -11;
    const EACCES: isize = -13;
    sys::setsid();
    let file = sys::open(b"/proc/self/autogroup\0", WRONLY_CLOEXEC);
    if file < 0 {
        // The run has made this process one whose files are root's: the reset takes that back.
        return file != EACCES;
    }
    // The kernel does this ten times a second, for all.
    let written = sys::write(file as i32, NICENESS);
    sys::close(file as i32);
    written != EAGAIN
}

/// How the next process is made. The kernel itself notes its number, so that the engine, whose child it is, knows of it also when
/// this task is killed at that very moment.
fn armed_args(agent: &Agent) -> [u64; 11] {
    let (stack, bytes) = agent.armed_stack();
    // A front end's handlers are its runs' as well, but not those of a program that is executed in what is left of its body. The
    // signals that it ignores are ignored either way.
    let handlers = if agent.is_warm() && !agent.is_shell() { 0 } else { CLONE_CLEAR_SIGHAND };
    let flags = CLONE_VM | CLONE_PARENT | CLONE_FS | CLONE_PARENT_SETTID | handlers;
    let number = agent.control().pid.as_ptr() as u64;
    [flags, 0, 0, number, 0, stack, bytes, 0, 0, 0, 0]
}

/// Tells the engine of an order that nobody has taken. What is in the socket is what the kernel says, whatever the words of the control
/// area are.
fn note_untaken(agent: &Agent) {
    let mut room = sys::FdRoom::new();
    if sys::receive(KEEPER_SOCKET_FD, &mut room, sys::DONT_WAIT).result > 0 {
        let serial = agent.control().order.serial;
        sys::report(KEEPER_SOCKET_FD, Report::Refused { serial, step: Refused::Take, errno: 0 });
    }
}

/// Makes the canary a page of this body's own.
fn touch_canary(agent: &Agent) {
    // SAFETY: a writable page of the agent's, which no program uses.
    unsafe { (agent.canary() as *mut u64).write_volatile(1) };
}

/// Whether no process has a copy of the memory that a fork of the run has made: the canary is mapped once. Such a process could hold what
/// reaches the memory itself: `/proc/self/mem`, a userfaultfd, buffers that it has registered. One that has executed another program is
/// not seen.
fn is_only_copy(agent: &Agent) -> bool {
    const PRESENT: u64 = 1 << 63;
    const EXCLUSIVE: u64 = 1 << 56;
    let mut word = 0u64;
    let offset = agent.canary() / regrow_abi::PAGE_BYTES * 8;
    // SAFETY: the private area is this body's own; the word has 8 bytes.
    let got = unsafe { sys::pread((*agent.private()).pagemap, (&raw mut word).cast(), 8, offset) };
    got == 8 && word & (PRESENT | EXCLUSIVE) == PRESENT | EXCLUSIVE
}

/// Carries out a command while the armed process waits for its order.
fn obey(agent: &Agent) {
    let control = agent.control();
    if control.state.load(SeqCst) != TAKEN {
        return;
    }
    match control.command.load(SeqCst) {
        command::TRIM => reset::trim(agent),
        command::PREFAULT => reset::prefault(agent),
        _ => return,
    }
    control.command.store(command::NONE, SeqCst);
    agent.set_state(State::Armed);
}

/// In verify mode the engine compares the body before the next process is armed.
fn wait_for_verify(agent: &Agent) {
    let control = agent.control();
    if control.verify.load(Relaxed) == 0 {
        return;
    }
    sys::report(KEEPER_SOCKET_FD, Report::Clean);
    agent.set_state(State::Clean);
    while control.state.load(SeqCst) == State::Clean as u32 {
        sys::futex_wait(&control.state, State::Clean as u32, 100);
        if engine_closed() {
            sys::exit(0);
        }
    }
}

/// Whether the engine sends no more: its end of the socket is closed, or shut down for writing.
fn engine_closed() -> bool {
    const HANGUP: i16 = 0x10;
    const SHUT_DOWN: i16 = 0x2000;
    let mut poll = (KEEPER_SOCKET_FD, SHUT_DOWN, 0i16);
    // SAFETY: a pollfd that lives on this stack.
    unsafe { sys::raw(nr::POLL, [&raw mut poll as usize, 1, 0, 0, 0, 0]) };
    poll.2 & (HANGUP | SHUT_DOWN) != 0
}
