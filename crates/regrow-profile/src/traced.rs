//! Events out of what a tracer sees: exact, without frames, and dearer for the command than the other collectors.
//!
//! ```text
//!   Follower ──Born, Executed, Reached, Leaving, Gone──> Traced ──Created, Executed, Ended, Named──> Profile
//!                                                          └── /proc/PID of the process, which is stopped
//! ```
//!
//! A site is the parent's program, and its script where it is a shell or another interpreter that was started with one. The call of `main` is seen by a
//! breakpoint, where the file says at which address it is.

mod main_address;
mod script;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use regrow_sites::{Event, ImageId, ProcessKey, Script, Site, Usage};
use regrow_sys::follow::{Follower, Happened};
use regrow_sys::raw;
use rustix::time::{ClockId, clock_gettime};

use self::main_address::MainAddress;
use crate::image;

/// Programs of which is remembered where their `main` is.
const MOST_PROGRAMS: usize = 65_536;

/// What a tracer tells beside events.
#[derive(Debug)]
pub enum Told {
    /// An event.
    Event(Event),
    /// The name of a script, whose hash a site has.
    Script(u64, String),
}

/// A process that is traced.
#[derive(Debug, Clone, Copy)]
struct TracedProcess {
    key: ProcessKey,
    image: ImageId,
    script: Option<Script>,
    /// When it went on after its exec, until it comes to `main`.
    executed_us: Option<u64>,
    startup_us: Option<u64>,
    cpu_us: u64,
    peak_kib: u64,
}

/// Makes events of what happens to traced processes.
#[derive(Debug, Default)]
pub struct Traced {
    alive: HashMap<i32, TracedProcess>,
    named: HashSet<ImageId>,
    mains: HashMap<ImageId, Option<MainAddress>>,
}

impl Traced {
    /// Of a command that is about to be followed.
    #[must_use]
    pub fn new() -> Traced {
        Traced::default()
    }

    /// Tells what has just happened. The process is stopped until the follower goes on.
    pub fn take(&mut self, happened: Happened, follower: &Follower, tell: &mut impl FnMut(Told)) {
        match happened {
            Happened::Born { pid, parent } => self.born(pid, parent, tell),
            Happened::Executed { pid } => self.executed(pid, follower, tell),
            Happened::Reached { pid } => {
                let now_us = now_us();
                if let Some(process) = self.alive.get_mut(&pid) {
                    process.startup_us =
                        process.executed_us.take().map(|began_us| now_us.saturating_sub(began_us));
                }
            }
            Happened::Leaving { pid } => {
                let process = self.alive.entry(pid).or_insert_with(|| found(pid));
                process.cpu_us = raw::processor_time(pid).map_or(process.cpu_us, micros);
                process.peak_kib = process.peak_kib.max(peak_kib(pid));
            }
            Happened::Gone { pid, .. } => {
                let Some(process) = self.alive.remove(&pid) else { return };
                let TracedProcess { key, cpu_us, peak_kib, startup_us, .. } = process;
                let time_us = now_us();
                let life_us = time_us.saturating_sub(key.created_us);
                let usage = Usage { cpu_us, life_us, peak_kib, startup_us };
                tell(Told::Event(Event::Ended { time_us, process: key, usage }));
            }
        }
    }

    fn born(&mut self, pid: i32, parent: i32, tell: &mut impl FnMut(Told)) {
        let maker = *self.alive.entry(parent).or_insert_with(|| found(parent));
        let time_us = now_us();
        let key = ProcessKey { pid: pid.unsigned_abs(), created_us: time_us };
        let site = Site { image: maker.image, frames: Default::default(), script: maker.script, child: None };
        // A fork goes on with its parent's program.
        let child =
            TracedProcess { key, executed_us: None, startup_us: None, cpu_us: 0, peak_kib: 0, ..maker };
        self.alive.insert(pid, child);
        tell(Told::Event(Event::Created { time_us, process: key, parent: maker.key, site }));
    }

    fn executed(&mut self, pid: i32, follower: &Follower, tell: &mut impl FnMut(Told)) {
        let time_us = now_us();
        let file = File::open(format!("/proc/{pid}/exe")).ok();
        let image = file.as_ref().and_then(|file| image::id_of(file).ok()).unwrap_or(ImageId::UNKNOWN);
        let path = executable(pid);
        let script = script::of(pid, &path);
        if let Some((script, name)) = &script {
            tell(Told::Script(script.file, name.clone()));
        }
        if self.named.insert(image) {
            tell(Told::Event(Event::Named { image, path }));
        }
        let before = self.alive.get(&pid).copied().unwrap_or_else(|| found(pid));
        tell(Told::Event(Event::Executed { time_us, process: before.key, image }));
        if self.mains.len() >= MOST_PROGRAMS {
            self.mains.clear();
        }
        let main =
            self.mains.entry(image).or_insert_with(|| file.as_ref().and_then(MainAddress::of)).as_ref();
        let address = main.and_then(|main| main.in_process(pid));
        let is_watched = address.is_some_and(|address| follower.stop_at(pid, address).is_ok());
        let process =
            TracedProcess { image, script: script.map(|(script, _)| script), startup_us: None, ..before };
        self.alive.insert(pid, TracedProcess { executed_us: is_watched.then(now_us), ..process });
    }
}

/// A process whose creation was not seen: the command itself.
fn found(pid: i32) -> TracedProcess {
    TracedProcess {
        key: ProcessKey { pid: pid.unsigned_abs(), created_us: now_us() },
        image: ImageId::UNKNOWN,
        script: None,
        executed_us: None,
        startup_us: None,
        cpu_us: 0,
        peak_kib: 0,
    }
}

/// The moment, on the clock of events.
#[must_use]
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
    seconds.saturating_mul(1_000_000) + nanos / 1000
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The file of the program that a stopped process runs.
fn executable(pid: i32) -> String {
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default().into_os_string();
    let path = String::from_utf8_lossy(&path.into_vec()).into_owned();
    path.strip_suffix(" (deleted)").map_or(path.clone(), str::to_owned)
}

fn peak_kib(pid: i32) -> u64 {
    let read = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    read().unwrap_or(0)
}
