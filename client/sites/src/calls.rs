//! What stands in the place of the C library's functions: `arch` has their names.
//!
//! | functions | how |
//! |---|---|
//! | `fork`, `_Fork`, `posix_spawn(p)`, `clone`, `forkpty` | the parent tells, after the next function has given the child's number |
//! | `vfork` | the system call itself; the child tells, as its parent stands still |
//! | `system`, `popen`, `wordexp` | the creation is told before, without a number: the child tells that it executes a shell |
//! | `daemon` | the child tells, as its parent ends |
//! | `execve` and its family, `_exit` | told before |
//! | `wait`, `waitpid`, `wait3`, `wait4` | `wait4`, which gives what was used as well |

use core::ffi::{c_int, c_void};
use core::ptr::null;

use regrow_abi::sites::{Class, How, Place, Record, WaitStatus, fnv1a};

use crate::caller::Caller;
use crate::create::Pending;
use crate::next::{self, Name, next};
use crate::sys::Usage;
use crate::{schedule, state, sys, tell, text};

/// What `posix_spawn` is given.
pub struct SpawnCall {
    pub child: *mut c_int,
    pub path: *const u8,
    pub actions: *const c_void,
    pub attributes: *const c_void,
    pub argv: *const *const u8,
    pub envp: *const *const u8,
}

/// Where `clone` puts numbers of the child, and what the child has for thread-local storage.
pub struct Ids {
    pub parent_id: *mut c_int,
    pub tls: *const c_void,
    pub child_id: *mut c_int,
}

/// `fork`.
pub extern "C" fn fork(address: usize, stack: usize, frame: usize) -> c_int {
    fork_by(next!(Fork, unsafe extern "C" fn() -> c_int), Caller { address, stack, frame })
}

/// `_Fork`.
pub extern "C" fn fork_alone(address: usize, stack: usize, frame: usize) -> c_int {
    fork_by(next!(ForkAlone, unsafe extern "C" fn() -> c_int), Caller { address, stack, frame })
}

fn fork_by(next: unsafe extern "C" fn() -> c_int, from: Caller) -> c_int {
    let pending = Pending::at(How::Fork, &from, None, null());
    // A child that looks them up itself meets pages that it does not have yet.
    for name in [Name::ExitNow, Name::Execve, Name::Execv, Name::Execvp] {
        next::address(name);
    }
    // SAFETY: it takes nothing.
    let child = unsafe { next() };
    if let Some(pending) = pending {
        match child {
            0 => pending.in_child(),
            1.. => pending.tell(child as u32),
            _ => {}
        }
    }
    child
}

/// Before the system call of `vfork`.
pub extern "C" fn before_vfork(address: usize, stack: usize, frame: usize, room: &mut Option<Pending>) {
    // SAFETY: the room is not initialized, and nothing in it is dropped.
    unsafe {
        core::ptr::write(room, Pending::at(How::Vfork, &Caller { address, stack, frame }, None, null()))
    };
}

/// In the child of `vfork`, which has its parent's memory.
pub extern "C" fn in_vfork_child(number: u32, pending: &Option<Pending>) {
    if let Some(pending) = pending {
        pending.tell(number);
        pending.in_child();
    }
}

/// Where `vfork` has failed: the result of the system call.
pub extern "C" fn vfork_failed(result: isize) -> c_int {
    sys::set_errno(-result as c_int);
    -1
}

/// `posix_spawn` and `posix_spawnp`.
///
/// # Safety
/// As of the C library's.
pub unsafe fn spawn(name: Name, call: SpawnCall, from: Caller) -> c_int {
    type Spawn = unsafe extern "C" fn(
        *mut c_int,
        *const u8,
        *const c_void,
        *const c_void,
        *const *const u8,
        *const *const u8,
    ) -> c_int;
    let next = match name {
        Name::PosixSpawnp => next!(PosixSpawnp, Spawn),
        _ => next!(PosixSpawn, Spawn),
    };
    // SAFETY: a path ends in NUL.
    let path = (!call.path.is_null()).then(|| unsafe { text::bytes_of(call.path) });
    let pending = Pending::at(How::Spawn, &from, path, call.argv);
    let mut number = 0;
    let child = if call.child.is_null() { &raw mut number } else { call.child };
    // SAFETY: the arguments are the caller's, but for a place where the number is written.
    let result = unsafe { next(child, call.path, call.actions, call.attributes, call.argv, call.envp) };
    if result == 0
        && let Some(pending) = pending
    {
        // SAFETY: the function has written it.
        pending.tell_and_schedule(unsafe { child.read() } as u32);
    }
    result
}

