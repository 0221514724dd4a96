//! The full command, which does what this client does not: its path is in the client's file, where `regrow link` has written it.

use regrow_abi::client::{COMMAND, COMMAND_PATH_BYTES, HANDED_OVER, SETTINGS_MAGIC};
use regrow_client::buffer::Buffer;
use regrow_client::sys;

use crate::start::Start;

/// Most arguments that are handed over; beyond it, the program is executed without the full command.
const MOST_ARGUMENTS: usize = 4096;

/// Where `regrow link` writes the path of the full command.
#[repr(C)]
struct Settings {
    magic: [u8; 16],
    path: [u8; COMMAND_PATH_BYTES],
}

#[unsafe(link_section = ".settings")]
#[used]
static SETTINGS: Settings = Settings { magic: SETTINGS_MAGIC, path: [0; COMMAND_PATH_BYTES] };

/// The path, with its NUL.
fn path() -> *const u8 {
    let path: *const u8 = SETTINGS.path.as_ptr();
    // The compiler knows the zeros that stood there when it compiled this, and not what stands there now.
    core::hint::black_box(path)
}

/// What the full command is to do.
pub enum HandOver<'a> {
    /// Start anew as the launcher of this name.
    Launcher(&'a [u8]),
    /// Start anew with the same command line.
    Same,
    /// Take over a run that was asked for.
    Run(&'a TakenOver<'a>),
}

/// What the full command must know of a run that was asked for.
pub struct TakenOver<'a> {
    /// The connection.
    pub socket: i32,
    /// The ticket.
    pub ticket: i32,
    /// The process, or -1 where the daemon has not told it yet.
    pub pidfd: i32,
    /// Its number.
    pub pid: i32,
    /// The signals that this process blocked.
    pub blocked: u64,
    /// The path of the program.
    pub program: &'a [u8],
}

impl TakenOver<'_> {
    fn put<const N: usize>(&self, to: &mut Buffer<N>) {
        for fd in [self.socket, self.ticket, self.pidfd, self.pid] {
            to.put(b"/");
            match u64::try_from(fd) {
                Ok(number) => to.hexadecimal(number),
                Err(_) => to.put(b"-"),
            }
        }
        to.put(b"/");
        to.hexadecimal(self.blocked);
        to.put(b"/");
        to.put(self.program);
    }
}

/// Executes the full command. `first` is the argument that is the program's `argv[0]`. Returns when that fails.
#[cold]
#[inline(never)] // Its frame is large, and each page of it costs a fault.
pub fn hand_over(what: &HandOver<'_>, start: &Start, first: usize) {
    let mut text = Buffer::<4500>::new();
    match what {
        HandOver::Same => {
            // SAFETY: path and lists end as they must.
            unsafe { sys::execute(path(), start.args.as_ptr(), start.env) };
            return;
        }
        HandOver::Launcher(name) => text.put(name),
        HandOver::Run(run) => {
            for fd in [run.socket, run.ticket, run.pidfd].into_iter().filter(|&fd| fd >= 0) {
                sys::keep_in_exec(fd);
            }
            run.put(&mut text);
        }
    }
    text.put(&[0]);
    let mut name = Buffer::<16>::new();
    name.put(COMMAND);
    name.put(&[0]);
    let mut marker = Buffer::<16>::new();
    marker.put(HANDED_OVER);
    marker.put(&[0]);
    let mut list = core::mem::MaybeUninit::<[*const u8; MOST_ARGUMENTS]>::uninit();
    let to: *mut *const u8 = list.as_mut_ptr().cast();
    let rest = start.args.get(first..).unwrap_or_default();
    if rest.len() + 4 > MOST_ARGUMENTS || !text.is_whole() {
        return;
    }
    // SAFETY: there is room for so many pointers, all strings end in NUL, and the list in null.
    unsafe {
        for (at, string) in [name.pointer(), marker.pointer(), text.pointer()].into_iter().enumerate() {
            to.add(at).write(string);
        }
        for (at, &string) in rest.iter().enumerate() {
            to.add(3 + at).write(string);
        }
        to.add(3 + rest.len()).write(core::ptr::null());
        sys::execute(path(), to, start.env);
    }
}
