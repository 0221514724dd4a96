//! Perl with threads, as distributions build it: the words "at FILE line N" that it puts to a message.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::teller::{Teller, hash};
use crate::next;

/// The addresses; the first is 0 while they were not looked for, and 1 where one is not there.
static FOUND: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
const NAMES: [&CStr; 4] = [c"PL_thr_key", c"pthread_getspecific", c"Perl_mess", c"Perl_sv_2pv_flags"];

fn find() -> Option<[usize; 4]> {
    let load = || FOUND.each_ref().map(|found| found.load(Relaxed));
    match load() {
        [0, ..] => {
            let addresses = NAMES.map(|name| next::of_program(name).expose_provenance());
            let is_whole = !addresses.contains(&0);
            for (found, address) in FOUND.iter().zip(addresses).skip(1) {
                found.store(address, Relaxed);
            }
            FOUND.first()?.store(if is_whole { addresses[0] } else { 1 }, Relaxed);
            is_whole.then_some(addresses)
        }
        [1, ..] => None,
        addresses => Some(addresses),
    }
}

/// File and line.
pub fn place(tell: Teller<'_>) -> Option<(u64, u64)> {
    let [key, get, message, text] = find()?;
    // SAFETY: the key of the interpreter, which each thread has its own under, and functions of Perl's interface of these types. The thread is in a
    // call that its interpreter makes, so that nothing else uses the interpreter. The value is temporary: Perl frees it.
    unsafe {
        let get = core::mem::transmute::<usize, unsafe extern "C" fn(c_int) -> *mut c_void>(get);
        let message = core::mem::transmute::<
            usize,
            unsafe extern "C" fn(*mut c_void, *const c_char, ...) -> *mut c_void,
        >(message);
        let text = core::mem::transmute::<
            usize,
            unsafe extern "C" fn(*mut c_void, *mut c_void, *mut usize, u32) -> *const u8,
        >(text);
        let interpreter = get(core::ptr::with_exposed_provenance::<c_int>(key).read());
        if interpreter.is_null() {
            return None;
        }
        let value = message(interpreter, c"".as_ptr());
        let mut length = 0;
        let bytes = text(interpreter, value, &raw mut length, 0);
        if bytes.is_null() {
            return None;
        }
        split(core::slice::from_raw_parts(bytes, length), tell)
    }
}

/// Of " at FILE line N.", which more may follow.
fn split(message: &[u8], tell: Teller<'_>) -> Option<(u64, u64)> {
    const LINE: &[u8] = b" line ";
    let rest = message.strip_prefix(b" at ")?;
    let end = rest.windows(LINE.len()).position(|part| part == LINE)?;
    let digits = rest.get(end + LINE.len()..)?.iter().take_while(|byte| byte.is_ascii_digit());
    let line = digits.fold(0u64, |line, &digit| line.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    Some((hash(rest.get(..end)?, tell), line))
}
