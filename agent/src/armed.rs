//! The armed process: waits for its order, makes itself the run, and jumps to the snapshot point.
//!
//! ```text
//!   clone ──> wait for the order ──> carry it out ──> snapshot point
//!     └──> snapshot point of a front end that has a gate ──> it prepares itself, calls the gate ──> wait, carry out, return
//! ```
//!
//! It shares its memory with the keeper, which sleeps meanwhile. It is a process of its own: pid, descriptors, signals,
//! limits; the engine is its parent. Root, working directory and umask are shared with the engine until the order comes.
//! Where all runs of a pool have sessions of their own, it has one before it waits: `setsid` can cost a running task its processor.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

use regrow_abi::task::Task;
use regrow_abi::{
    ImageHeader, KEEPER_SOCKET_FD, MAX_FDS, MAX_PATCHES, Order, Refused, Registers, Report, SchedAttr, State,
    fault, order_flags, point,
};

use crate::arch::{self, nr};
use crate::reset::bounds;
use crate::shell;
use crate::signals::{drop_signals, unblock_signals};
use crate::state::Agent;
use crate::sys::{self, FdRoom, Res};

const CLONE_FS: u32 = 0x200;
const PR_SET_NAME: u32 = 15;
const EPERM: Res = -1;
const EINVAL: Res = -22;
/// The longest path that the kernel takes.
const PATH_MAX: usize = 4096;

/// Start of the armed process, on its own stack.
///
/// # Safety
/// Called by the clone only.
pub unsafe extern "C" fn start(image: &ImageHeader) -> ! {
    // SAFETY: it is the header of this body's image. The keeper's stack, where it has the like, is not this task's.
    let agent = &unsafe { Agent::new(image) };
    let control = agent.control();
    if control.fault.load(Relaxed) == fault::ARMED_DIES.number() {
        sys::exit(137);
    }
    let pid = if agent.is_shell() { sys::getpid() } else { register_task(agent) };
    if agent.has_sessions() {
        sys::setsid();
    }
    // Before the word that says that it is worth reading.
    sys::report(KEEPER_SOCKET_FD, Report::Armed { pid, is_shell: agent.is_shell() });
    agent.set_state(State::Armed);
    if agent.is_woken_ahead() && !agent.is_shell() {
        set_gate(agent, [gate as *const () as u64, agent.image_address()]);
        let mut room = MaybeUninit::uninit();
        enter(agent, copied(&mut room, &agent.image().registers));
    }
    take_order(agent, pid);
    leave(agent, &control.order)
}

fn leads_session(pid: i32) -> bool {
    // SAFETY: numbers.
    unsafe { sys::raw(nr::GETSID, [0; 6]) == pid as isize }
}

/// Called by a front end that was woken ahead of its order: comes back when the process has one, and is the run.
///
/// # Safety
/// `image` is what stands beside the address of this function.
unsafe extern "C" fn gate(image: *const ImageHeader) {
    // SAFETY: see above; the areas of the image stay mapped as long as this process lives.
    let agent = unsafe { Agent::new(image) };
    // There is one order.
    set_gate(&agent, [0; 2]);
    take_order(&agent, sys::getpid());
}

/// Tells the front end by which call it waits for its order.
fn set_gate(agent: &Agent, words: [u64; 2]) {
    let address = agent.image().gate_address as *mut [u64; 2];
    // SAFETY: whoever made the image has seen that the words lie in writable memory of the program, in which nothing else runs.
    unsafe { address.write(words) };
}

/// Waits for the order, and makes this process what it says.
fn take_order(agent: &Agent, pid: i32) {
    let control = agent.control();
    let mut room = FdRoom::new();
    let message = agent.receive(&mut room);
    if message.result <= 0 {
        // SAFETY: the keeper sleeps until this process is gone.
        unsafe { (*agent.private()).engine_gone = 1 };
        sys::exit(0);
    }
    let order = &control.order;
    if order.pid != pid {
        // It was for the process before this one, which was killed before it could take it.
        sys::exit(125);
    }
    let mut line = Line { socket: KEEPER_SOCKET_FD, first: KEEPER_SOCKET_FD };
    if let Err((step, error)) = carry_out(agent, order, &room, message.fds, &mut line) {
        refuse(agent, &line, step, error);
    }
    if agent.is_shell() {
        let error = shell::execute(agent, order, line.first);
        refuse(agent, &line, Refused::Exec, error);
    }
    // What is told from here on is not believed: a program cannot have this descriptor.
    let closed = sys::close_range(line.first as u32, u32::MAX, 0);
    if closed < 0 {
        refuse(agent, &line, Refused::Descriptors, closed);
    }
    place_memory(agent, order);
    if order.flags & order_flags::TIMES != 0 {
        control.main_ns.store(sys::now_ns(), Relaxed);
    }
    drop_signals(agent, &order.task);
    agent.set_state(State::Running);
    // Whoever has been told that it runs may send it a signal: from here on none is dropped.
    unblock_signals(&order.task);
}

