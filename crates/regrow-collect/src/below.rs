//! What happens below a command, without privilege: a preloaded library tells (`libregrow_sites.so`), through a file that it shares with the
//! collector.
//!
//! ```text
//!   Below ── variables ──> COMMAND ── LD_PRELOAD ──> every process below
//!     ^                                                   │ records
//!     └── channel: a ring in memory <─────────────────────┘
//!     reader ──Record──> processes ──Event──> caller
//!     predictions <── classes of sites (schedule) ── caller
//! ```
//!
//! Not seen are programs that the loader does not link (static ones, what they create too), that get another environment (`env -i`) or more rights
//! than their caller (set-user-ID). The library of the parent tells of their creation, execution and end all the same, as far as the parent has it.

mod channel;
mod error;
mod images;
mod processes;
mod reader;
mod schedule;
mod texts;

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use regrow_abi::sites::VARIABLE;
use regrow_sites::{Event, Site};
use regrow_sys::raw;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, test_kill_process};
use rustix::time::Timespec;

use self::channel::ChannelFile;
use self::processes::{Processes, now_ns};
use self::reader::Reader;
use crate::scheduling::Scheduling;
use crate::signals;

pub use self::error::BelowError;
pub use self::processes::Counts;
pub use regrow_abi::sites::{Class, Lever};

/// How often records are taken out of the ring.
const TICK: Duration = Duration::from_millis(10);

/// What a collection has seen and lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// What it has seen.
    pub counts: Counts,
    /// Records for which the ring had no room.
    pub dropped: u64,
    /// Records that a process that was killed has not finished.
    pub lost: u64,
    /// Processes that were scheduled anew because they have outlived what was predicted.
    pub taken_back: u64,
}

/// A collection below one command.
#[derive(Debug)]
pub struct Below {
    library: PathBuf,
    channel: ChannelFile,
    reader: Reader,
    processes: Processes,
    scheduling: Option<Scheduling>,
    taken_back: u64,
}

impl Below {
    /// With the library in a file, and how children are to be scheduled if they are.
    ///
    /// # Errors
    /// [`BelowError::Channel`].
    pub fn new(library: &Path, scheduling: Option<Scheduling>) -> Result<Below, BelowError> {
        let channel = ChannelFile::create()?;
        if let Some(shared) = channel.channel() {
            shared.begin(scheduling.as_ref().map(Scheduling::levers));
        }
        let library = library.to_owned();
        let (reader, processes) = (Reader::default(), Processes::default());
        Ok(Below { library, channel, reader, processes, scheduling, taken_back: 0 })
    }

    /// Publishes the classes of all sites of which something was learned since this was called last.
    pub fn publish(&mut self, class_of: &mut dyn FnMut(&Site) -> Class) {
        let channel = self.channel.channel().filter(|_| self.scheduling.is_some());
        schedule::publish(&mut self.processes, channel, class_of);
    }

    /// Schedules those as long ones that have outlived the limit, and tells of them.
    fn take_back(&mut self) -> Vec<Event> {
        let Some(scheduling) = self.scheduling else { return Vec::new() };
        let (taken_back, outlived) = schedule::take_back(&mut self.processes, scheduling);
        self.taken_back += taken_back;
        outlived
    }

    /// The variables of the environment by which a process below is watched. What is preloaded already is preloaded behind the library.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, OsString); 2] {
        const PRELOADED: &str = "LD_PRELOAD";
        let mut libraries = self.library.clone().into_os_string();
        if let Some(others) = std::env::var_os(PRELOADED).filter(|others| !others.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        [(PRELOADED, libraries), (VARIABLE, self.channel.path().as_os_str().to_owned())]
    }

    /// Starts a command, collects until it has ended, and hands each batch of events over as it comes. Of the signals that the descriptor tells
    /// (`signalfd(2)`), those that somebody has sent go on to the command; what a terminal sends it has itself.
    ///
    /// # Errors
    /// [`BelowError`].
    pub fn run(
        mut self,
        command: &mut Command,
        signals: Option<BorrowedFd<'_>>,
        mut each: impl FnMut(&mut Below, &[Event]),
    ) -> Result<(ExitStatus, Summary), BelowError> {
        command.envs(self.variables());
        let time_ns = now_ns();
        let started = command.spawn();
        let mut child = started.map_err(|source| {
            let program = command.get_program().to_owned();
            BelowError::Start { program, source }
        })?;
        let pid = child.id();
        let failed = |source| BelowError::Wait { pid, source };
        self.processes.begin(pid, time_ns, Instant::now());
        let number = i32::try_from(pid).unwrap_or(-1);
        let pidfd = raw::pidfd_open(number).map_err(failed)?;
        let tick = Timespec::try_from(TICK).ok();
        loop {
            let mut fds = vec![PollFd::new(&pidfd, PollFlags::IN)];
            fds.extend(signals.as_ref().map(|signals| PollFd::new(signals, PollFlags::IN)));
            let is_ready = poll(&mut fds, tick.as_ref()).is_ok_and(|ready| ready > 0);
            let has_ended = is_ready && fds.first().is_some_and(|fd| !fd.revents().is_empty());
            if let Some(signals) = signals.filter(|_| is_ready) {
                signals::pass_on(signals, pidfd.as_fd());
            }
            let mut events = self.collect();
            events.extend(self.take_back());
            each(&mut self, &events);
            if has_ended {
                break;
            }
        }
        let status = child.wait().map_err(failed)?;
        let (summary, events) = self.finish();
        each(&mut self, &events);
        Ok((status, summary))
    }

    /// What the hashes of scripts' files stand for that sites have, as far as it was not asked for: 64-bit FNV-1a, and the name.
    pub fn take_scripts(&mut self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.processes.scripts)
    }

    /// What has happened since it was called last. Events are in the order of their times within one call, but for what a process has told before its
    /// parent has told of it.
    pub fn collect(&mut self) -> Vec<Event> {
        let Some(channel) = self.channel.channel() else { return Vec::new() };
        let records = self.reader.drain(channel.ring(), &is_there);
        self.processes.take(&records, Instant::now())
    }

    /// Ends the collection: what is left below the command runs on, and tells nothing any more.
    fn finish(&mut self) -> (Summary, Vec<Event>) {
        let mut events = self.collect();
        let mut dropped = 0;
        if let Some(channel) = self.channel.channel() {
            channel.end();
            let records = self.reader.drain_all(channel.ring());
            dropped = channel.ring().dropped();
            events.extend(self.processes.take(&records, Instant::now()));
        }
        events.extend(self.processes.finish());
        let (lost, taken_back) = (self.reader.lost, self.taken_back);
        (Summary { counts: self.processes.counts, dropped, lost, taken_back }, events)
    }
}

fn is_there(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    // Another user's is there as well.
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}
