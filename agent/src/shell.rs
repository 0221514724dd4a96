//! A shell: a body whose program is unmapped. Its processes are made ahead and can execute any program: what is saved is
//! the making of a task and its sandbox.

use regrow_abi::{ImageHeader, Order, PAGE_BYTES, State, order_flags};

use crate::arch::{self, nr};
use crate::signals::{drop_signals, unblock_signals};
use crate::state::Agent;
use crate::sys::{self, Res};

const EINVAL: Res = -22;
const FD_CLOEXEC: usize = 1;
const F_SETFD: usize = 2;

/// Unmaps the program and everything of the image but its header, so that neither holds memory any more. No other task
/// shares this memory.
pub fn become_one(agent: &Agent) {
    for (start, end) in agent.spans() {
        // SAFETY: mappings of the program, which no task runs in any more; the agent's own lie between the spans.
        unsafe { sys::munmap(start, end - start) };
    }
    let image = agent.image();
    let header = core::ptr::from_ref(image) as u64;
    let bytes = image.store_offset + u64::from(image.page_count) * PAGE_BYTES;
    let flags = sys::map::PRIVATE | sys::map::ANONYMOUS | sys::map::FIXED;
    // SAFETY: the header, which fits in a page, is kept in the private area while anonymous memory takes the place of the
    // image's first page; the rest of the image is not used by a shell.
    unsafe {
        let copy = (&raw mut (*agent.private()).text).cast::<u8>();
        arch::copy(copy, header as *const u8, size_of::<ImageHeader>());
        sys::munmap(header + PAGE_BYTES, bytes.saturating_sub(PAGE_BYTES));
        sys::mmap(header, PAGE_BYTES, sys::prot::READ | sys::prot::WRITE, flags, -1, 0);
        arch::copy(header as *mut u8, copy, size_of::<ImageHeader>());
        (*agent.private()).is_shell = 1;
    }
}

/// Executes the order's program in the armed process, which closes all descriptors from `first` on. Comes back only with the error.
pub fn execute(agent: &Agent, order: &Order, first: i32) -> Res {
    if order.flags & order_flags::EXEC == 0 {
        return EINVAL;
    }
    let closes = sys::close_range(first as u32, u32::MAX, sys::CLOSE_ON_EXEC);
    if closes < 0 {
        return closes;
    }
    drop_signals(agent, &order.task);
    agent.set_state(State::Running);
    let [path, argv, envp] = [order.block_address, order.argv, order.envp].map(|address| address as usize);
    // SAFETY: numbers.
    unsafe { sys::raw(nr::FCNTL, [order.exec_fd as usize, F_SETFD, FD_CLOEXEC, 0, 0, 0]) };
    unblock_signals(&order.task);
    // SAFETY: the engine has written the strings and arrays to the arg area.
    unsafe { sys::raw(nr::EXECVE, [path, argv, envp, 0, 0, 0]) }
}
