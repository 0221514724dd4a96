//! The functions as a program would have them without this library: of the next library that has them.
//!
//! Each is looked up when it is first called; processes that are forked have what their parent has found.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::sys;

/// A function.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Name {
    Fork,
    ForkAlone,
    Clone,
    PosixSpawn,
    PosixSpawnp,
    Forkpty,
    Daemon,
    System,
    Popen,
    Wordexp,
    Execve,
    Execv,
    Execvp,
    Execvpe,
    Execl,
    Execle,
    Execlp,
    Fexecve,
    ExitNow,
    ExitNowToo,
    Wait4,
    Waitid,
    StartMain,
}

const NAMES: [&CStr; 23] = [
    c"fork",
    c"_Fork",
    c"clone",
    c"posix_spawn",
    c"posix_spawnp",
    c"forkpty",
    c"daemon",
    c"system",
    c"popen",
    c"wordexp",
    c"execve",
    c"execv",
    c"execvp",
    c"execvpe",
    c"execl",
    c"execle",
    c"execlp",
    c"fexecve",
    c"_exit",
    c"_Exit",
    c"wait4",
    c"waitid",
    c"__libc_start_main",
];
const _: () = assert!(NAMES.len() == Name::StartMain as usize + 1);

static FOUND: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The address of a function, never 0: where no library has it, of one that fails.
pub fn address(name: Name) -> usize {
    const NEXT: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);
    let (Some(found), Some(text)) = (FOUND.get(name as usize), NAMES.get(name as usize)) else {
        return is_missing as *const () as usize;
    };
    match found.load(Relaxed) {
        0 => {
            // SAFETY: the name ends in a NUL.
            let address = unsafe { dlsym(NEXT, text.as_ptr()) }.expose_provenance();
            let address = if address == 0 { is_missing as *const () as usize } else { address };
            found.store(address, Relaxed);
            address
        }
        address => address,
    }
}

/// In the place of a function that no library has.
extern "C" fn is_missing() -> c_int {
    const ENOSYS: c_int = 38;
    sys::set_errno(ENOSYS);
    -1
}

/// Something that the program has, by its name; null where it has none.
pub fn of_program(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends in a NUL.
    unsafe { dlsym(null_mut(), name.as_ptr()) }
}

/// A function of the table as a value of its type.
macro_rules! next {
    ($name:ident, $type:ty) => {{
        let address = $crate::next::address($crate::next::Name::$name);
        let function: *const core::ffi::c_void = core::ptr::with_exposed_provenance(address);
        // SAFETY: the function of this name has this type in each C library.
        unsafe { core::mem::transmute::<*const core::ffi::c_void, $type>(function) }
    }};
}
pub(crate) use next;
