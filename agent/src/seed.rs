//! The seed: an image's first process. It never runs the program; it makes bodies by `fork`, on demand.

use core::sync::atomic::Ordering::Relaxed;

use regrow_abi::{CONTROL_BYTES, KEEPER_SOCKET_FD, PROTOCOL_VERSION, SEED_FORK, State};

use crate::arch::nr;
use crate::state::Agent;
use crate::{keeper, reset, sys};

const CLONE_FS: usize = 0x200;
const CLONE_PARENT: usize = 0x8000;

/// Serves fork requests until the engine closes the socket.
pub fn run(agent: &Agent) -> ! {
    if agent.image().version != PROTOCOL_VERSION {
        agent.give_up(regrow_abi::Broken::Version, 0);
    }
    keeper::park(agent);
    agent.control().keeper.store(sys::getpid(), Relaxed);
    reset::make_seed(agent);
    agent.set_state(State::Clean);
    loop {
        let mut room = sys::FdRoom::new();
        let message = agent.receive(&mut room);
        if message.result <= 0 {
            sys::exit(0);
        }
        if message.kind == SEED_FORK && message.fds == 2 {
            fork(agent, room.fds[0], room.fds[1]);
        }
    }
}

/// Makes one body. The child never comes back; the engine is told its pid, or the negative errno.
fn fork(agent: &Agent, control: i32, socket: i32) {
    // SAFETY: a plain fork (no shared memory): the child gets a copy of this stack. `CLONE_FS` shares root, working
    // directory and umask with the engine, so that a run takes them over as they are when it starts.
    let pid = unsafe { sys::raw(nr::CLONE3, fork_args()) };
    if pid == 0 {
        become_body(agent, control, socket);
    }
    sys::close(control);
    sys::close(socket);
    sys::send(KEEPER_SOCKET_FD, &(pid as i64).to_ne_bytes());
}

fn fork_args() -> [usize; 6] {
    static ARGS: [u64; 11] = [(CLONE_FS | CLONE_PARENT) as u64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    [&raw const ARGS as usize, 88, 0, 0, 0, 0]
}

/// In the child: takes its own control area and socket in the place of the seed's.
fn become_body(agent: &Agent, control: i32, socket: i32) -> ! {
    let address = agent.image().control_address;
    let prot = sys::prot::READ | sys::prot::WRITE;
    let flags = sys::map::SHARED | sys::map::FIXED;
    // SAFETY: the range is the agent's own control area, and nothing of the seed's is used after this.
    let mapped = unsafe { sys::mmap(address, CONTROL_BYTES as u64, prot, flags, control, 0) };
    if mapped < 0 || sys::dup3(socket, KEEPER_SOCKET_FD) < 0 {
        sys::exit(125);
    }
    sys::close(control);
    sys::close(socket);
    agent.guard_areas();
    keeper::run(agent)
}