/// Gives the kernel what it must know of this task's place in the memory: its thread descriptor, rseq, robust list.
/// Returns its number.
fn register_task(agent: &Agent) -> i32 {
    let image = agent.image();
    // SAFETY: addresses of the program's own thread descriptor, as they were registered at the snapshot.
    unsafe {
        if image.robust_list != 0 {
            let (list, bytes) = (image.robust_list as usize, image.robust_list_bytes as usize);
            sys::raw(nr::SET_ROBUST_LIST, [list, bytes, 0, 0, 0, 0]);
        }
        let tid = sys::raw(nr::SET_TID_ADDRESS, [image.tid_address as usize, 0, 0, 0, 0, 0]);
        let words = (image.tid_word_count as usize).min(image.tid_words.len());
        for word in image.tid_words.iter().take(words) {
            (*word as *mut i32).write(tid as i32);
        }
        if image.rseq_bytes != 0 {
            let (address, bytes) = (image.rseq_address as usize, image.rseq_bytes as usize);
            sys::raw(nr::RSEQ, [address, bytes, 0, image.rseq_signature as usize, 0, 0]);
        }
        if image.signal_stack[2] != 0 {
            sys::raw(nr::SIGALTSTACK, [image.signal_stack.as_ptr() as usize, 0, 0, 0, 0, 0]);
        }
        tid as i32
    }
}

/// Where an armed process tells that it refuses its order, until it closes this with all that is not the run's.
struct Line {
    socket: i32,
    /// The first of the descriptors that are not the run's.
    first: i32,
}

/// Reports that the order cannot be carried out; the engine falls back. Nothing of the program has run.
fn refuse(agent: &Agent, line: &Line, step: Refused, error: Res) -> ! {
    sys::report(
        line.socket,
        Report::Refused { serial: agent.control().order.serial, step, errno: -error as i32 },
    );
    agent.set_state(State::Resetting);
    sys::exit(regrow_abi::REFUSED_STATUS)
}

type Step = Result<(), (Refused, Res)>;

fn checked(step: Refused, result: Res) -> Step {
    if result < 0 { Err((step, result)) } else { Ok(()) }
}

/// Makes this process what an order says, but for its memory.
fn carry_out(agent: &Agent, order: &Order, room: &FdRoom, fds: usize, line: &mut Line) -> Step {
    let flags = order.flags;
    if flags & order_flags::PLACE_FDS != 0 {
        place_fds(order, room, fds, line)?;
    }
    checked(Refused::Filesystem, sys::unshare(CLONE_FS))?;
    // The run before this one can have written to the control area: the kernel is asked.
    match (order.task.session(), agent.has_sessions() && leads_session(order.pid)) {
        (true, false) => checked(Refused::Session, sys::setsid())?,
        (false, true) => return Err((Refused::Session, EPERM)),
        _ => (),
    }
    if flags & order_flags::BOUNDS != 0 {
        let [a, b, c, d] = order.bounds;
        checked(Refused::Bounds, bounds::set(agent, [order.start_stack, a, b, c, d]))?;
    }
    if agent.control().fault.load(Relaxed) == fault::ORDER_REFUSED.number() {
        return Err((Refused::Filesystem, -12));
    }
    if flags & order_flags::COMM != 0 {
        sys::prctl(PR_SET_NAME, &raw const order.comm as u64, 0, 0);
    }
    apply(&order.task)?;
    if flags & order_flags::CWD != 0 {
        let path = agent.args() as usize + order.cwd_offset as usize;
        // SAFETY: the engine has written a path with its NUL to the arg area, which is mapped.
        checked(Refused::Directory, unsafe { sys::raw(nr::CHDIR, [path, 0, 0, 0, 0, 0]) })?;
    }
    Ok(())
}

/// Gives this process the attributes of a task that are set, but for session and signals.
fn apply(task: &Task) -> Step {
    if let Some(group) = task.process_group() {
        // SAFETY: numbers.
        checked(Refused::ProcessGroup, unsafe { sys::raw(nr::SETPGID, [0, group as usize, 0, 0, 0, 0]) })?;
    }
    if let Some(mask) = task.umask() {
        // SAFETY: a number.
        unsafe { sys::raw(nr::UMASK, [mask as usize, 0, 0, 0, 0, 0]) };
    }
    if let Some(niceness) = task.nice() {
        // SAFETY: numbers.
        let result = unsafe { sys::raw(nr::SETPRIORITY, [0, 0, niceness as isize as usize, 0, 0, 0]) };
        checked(Refused::Nice, result)?;
    }
    if let Some(processors) = task.affinity() {
        checked(Refused::Scheduling, sys::set_affinity(processors))?;
    }
    if let Some(slice_ns) = task.slice_ns() {
        let result = sys::scheduling().map_or_else(|error| error, |own| set_slice(own, slice_ns));
        checked(Refused::Scheduling, result)?;
    }
    for (number, limit) in task.limits() {
        let limit = core::ptr::from_ref(limit) as usize;
        // SAFETY: a limit has the layout of `struct rlimit64`, and is only read.
        checked(Refused::Limit, unsafe { sys::raw(nr::PRLIMIT64, [0, number as usize, limit, 0, 0, 0]) })?;
    }
    Ok(())
}

