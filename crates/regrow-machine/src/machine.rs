//! The collector as its users have it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use aya::maps::{MapData, RingBuf};
use regrow_sites::Event;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::collector::Collector;
use crate::error::{CollectError, StartError};
use crate::images::MOST_FILES;
use crate::programs::Programs;
use crate::record::Kind;
use crate::roots;

/// Most records that are taken at a time, so that a caller gets its turn.
const MOST_AT_A_TIME: usize = 1 << 16;
/// After how many records files are looked for again: some records take long, and files wait for none.
const RECORDS_BETWEEN_FILES: usize = 16;
/// How long the end of a process may take after its last thread has exited, when collecting ends.
const END_TIME: Duration = Duration::from_millis(200);
/// How often it is looked for.
const END_STEP: Duration = Duration::from_millis(5);

/// Which processes events are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// All.
    #[default]
    Everything,
    /// A process and all below it, those that are there and those to come.
    Below(u32),
}

/// Who tells what a parent has mapped: without that its addresses are in no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MappingSource {
    /// The kernel, when the parent creates (Linux 6.7); `/proc` where it cannot.
    #[default]
    Kernel,
    /// `/proc`, when the creation is collected: a parent that is gone by then has no place.
    Proc,
}

/// How the machine is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineOptions {
    /// Which processes events are of.
    pub scope: Scope,
    /// Room for what was not collected yet, in bytes: a power of two. A creation takes a few thousand bytes.
    pub ring_bytes: u32,
    /// Who tells what a parent has mapped.
    pub mappings: MappingSource,
    /// For how long events may gather once there is one: a collector that is woken for each of them takes more time than they do. 0: it is
    /// woken for the first one at once, as a scheduler needs it.
    pub gather: Duration,
}

impl Default for MachineOptions {
    fn default() -> Self {
        let (scope, mappings) = (Scope::default(), MappingSource::default());
        Self { scope, ring_bytes: 16 << 20, mappings, gather: Duration::from_millis(20) }
    }
}

/// What was not told, or not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Creations that found no room in the ring.
    pub created: u64,
    /// Executions that found none.
    pub executed: u64,
    /// Processes for which the time of the end found none.
    pub exited: u64,
    /// Processes for which the end found none.
    pub ended: u64,
    /// Mappings and names of files that found none.
    pub files: u64,
    /// Files that were gone before they were read: their ids are of device, inode, ctime and size.
    pub unread_files: u64,
    /// Creations whose place was not found: the parent was gone before its mappings were read, or its stack was not to be had.
    pub places: u64,
    /// Records that were not understood.
    pub records: u64,
}

/// Collects what the processes of the machine create, execute and use.
///
/// Dropping it ends collecting; so does the end of the process that holds it, however it ends.
pub struct Machine {
    programs: Programs,
    collector: Collector,
    gather: Duration,
}

impl Machine {
    /// Begins to collect.
    ///
    /// # Errors
    /// A [`StartError`] says which right or part of the kernel is missing.
    pub fn start(options: &MachineOptions) -> Result<Self, StartError> {
        let bytes = options.ring_bytes;
        if !bytes.is_power_of_two() || bytes < 4096 {
            return Err(StartError::Ring { bytes });
        }
        let follows = options.scope != Scope::Everything;
        let programs = Programs::load(bytes, follows, options.mappings == MappingSource::Kernel)?;
        let collector = Collector::new(programs.tells_mappings);
        let mut machine = Self { programs, collector, gather: options.gather };
        match options.scope {
            Scope::Below(pid) => machine.follow(pid)?,
            _ => machine.programs.attach()?,
        }
        Ok(machine)
    }