/// `clone`: a thread passes through.
///
/// # Safety
/// As of the C library's.
pub unsafe fn clone(
    function: *const c_void,
    stack: *const c_void,
    flags: c_int,
    argument: *const c_void,
    ids: &Ids,
    from: Caller,
) -> c_int {
    const THREAD: c_int = 0x10000;
    type Clone = unsafe extern "C" fn(*const c_void, *const c_void, c_int, *const c_void, ...) -> c_int;
    let next = next!(Clone, Clone);
    let pending = if flags & THREAD == 0 { Pending::at(How::Clone, &from, None, null()) } else { None };
    // SAFETY: the arguments are the caller's.
    let child = unsafe { next(function, stack, flags, argument, ids.parent_id, ids.tls, ids.child_id) };
    if child > 0
        && let Some(pending) = pending
    {
        pending.tell_and_schedule(child as u32);
    }
    child
}

/// `forkpty`.
///
/// # Safety
/// As of the C library's.
pub unsafe extern "C" fn forkpty(
    master: *mut c_int,
    name: *mut u8,
    terminal: *const c_void,
    size: *const c_void,
    from: Caller,
) -> c_int {
    type Forkpty = unsafe extern "C" fn(*mut c_int, *mut u8, *const c_void, *const c_void) -> c_int;
    let next = next!(Forkpty, Forkpty);
    let pending = Pending::at(How::Forkpty, &from, None, null());
    // SAFETY: the arguments are the caller's.
    let child = unsafe { next(master, name, terminal, size) };
    if let Some(pending) = pending {
        match child {
            0 => pending.in_child(),
            1.. => pending.tell(child as u32),
            _ => {}
        }
    }
    child
}

/// `daemon`: where it returns without an error, it does so in the child.
///
/// # Safety
/// As of the C library's.
pub unsafe extern "C" fn daemon(
    keep_folder: c_int,
    keep_streams: c_int,
    _: usize,
    _: usize,
    from: Caller,
) -> c_int {
    let next = next!(Daemon, unsafe extern "C" fn(c_int, c_int) -> c_int);
    let pending = Pending::at(How::Daemon, &from, None, null());
    // SAFETY: numbers.
    let result = unsafe { next(keep_folder, keep_streams) };
    if result == 0
        && let Some(pending) = pending
    {
        pending.tell(state::own_number());
        pending.in_child();
    }
    result
}

/// Before a function that creates a child inside of the C library; the address of that function.
pub extern "C" fn before_inner(
    name: Name,
    address: usize,
    stack: usize,
    frame: usize,
    _: *const u8,
) -> usize {
    let how = match name {
        Name::Popen => How::Popen,
        Name::Wordexp => How::Wordexp,
        _ => How::System,
    };
    if let Some(pending) = Pending::at(how, &Caller { address, stack, frame }, None, null()) {
        pending.tell(0);
    }
    next::address(name)
}

/// Before a program is executed; the address of the function that does.
///
/// # Safety
/// The first argument is a path, but for `fexecve`.
pub unsafe extern "C" fn before_exec(name: Name, _: usize, _: usize, _: usize, path: *const u8) -> usize {
    if let Some(channel) = state::channel() {
        // The memory may be the parent's.
        let pid = sys::process_number();
        let mut hash = 0;
        if !matches!(name, Name::Fexecve) && !path.is_null() {
            // SAFETY: see the contract.
            let path = unsafe { text::bytes_of(path) };
            hash = fnv1a(path);
            tell::text(channel, pid, hash, path);
        }
        if hash != 0
            && channel.levers().is_some()
            && let Some(key) = state::own_key(pid)
        {
            let keys = [Place::key_with_path(key, hash), Place::key_of_path(hash)];
            let class = channel.predictions().find(&keys);
            if class != Class::Unknown {
                schedule::apply(channel, 0, class);
            }
        }
        tell::record(channel, pid, &Record::Executing { pid, time_ns: sys::now_ns(), path: hash });
    }
    next::address(name)
}

