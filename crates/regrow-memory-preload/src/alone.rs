//! What a process with two threads may not do, or does for one of them alone: the keeper ends before it.
//!
//! ```text
//!   unshare, setns                      refused where there are two threads, for some namespaces
//!   setuid and its like, capset         the C library has each thread that it knows do it: another one would keep what the program gives up
//!   prctl: no new privileges, seccomp   calls of the keeper may be forbidden afterwards: it does not come again
//!   clone, _Fork                        a copy of the process, in which a lock of the keeper's would never be let go
//! ```
//!
//! `fork` does so by `pthread_atfork` (`served`). What a program does by system calls of its own, this library does not see.

#![allow(unsafe_code, reason = "C knows functions by name, and functions are called by address")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the C library's functions of the same names"
)]

use std::ffi::{CStr, c_char, c_void};

use libc::{
    CLONE_VM, ENOSYS, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SYS_prctl, SYS_setns, SYS_unshare, c_int, c_long,
    c_ulong, gid_t, pid_t, size_t, syscall, uid_t,
};

use crate::keeper::{self, Barred};
use crate::{errno, served};

/// Has no keeper until it is dropped.
fn alone() -> Option<Barred> {
    let error = errno::get();
    let barred = served::get().map(keeper::bar);
    errno::set(error);
    barred
}

/// The next library's function of a name.
fn next(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

fn missing() -> c_int {
    errno::set(ENOSYS);
    -1
}

/// A function that passes on to the next library's of the same name, without a keeper.
macro_rules! alone {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            let Some(next) = next(CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).unwrap_or(c"")) else {
                return missing();
            };
            // SAFETY: the function of this name has this type in each C library.
            let next: unsafe extern "C" fn($($type),*) -> c_int = unsafe { std::mem::transmute(next) };
            let _alone = alone();
            // SAFETY: the contract is the same.
            unsafe { next($($argument),*) }
        }
    )*};
}

alone! {
    setuid(user: uid_t);
    setgid(group: gid_t);
    seteuid(user: uid_t);
    setegid(group: gid_t);
    setreuid(real: uid_t, effective: uid_t);
    setregid(real: gid_t, effective: gid_t);
    setresuid(real: uid_t, effective: uid_t, saved: uid_t);
    setresgid(real: gid_t, effective: gid_t, saved: gid_t);
    setgroups(count: size_t, groups: *const gid_t);
    initgroups(user: *const c_char, group: gid_t);
    capset(header: *mut c_void, data: *const c_void);
}

fn result_of(result: c_long) -> c_int {
    c_int::try_from(result).unwrap_or(-1)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    let _alone = alone();
    // SAFETY: numbers only.
    result_of(unsafe { syscall(SYS_unshare, flags) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn setns(file: c_int, kind: c_int) -> c_int {
    let _alone = alone();
    // SAFETY: numbers only.
    result_of(unsafe { syscall(SYS_setns, file, kind) })
}

/// Arguments that a caller has not passed are what stands in their registers, and the kernel does not look at them.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn prctl(
    what: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if what == PR_SET_NO_NEW_PRIVS || what == PR_SET_SECCOMP {
        let error = errno::get();
        if let Some(served) = served::get() {
            keeper::end(served);
        }
        errno::set(error);
    }
    // SAFETY: the contract is the same.
    result_of(unsafe { syscall(SYS_prctl, what, second, third, fourth, fifth) })
}

/// Has no keeper while a copy of the process is made, and has it go on afterwards where it was there: without a lock, as a signal's handler
/// may be who asks.
struct Copying(Option<(Barred, bool)>);

impl Copying {
    fn new() -> Copying {
        Copying(served::get().map(|_| keeper::bar_only()))
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        let was_there = self.0.take().is_some_and(|(_barred, was_there)| was_there);
        if was_there {
            keeper::call();
        }
    }
}

/// Without the handlers of `fork`.
#[cfg_attr(not(test), unsafe(export_name = "_Fork"))]
unsafe extern "C" fn fork_alone() -> pid_t {
    let Some(next) = next(c"_Fork") else { return missing() };
    // SAFETY: the function of this name has this type in each C library.
    let next: unsafe extern "C" fn() -> pid_t = unsafe { std::mem::transmute(next) };
    let mut copying = Copying::new();
    // SAFETY: the contract is the same.
    let child = unsafe { next() };
    if child == 0 {
        // It most often executes another program in a moment: the keeper of the first one does not go on in it.
        drop(copying.0.take());
    }
    child
}

type Entry = extern "C" fn(*mut c_void) -> c_int;

/// Arguments that a caller has not passed are what stands in their places, and the kernel does not look at them. A child begins on a stack of
/// its own, and never comes back here.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn clone(
    entry: Entry,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent: *mut pid_t,
    storage: *mut c_void,
    child: *mut pid_t,
) -> c_int {
    type Clone = unsafe extern "C" fn(
        Entry,
        *mut c_void,
        c_int,
        *mut c_void,
        *mut pid_t,
        *mut c_void,
        *mut pid_t,
    ) -> c_int;
    let Some(next) = next(c"clone") else { return missing() };
    // SAFETY: the function of this name has this type in each C library, but for the last three, which it takes where the flags say so.
    let next: Clone = unsafe { std::mem::transmute(next) };
    let _copying = (flags & CLONE_VM == 0).then(Copying::new);
    // SAFETY: the contract is the same.
    unsafe { next(entry, stack, flags, argument, parent, storage, child) }
}