    /// Waits until something has happened, or the time is over, and tells it.
    ///
    /// # Errors
    /// When the ring cannot be waited for.
    pub fn collect(&mut self, timeout: Duration, tell: &mut dyn FnMut(Event)) -> Result<(), CollectError> {
        let has_any = self.wait(&[&self.programs.files, &self.programs.ring], timeout)?;
        self.take_files();
        let begun = Instant::now();
        loop {
            let left = self.gather.saturating_sub(begun.elapsed());
            if !has_any || left.is_zero() || !self.wait(&[&self.programs.files], left)? {
                break;
            }
            self.take_files();
        }
        self.take_all(tell);
        Ok(())
    }

    /// Waits until a ring has something, or the time is over; whether one has.
    fn wait(&self, rings: &[&RingBuf<MapData>], time: Duration) -> Result<bool, CollectError> {
        let time = Timespec::try_from(time).ok();
        let mut rings: Vec<PollFd<'_>> = rings.iter().map(|ring| PollFd::new(*ring, PollFlags::IN)).collect();
        match poll(&mut rings, time.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(CollectError::Wait(error.into())),
        }
    }

    /// Reads the files that processes have at present.
    fn take_files(&mut self) {
        for _ in 0..MOST_AT_A_TIME {
            let Some(record) = self.programs.files.next() else { break };
            let known = self.collector.see(&record);
            drop(record);
            if let Some(file) = known {
                // Otherwise it is told again.
                let _ = self.programs.mark_code_read(&file);
            }
        }
    }

    /// Ends collecting: tells what has happened, and ends the processes whose last thread has exited. A process that nobody has waited for
    /// ends with what it had used when it began to exit.
    ///
    /// # Errors
    /// When it cannot be found out what was lost.
    pub fn finish(mut self, tell: &mut dyn FnMut(Event)) -> Result<Losses, StartError> {
        self.programs.end_creations();
        let begun = Instant::now();
        self.take_all(tell);
        while self.collector.exiting() > 0 && begun.elapsed() < END_TIME {
            std::thread::sleep(END_STEP);
            self.take_all(tell);
        }
        self.collector.end_exited(tell);
        self.losses()
    }

    /// What was lost until now.
    ///
    /// # Errors
    /// When the table of the programs cannot be read.
    pub fn losses(&self) -> Result<Losses, StartError> {
        let lost = self.programs.lost()?;
        let of = |kind: Kind| lost.get(kind as usize).copied().unwrap_or(0);
        Ok(Losses {
            created: of(Kind::Created),
            executed: of(Kind::Executed),
            exited: of(Kind::Exited),
            ended: of(Kind::Ended),
            files: of(Kind::Mapping) + of(Kind::Image),
            unread_files: self.collector.images.unread(),
            places: self.collector.gaps.places,
            records: self.collector.gaps.records,
        })
    }

    fn take_all(&mut self, tell: &mut dyn FnMut(Event)) {
        self.take_files();
        let now_ns = now_ns();
        for number in 0..MOST_AT_A_TIME {
            let Some(record) = self.programs.ring.next() else { break };
            self.collector.take(&record, now_ns, tell);
            drop(record);
            if number % RECORDS_BETWEEN_FILES == 0 {
                self.take_files();
            }
        }
        if self.collector.images.is_full() {
            self.collector.forget();
            // What is not told again is read from /proc.
            let _ = self.programs.tell_again();
        }
    }

    /// Follows a process from the moment in which the programs are attached, and then all below it. A child that is created while the list is
    /// read is in the next list, or is followed already. The process may end meanwhile.
    fn follow(&mut self, pid: u32) -> Result<(), StartError> {
        if roots::family(pid).is_empty() {
            return Err(StartError::NoProcess { pid });
        }
        self.programs.follow(pid, now_ns())?;
        self.programs.attach()?;
        let mut followed = BTreeSet::from([pid]);
        loop {
            let family = roots::family(pid);
            let found: Vec<u32> = family.difference(&followed).copied().collect();
            if found.is_empty() || followed.len() >= MOST_FILES {
                return Ok(());
            }
            for pid in found {
                self.programs.follow(pid, now_ns())?;
                followed.insert(pid);
            }
        }
    }
}

/// `CLOCK_MONOTONIC`, in nanoseconds.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