/// Gives this process a slice. Only the ordinary policies have one.
fn set_slice(own: SchedAttr, slice_ns: u64) -> Res {
    own.with_slice(slice_ns).map_or(EINVAL, |changed| sys::set_scheduling(&changed))
}

/// Moves the descriptors of the message to their numbers: first all of them up, out of the way, then down. What is left above
/// them is closed last.
fn place_fds(order: &Order, room: &FdRoom, received: usize, line: &mut Line) -> Step {
    let count = received.min(order.fd_count as usize).min(MAX_FDS);
    if received != order.fd_count as usize {
        return Err((Refused::Descriptors, -24));
    }
    let mut base = 16;
    for target in order.fd_targets.iter().take(count) {
        base = base.max(target + 1);
    }
    for fd in room.fds.iter().take(count) {
        base = base.max(fd + 1);
    }
    for fd in room.fds.iter().take(count) {
        checked(Refused::Descriptors, sys::dup_above(*fd, base))?;
    }
    let socket = sys::dup_above(line.socket, base + count as i32);
    checked(Refused::Descriptors, socket)?;
    *line = Line { socket: socket as i32, first: base };
    checked(Refused::Descriptors, sys::close_range(0, base as u32 - 1, 0))?;
    for (index, target) in order.fd_targets.iter().enumerate().take(count) {
        checked(Refused::Descriptors, sys::dup3(base + index as i32, *target))?;
    }
    Ok(())
}

/// Everything of an order that belongs to the memory: the argument block, pointers to it, fresh secrets.
fn place_memory(agent: &Agent, order: &Order) {
    let image = agent.image();
    // SAFETY: the engine laid the block out for this image's stack; the patched words, the random bytes and the
    // canary lie in the image's writable memory.
    unsafe {
        arch::copy(order.block_address as *mut u8, agent.args(), order.block_bytes as usize);
        let patches = (order.patch_count as usize).min(MAX_PATCHES);
        for patch in order.patches.iter().take(patches) {
            (patch.address as *mut u64).write(patch.value);
        }
        if image.random_address != 0 {
            (image.random_address as *mut [u64; 2]).write_unaligned([order.random[0], order.random[1]]);
        }
        if image.canary_address != 0 {
            (image.canary_address as *mut u64).write(order.random[2] & !0xff);
        }
    }
    forget(agent, order);
}

/// Takes the run's arguments, environment and secrets out of the control area, where the next run could read them.
fn forget(agent: &Agent, order: &Order) {
    let used = (order.cwd_offset as usize).max(order.block_bytes as usize);
    let path = if order.flags & order_flags::CWD != 0 { PATH_MAX } else { 0 };
    let bytes = (used + path).min(regrow_abi::ARG_AREA_BYTES);
    // SAFETY: the arg area and the order lie in the control area; the engine writes them again for the next order.
    unsafe {
        arch::fill(agent.args().cast_mut(), 0, bytes);
        arch::fill((&raw const order.random).cast_mut().cast(), 0, size_of_val(&order.random));
    }
}

/// To the snapshot point, with this run's arguments.
fn leave(agent: &Agent, order: &Order) -> ! {
    let image = agent.image();
    let mut room = MaybeUninit::<Registers>::uninit();
    let registers = copied(&mut room, &image.registers);
    if image.point == point::ENTRY {
        registers.set_stack_pointer(order.stack_pointer);
    } else if image.point == point::MAIN {
        registers.set_argument::<0>(order.argc);
        registers.set_argument::<1>(order.argv);
        registers.set_argument::<2>(order.envp);
    }
    enter(agent, registers)
}

/// Copies registers, of the flags those that are a program's own. By hand: the compiler's `memcpy` is not there (see `memory`).
fn copied<'a>(room: &'a mut MaybeUninit<Registers>, from: &Registers) -> &'a mut Registers {
    // SAFETY: all bytes are copied.
    let registers = unsafe {
        arch::copy(room.as_mut_ptr().cast(), core::ptr::from_ref(from).cast(), size_of::<Registers>());
        room.assume_init_mut()
    };
    registers.keep_status_flags();
    registers
}

/// Goes on in the program with these registers.
fn enter(agent: &Agent, registers: &Registers) -> ! {
    // SAFETY: the memory of the snapshot is in place; the image's floating-point area is sealed and aligned.
    unsafe { arch::jump(registers, agent.float_state(), agent.has_extended_state(), agent.is_warm()) }
}
