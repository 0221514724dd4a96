//! What happens when a program begins and ends: the channel is mapped, the image is told, `main` is noted, and at the end what was used.

use core::ffi::{CStr, c_char, c_int, c_ulong};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use regrow_abi::sites::{CHANNEL_BYTES, Channel, Interpreter, Record, VARIABLE};

use crate::modules::{self, Module};
use crate::next::{self, Name};
use crate::{script, state, sys, tell};

unsafe extern "C" {
    static environ: *const *const c_char;
    fn getauxval(kind: c_ulong) -> c_ulong;
}

/// The program's own `main`.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// The constructor.
pub extern "C" fn begin(_: c_int, _: usize, given: *const *const c_char) {
    // SAFETY: the C library sets its list before it runs the constructors of others, or hands the list over.
    let list = if unsafe { environ }.is_null() { given } else { unsafe { environ } };
    // SAFETY: it is such a list.
    let Some(path) = (unsafe { variable(list) }) else { return };
    let Some(mapped) = sys::map_file(path, CHANNEL_BYTES) else { return };
    // SAFETY: so many bytes were mapped, and nothing unmaps them but the next lines.
    unsafe { state::set_channel(core::ptr::with_exposed_provenance_mut(mapped)) };
    let Some(channel) = state::channel() else {
        // SAFETY: nobody has the address any more.
        unsafe {
            state::set_channel(core::ptr::null_mut());
            sys::unmap(mapped, CHANNEL_BYTES);
        }
        return;
    };
    tell_program(channel, list as usize);
}

fn tell_program(channel: Channel<'_>, stack_top: usize) {
    const PROGRAM_HEADERS: c_ulong = 3;
    let pid = sys::process_number();
    if modules::is_glibc() {
        state::set_number(pid);
    }
    // SAFETY: a number.
    let headers = unsafe { getauxval(PROGRAM_HEADERS) } as usize;
    let image = Module::at(headers).map_or(0, |module| module.meet().0);
    let interpreter = if image == 0 { Interpreter::None } else { name_program(channel, pid, image) };
    state::set_program(image, interpreter as u8, pid, stack_top);
    let parent = sys::parent_number();
    tell::record(channel, pid, &Record::Executed { pid, time_ns: sys::now_ns(), parent, image });
}

/// Names the program if nobody has, and says what it interprets.
fn name_program(channel: Channel<'_>, pid: u32, image: u64) -> Interpreter {
    if let Some(interpreter) = channel.known().find(image) {
        return interpreter;
    }
    let mut buffer = [0; tell::LONGEST];
    let Some(path) = sys::read_link(modules::OWN_FILE, &mut buffer) else { return Interpreter::None };
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let interpreter = Interpreter::of_name(file);
    tell::image(channel, pid, image, interpreter, path);
    interpreter
}

/// The value of the variable that names the channel.
///
/// # Safety
/// It is null, or a list of C strings that ends in null.
unsafe fn variable(mut list: *const *const c_char) -> Option<&'static CStr> {
    if list.is_null() {
        return None;
    }
    loop {
        // SAFETY: the list was read up to here, and it has not ended. Its strings live as long as the process.
        let text = unsafe { (!(*list).is_null()).then(|| CStr::from_ptr(*list)) }?;
        let bytes = text.to_bytes_with_nul();
        if let Some(value) = bytes.strip_prefix(VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
        {
            return CStr::from_bytes_with_nul(value).ok();
        }
        // SAFETY: as above.
        list = unsafe { list.add(1) };
    }
}

/// What the C library's function that calls `main` is given.
#[repr(C)]
pub struct Start {
    /// That function.
    next: usize,
    /// In the place of `main`.
    main: usize,
}

/// Notes `main` and its arguments.
pub extern "C" fn before_main(main: usize, count: c_int, words: *const *const u8, ours: usize) -> Start {
    let next = next::address(Name::StartMain);
    if state::channel().is_none() {
        return Start { next, main };
    }
    MAIN.store(main, Relaxed);
    script::set_arguments(count, words);
    Start { next, main: ours }
}

/// `main` is called; its address.
pub extern "C" fn main() -> usize {
    if let Some(channel) = state::channel() {
        let pid = state::own_number();
        tell::record(
            channel,
            pid,
            &Record::Started { pid, time_ns: sys::now_ns(), call: Some(script::call()) },
        );
    }
    MAIN.load(Relaxed)
}

/// The destructor, and what precedes an end without destructors. A process that was forked and has executed nothing is its parent's to tell of.
pub extern "C" fn end() {
    if !state::is_owner(state::own_number()) {
        return;
    }
    // What ends may be the child of a system call that nobody has seen.
    let pid = sys::process_number();
    if let Some(channel) = state::is_owner(pid).then(state::channel).flatten() {
        let (cpu_ns, time_ns) = (sys::own_cpu_ns(), sys::now_ns());
        tell::record(channel, pid, &Record::Ended { pid, time_ns, cpu_ns });
    }
}
