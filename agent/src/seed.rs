//! The seed: an image's first process. It never runs the program; it makes bodies by `fork`, on demand.

use core::sync::atomic::Ordering::Relaxed;

use regrow_abi::{CONTROL_BYTES, KEEPER_SOCKET_FD, PROTOCOL_VERSION, SEED_FORK, SEED_IMAGE, State};

use crate::arch::nr;
use crate::state::Agent;
use crate::sys::{Res, map, prot};
use crate::{keeper, reset, sys};

const CLONE_FS: usize = 0x200;
const CLONE_PARENT: usize = 0x8000;
const EBADF: Res = -9;

/// Serves fork requests until the engine closes the socket.
pub fn run(agent: &Agent) -> ! {
    if agent.image().version != PROTOCOL_VERSION {
        agent.give_up(regrow_abi::Broken::Version, 0);
    }
    keeper::park(agent);
    agent.control().keeper.store(sys::getpid(), Relaxed);
    reset::make_seed(agent);
    let is_readable = reset::open_seed_memory();
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
        if message.kind == SEED_IMAGE && message.fds == 1 {
            let result = if is_readable { map_image(agent, room.fds[0]) } else { EBADF };
            sys::close(room.fds[0]);
            sys::send(KEEPER_SOCKET_FD, &(result as i64).to_ne_bytes());
        }
    }
}

/// Maps another image memfd in the place of the one that is mapped: header, tables and places are the same in both. Bodies that are
/// there go on with theirs.
fn map_image(agent: &Agent, file: i32) -> Res {
    let place = agent.image_address();
    let bytes = agent.image().private_address - place;
    // Where the kernel maps a sealed file as a private one alone, that is found out elsewhere: the image must never be away.
    // SAFETY: at an address that the kernel chooses.
    let map_as = |flags| unsafe { sys::mmap(0, bytes, prot::READ, flags, file, 0) };
    let shared = map_as(map::SHARED);
    let mapped = if shared < 0 { map_as(map::PRIVATE) } else { shared };
    if mapped < 0 {
        return mapped;
    }
    // SAFETY: the place is the agent's own, and no body has it from here. This task is the only one in this memory, and what it reads of the image is the same before and after.
    let moved = unsafe { sys::move_mapping(mapped as u64, bytes, place) };
    if moved < 0 {
        // SAFETY: it was mapped here, and nobody uses it.
        unsafe { sys::munmap(mapped as u64, bytes) };
        return moved;
    }
    0
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
    let prot = prot::READ | prot::WRITE;
    let flags = map::SHARED | map::FIXED;
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
