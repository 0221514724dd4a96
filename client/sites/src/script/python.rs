//! CPython 3.9 and later: the innermost frame outside of the standard library, by its C interface.
//!
//! Frames may only be looked at by the thread that has the interpreter's lock. `subprocess`, `os.fork` and `os.posix_spawn` have it where they
//! create a child; `os.system` has given it up, and there is no place then.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use regrow_abi::sites::fnv1a;

use super::teller::{Teller, hash};
use crate::next;

/// Frames that are looked at.
const DEEPEST: usize = 64;

const NAMES: [&CStr; 10] = [
    c"_PyThreadState_UncheckedGet",
    c"PyGILState_GetThisThreadState",
    c"PyErr_Occurred",
    c"PyThreadState_GetFrame",
    c"PyFrame_GetBack",
    c"PyFrame_GetCode",
    c"PyFrame_GetLineNumber",
    c"PyObject_GetAttrString",
    c"PyUnicode_AsUTF8AndSize",
    c"Py_DecRef",
];
/// The addresses; the first is 0 while they were not looked for, and 1 where one is not there.
static FOUND: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

type Object = *mut c_void;

/// The functions.
struct Interface {
    state: unsafe extern "C" fn() -> Object,
    own_state: unsafe extern "C" fn() -> Object,
    error: unsafe extern "C" fn() -> Object,
    frame: unsafe extern "C" fn(Object) -> Object,
    back: unsafe extern "C" fn(Object) -> Object,
    code: unsafe extern "C" fn(Object) -> Object,
    line: unsafe extern "C" fn(Object) -> c_int,
    attribute: unsafe extern "C" fn(Object, *const c_char) -> Object,
    text: unsafe extern "C" fn(Object, *mut isize) -> *const u8,
    release: unsafe extern "C" fn(Object),
}

fn find() -> Option<Interface> {
    let mut addresses = FOUND.each_ref().map(|found| found.load(Relaxed));
    if addresses[0] == 0 {
        addresses = NAMES.map(|name| next::of_program(name).expose_provenance());
        if addresses.contains(&0) {
            addresses[0] = 1;
        }
        for (found, address) in FOUND.iter().zip(addresses).rev() {
            found.store(address, Relaxed);
        }
    }
    // SAFETY: Python has functions of these types under these names, in this order.
    (addresses[0] != 1).then(|| unsafe { core::mem::transmute::<[usize; NAMES.len()], Interface>(addresses) })
}

/// File and line.
pub fn place(tell: Teller<'_>) -> Option<(u64, u64)> {
    let python = find()?;
    // SAFETY: of the interpreter's functions, those that need its lock are called only where the state that has it is this thread's. Each reference
    // that they give is given back.
    unsafe {
        let state = (python.state)();
        if state.is_null() || state != (python.own_state)() || !(python.error)().is_null() {
            return None;
        }
        let mut frame = (python.frame)(state);
        let mut found = None;
        for _ in 0..DEEPEST {
            if frame.is_null() {
                break;
            }
            let (file, is_library) = python.file(frame, tell)?;
            found = Some((file, u64::from((python.line)(frame).max(0).unsigned_abs())));
            let outer = if is_library { (python.back)(frame) } else { core::ptr::null_mut() };
            (python.release)(frame);
            frame = outer;
        }
        if !frame.is_null() {
            (python.release)(frame);
        }
        found
    }
}

impl Interface {
    /// The file of a frame, as its hash, and whether it is of the standard library.
    ///
    /// # Safety
    /// The frame is one, and this thread has the interpreter's lock.
    unsafe fn file(&self, frame: Object, tell: Teller<'_>) -> Option<(u64, bool)> {
        // SAFETY: see the contract. The text lives as long as the name, which the code keeps.
        unsafe {
            let code = (self.code)(frame);
            let name = (self.attribute)(code, c"co_filename".as_ptr());
            let mut length = 0;
            let text = if name.is_null() { core::ptr::null() } else { (self.text)(name, &raw mut length) };
            let found = (!text.is_null()).then(|| {
                let file = core::slice::from_raw_parts(text, length.unsigned_abs());
                let is_library = is_library(file);
                (if is_library { fnv1a(file) } else { hash(file, tell) }, is_library)
            });
            if !name.is_null() {
                (self.release)(name);
            }
            (self.release)(code);
            found
        }
    }
}

/// Whether a file is of the standard library.
fn is_library(file: &[u8]) -> bool {
    let has = |part: &[u8]| file.windows(part.len()).any(|window| window == part);
    file.starts_with(b"<frozen ")
        || (has(b"/lib/python3") || has(b"/lib/pypy3"))
            && !has(b"/site-packages/")
            && !has(b"/dist-packages/")
            // Tests that come with the library are users of it.
            && !has(b"/test/test_")
}