/// Before an end without destructors; the address of the function that ends.
pub extern "C" fn before_exit(name: Name, _: usize, _: usize, _: usize, _: *const u8) -> usize {
    crate::begin::end();
    next::address(name)
}

type Wait4 = unsafe extern "C" fn(c_int, *mut c_int, c_int, *mut Usage) -> c_int;

/// Waits, and tells of a child that has ended.
///
/// # Safety
/// Each address is null, or there is room for what it is for.
unsafe fn wait_for(child: c_int, status: *mut c_int, options: c_int, usage: *mut Usage) -> c_int {
    let next = next!(Wait4, Wait4);
    let Some(channel) = state::channel() else {
        // SAFETY: see the contract.
        return unsafe { next(child, status, options, usage) };
    };
    let (mut own_status, mut own_usage) = (0, Usage::default());
    let status = if status.is_null() { &raw mut own_status } else { status };
    let usage = if usage.is_null() { &raw mut own_usage } else { usage };
    // SAFETY: see the contract; there is room for both.
    let ended = unsafe { next(child, status, options, usage) };
    if ended > 0 {
        // SAFETY: the function has written both.
        let (status, usage) = unsafe { (status.read(), &*usage) };
        // Not one that was stopped (0x7f) or goes on (0xffff).
        if status & 0xff != 0x7f && status != 0xffff {
            let (pid, time_ns) = (state::own_number(), sys::now_ns());
            let cpu_ns = Some(usage.cpu_ns());
            let end = WaitStatus { child: ended as u32, status, cpu_ns, peak_kib: usage.peak_kib() };
            tell::record(channel, pid, &Record::Waited { pid, time_ns, end });
        }
    }
    ended
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wait(status: *mut c_int) -> c_int {
    // SAFETY: the contract is that of the C library's function.
    unsafe { wait_for(-1, status, 0, core::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int {
    // SAFETY: the contract is that of the C library's function.
    unsafe { wait_for(child, status, options, core::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wait3(status: *mut c_int, options: c_int, usage: *mut Usage) -> c_int {
    // SAFETY: the contract is that of the C library's function.
    unsafe { wait_for(-1, status, options, usage) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wait4(child: c_int, status: *mut c_int, options: c_int, usage: *mut Usage) -> c_int {
    // SAFETY: the contract is that of the C library's function.
    unsafe { wait_for(child, status, options, usage) }
}

/// The part of `siginfo_t` that `waitid` fills.
#[repr(C)]
struct Info {
    signal: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    child: c_int,
    user: c_int,
    status: c_int,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn waitid(kind: c_int, id: c_int, info: *mut c_void, options: c_int) -> c_int {
    const LEFT_WAITING: c_int = 0x0100_0000;
    const EXITED: c_int = 1;
    const KILLED: c_int = 2;
    const DUMPED: c_int = 3;
    let next = next!(Waitid, unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int) -> c_int);
    // SAFETY: the contract is the same.
    let result = unsafe { next(kind, id, info, options) };
    if result == 0
        && !info.is_null()
        && options & LEFT_WAITING == 0
        && let Some(channel) = state::channel()
    {
        // SAFETY: the function has written it.
        let info = unsafe { info.cast::<Info>().read() };
        let status = match info.code {
            EXITED => (info.status & 0xff) << 8,
            KILLED => info.status & 0x7f,
            DUMPED => info.status & 0x7f | 0x80,
            _ => return result,
        };
        if info.child > 0 {
            let (pid, time_ns) = (state::own_number(), sys::now_ns());
            let end = WaitStatus { child: info.child as u32, status, cpu_ns: None, peak_kib: 0 };
            tell::record(channel, pid, &Record::Waited { pid, time_ns, end });
        }
    }
    result
}
