//! The keeper's sleep while the memory is a run's.
//!
//! A run shares the keeper's memory, and can write to its stack and to its words. What it cannot write is the agent's code, which is
//! sealed, and the registers of a task that is in the kernel. So the keeper sleeps in a loop of system calls that uses no memory
//! ([`arch::sleep`]), and wakes up on an empty stack, in `keeper::wake`, with what it has remembered in registers.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use regrow_abi::{PRIVATE_BYTES, State};

use crate::arch::{self, CloneCall, Wake};
use crate::state::Agent;

/// What the keeper remembers of its body while a run can write to the memory, in registers.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Memory {
    /// The process in the lower half, and bits above.
    pid_and_bits: u64,
    /// The signals that the keeper ignores.
    ignored: u64,
    /// The content of `oom_score_adj` when the body was made.
    oom_score: u64,
}

/// Bytes at the top of the keeper's stack that nobody uses.
const STACK_MARGIN: u64 = 64;
const ARMING: u32 = State::Arming as u32;
const ARMED: u32 = State::Armed as u32;

const STEPS_BACK: u64 = 1 << 32;
const IS_SHELL: u64 = 1 << 33;
const VERIFY: u64 = 1 << 34;
const SESSIONS: u64 = 1 << 35;
const TRACKS: u64 = 1 << 36;
const TRUSTS_RUNS: u64 = 1 << 37;

impl Memory {
    /// What is to be remembered, with no process yet.
    pub fn of(agent: &Agent, steps_back: bool) -> Memory {
        let (private, control) = (agent.private(), agent.control());
        // SAFETY: the private area is this body's own, and the process has not begun.
        let (ignored, oom_score, is_shell, uffd) = unsafe {
            (
                (*private).ignored,
                u64::from_ne_bytes((*private).oom_score_text),
                (*private).is_shell,
                (*private).uffd,
            )
        };
        let table = [
            (steps_back, STEPS_BACK),
            (is_shell != 0, IS_SHELL),
            (control.verify.load(Relaxed) != 0, VERIFY),
            (control.sessions.load(Relaxed) != 0, SESSIONS),
            (uffd >= 0, TRACKS),
            (control.trusts_runs.load(Relaxed) != 0, TRUSTS_RUNS),
        ];
        let bits = table.iter().filter(|row| row.0).fold(0, |bits, row| bits | row.1);
        Memory { pid_and_bits: bits, ignored, oom_score }
    }

    /// What the registers hold.
    fn words(&self) -> [u64; 3] {
        [self.pid_and_bits, self.ignored, self.oom_score]
    }

    /// What the registers have held.
    pub fn from_words([pid_and_bits, ignored, oom_score]: [u64; 3]) -> Memory {
        Memory { pid_and_bits, ignored, oom_score }
    }

    /// The process.
    pub fn pid(&self) -> i32 {
        self.pid_and_bits as u32 as i32
    }

    /// Whether the keeper is still to give way to whoever makes a reply.
    pub fn steps_back(&self) -> bool {
        self.has(STEPS_BACK)
    }

    fn has(&self, bit: u64) -> bool {
        self.pid_and_bits & bit != 0
    }

    /// Puts back the words that a run can have written.
    pub fn put_back(&self, agent: &Agent) {
        let (private, control) = (agent.private(), agent.control());
        // SAFETY: the private area is this body's own, and no other task uses it.
        unsafe {
            (*private).ignored = self.ignored;
            (*private).oom_score_text = self.oom_score.to_ne_bytes();
            (*private).is_shell = u32::from(self.has(IS_SHELL));
            (*private).put_back_descriptors(self.has(TRACKS));
        }
        control.verify.store(u32::from(self.has(VERIFY)), Relaxed);
        control.sessions.store(u32::from(self.has(SESSIONS)), Relaxed);
        control.trusts_runs.store(u32::from(self.has(TRUSTS_RUNS)), Relaxed);
    }
}

/// Sleeps until this task is the only one that uses the memory: the run has ended with all its threads, or executed another program.
///
/// The engine rings when it has waited for the run; `bell` is what its word was before the process was made. It is not the end of the
/// run itself that wakes this task, because the kernel would wake it before the engine, and on a busy processor in its place. For runs
/// that nobody waits for, those that execute another program, and a process that dies before its order, this task looks from time to time.
/// With `clone` it makes the process first, and with the next instruction uses no memory any more: the process can begin at once.
pub fn sleep(agent: &Agent, memory: Memory, bell: u32, wake: Wake, clone: Option<CloneCall>) -> ! {
    let control = agent.control();
    let look_after_ms = match control.state.load(SeqCst) {
        ARMING => 5,
        ARMED => 1000,
        _ => 20,
    };
    let stack = agent.image().private_address + PRIVATE_BYTES as u64 - STACK_MARGIN;
    // SAFETY: the top of the private area is the keeper's stack, of which nothing is used any more; the words are mapped for ever.
    unsafe {
        let bell = (control.bell.as_ptr(), bell);
        arch::sleep(agent.image(), bell, memory.words(), look_after_ms, (stack, wake), clone)
    }
}
