//! A file system (FUSE) that answers everybody but the daemon: whatever the daemon itself asks of it waits for ever.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes before what a request says, and before what an answer says.
const REQUEST_HEADER: usize = 40;
const ANSWER_HEADER: usize = 16;
/// The least room that the kernel wants for requests, and more.
const ROOM: usize = 256 * 1024;
/// How long the server waits for a request before it looks whether it is to end, in nanoseconds.
const LOOK_NS: i64 = 10_000_000;

/// Kinds of requests.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// The root, and the one file that is there: any name but those that begin with `no`.
const ROOT: u64 = 1;
const FILE: u64 = 2;

/// The file system, mounted at a folder. At its end nothing waits for it any more.
pub(crate) struct Hanging {
    folder: PathBuf,
    waiting: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl Hanging {
    /// Mounts it at a folder that is there. `None` where this kernel, or this user, cannot.
    pub(crate) fn mount(folder: &Path, daemon: i32) -> Option<Hanging> {
        let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let mut mount = Command::new("mount");
        mount.args([
            "-i",
            "-t",
            "fuse",
            "-o",
            "fd=0,rootmode=40000,user_id=0,group_id=0,allow_other",
            "hanging",
        ]);
        mount.arg(folder).stdin(Stdio::from(device.try_clone().unwrap())).stderr(Stdio::null());
        let (waiting, is_over) = (Arc::default(), Arc::default());
        let (count, over) = (Arc::clone(&waiting), Arc::clone(&is_over));
        let server = std::thread::spawn(move || serve(device, daemon, &count, &over));
        let mounted = mount.status().unwrap().success();
        let hanging = Hanging { folder: folder.to_owned(), waiting, is_over, server: Some(server) };
        mounted.then_some(hanging)
    }

    /// How many requests of the daemon wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // Lazily: a file of it may be open. It is silent where nothing was mounted.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).stderr(Stdio::null()).status();
        self.is_over.store(true, SeqCst);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// Answers until it is over. The kernel ends every request that waits when the device is closed.
fn serve(mut device: File, daemon: i32, waiting: &AtomicUsize, is_over: &AtomicBool) {
    let mut room = vec![0; ROOM];
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
    while !is_over.load(SeqCst) {
        let ready = poll(&mut [PollFd::new(&device.as_fd(), PollFlags::IN)], Some(&timeout));
        if ready != Ok(1) {
            continue;
        }
        // Nothing to be read means that it is not mounted, or not any more.
        let Ok(length) = device.read(&mut room) else {
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        };
        let request = Request(&room[..length]);
        if fs::exists(format!("/proc/{daemon}/task/{}", request.process())).unwrap_or(false) {
            waiting.fetch_add(1, SeqCst);
        } else if let Some(answer) = request.answer() {
            // The one that asked may have been killed.
            let _ = device.write(&answer);
        }
    }
}

struct Request<'a>(&'a [u8]);

impl Request<'_> {
    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    /// The thread that asks.
    fn process(&self) -> u32 {
        self.word(32)
    }

    /// The whole answer; `None` where none is expected.
    fn answer(&self) -> Option<Vec<u8>> {
        let node = u64::from_ne_bytes(self.0[16..24].try_into().unwrap());
        let (error, said) = match self.word(4) {
            FORGET | BATCH_FORGET | INTERRUPT => return None,
            INIT => (0, init()),
            LOOKUP => match CStr::from_bytes_until_nul(&self.0[REQUEST_HEADER..]) {
                Ok(name) if name.to_bytes().starts_with(b"no") => (libc::ENOENT, Vec::new()),
                _ => (0, [numbers(&[FILE, 0, 0, 0, 0]), attributes(FILE)].concat()),
            },
            GETATTR => (0, [numbers(&[0, 0]), attributes(node)].concat()),
            OPEN | OPENDIR => (0, numbers(&[0, 0])),
            FLUSH | RELEASE | RELEASEDIR => (0, Vec::new()),
            _ => (libc::ENOSYS, Vec::new()),
        };
        let length = u32::try_from(ANSWER_HEADER + said.len()).unwrap();
        let mut answer = Vec::new();
        answer.extend(length.to_ne_bytes());
        answer.extend((-error).to_ne_bytes());
        answer.extend(&self.0[8..16]);
        answer.extend(said);
        Some(answer)
    }
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Version 7.31.
fn init() -> Vec<u8> {
    const WRITE: u32 = 1 << 16;
    /// Several names of a folder may be looked up at a time.
    const PARALLEL: u32 = 1 << 18;
    words(&[7, 31, 0, PARALLEL, 0, WRITE, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// Those of the root, which is a directory, or of the file, which is empty and may be executed.
fn attributes(node: u64) -> Vec<u8> {
    let mode = if node == ROOT { 0o40755 } else { 0o100_755 };
    [numbers(&[node, 0, 0, 0, 0, 0]), words(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])].concat()
}
