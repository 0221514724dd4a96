//! The collector that looks at the whole machine, or at a process that is there and all below it, as root.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use regrow_machine::{Losses, Machine, MachineOptions, Scope, StartError};
use regrow_profile::traced::Told;
use regrow_sys::raw;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::watch::{Collector, Ended, Teller};
use crate::cli::sites::MachineArgs;
use crate::error::CliError;
use crate::message::complain;

/// How often the end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What ends collecting.
struct Until {
    signals: OwnedFd,
    /// The process that is followed: collecting ends with it.
    process: Option<OwnedFd>,
    end: Option<Instant>,
}

/// Of the machine, or of a part of it. Called before there are threads, so that none of them takes the signals that end it.
///
/// # Errors
/// When the machine may not be looked at, or there is no such process.
pub(super) fn collector(args: &MachineArgs) -> Result<Collector, CliError> {
    let bit = |signal: i32| 1_u64 << (signal - 1);
    let (signals, _) = raw::signals_as_descriptor(bit(libc::SIGTERM) | bit(libc::SIGINT))
        .map_err(CliError::system("signals cannot be waited for"))?;
    // It may end while the programs are attached.
    let process = args.pid.map(open).transpose()?;
    let scope = args.pid.map_or(Scope::Everything, Scope::Below);
    let machine = Machine::start(&MachineOptions { scope, ..MachineOptions::default() })?;
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(u64::from(seconds)));
    let until = Until { signals, process, end };
    Ok(Box::new(move |tell| collect(machine, &until, tell)))
}

/// The end of a process, to be waited for.
fn open(pid: u32) -> Result<OwnedFd, CliError> {
    let none = || StartError::NoProcess { pid };
    match raw::pidfd_open(i32::try_from(pid).map_err(|_| none())?) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(none().into()),
        opened => opened.map_err(CliError::system("the process cannot be waited for")),
    }
}

/// What is collected, in words.
pub(super) fn title(args: &MachineArgs) -> String {
    match args.pid {
        Some(pid) => format!("process {pid} and all below it"),
        None => "all processes of this machine".to_owned(),
    }
}

fn collect(mut machine: Machine, until: &Until, mut tell: Teller) -> Ended {
    while !until.is_over()? {
        machine.collect(LOOK_EVERY, &mut |event| tell(Told::Event(event)))?;
    }
    let losses = machine.finish(&mut |event| tell(Told::Event(event)))?;
    for line in describe(&losses) {
        complain(&line);
    }
    Ok(None)
}

impl Until {
    fn is_over(&self) -> Result<bool, CliError> {
        if self.end.is_some_and(|end| Instant::now() >= end) {
            return Ok(true);
        }
        let mut ends: Vec<PollFd<'_>> = [Some(&self.signals), self.process.as_ref()]
            .into_iter()
            .flatten()
            .map(|end| PollFd::new(end, PollFlags::IN))
            .collect();
        match poll(&mut ends, Some(&Timespec::default())) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(CliError::system("the end cannot be waited for")(error.into())),
        }
    }
}

/// What the profile lacks, a line for each.
pub(crate) fn describe(losses: &Losses) -> Vec<String> {
    let lines = [
        (losses.created, "processes were created faster than they could be collected, and are left out"),
        (losses.executed, "programs were executed faster than they could be collected, and are left out"),
        (
            losses.ended,
            "processes ended faster than they could be collected: their ends are left out, or less exact",
        ),
        (losses.files, "names of files were lost"),
        (losses.unread_files, "files were gone before they were read"),
        (losses.places, "creations have no place: their parents' code is in no file, or was gone"),
        (losses.records, "records of the kernel were not understood"),
    ];
    lines.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_said_and_nothing_else() {
        assert!(describe(&Losses::default()).is_empty());
        let losses = Losses { created: 3, unread_files: 1, ..Losses::default() };
        assert_eq!(
            describe(&losses),
            [
                "3 processes were created faster than they could be collected, and are left out",
                "1 files were gone before they were read"
            ]
        );
    }

    #[test]
    fn the_title_names_the_part() {
        let args = |pid: Option<u32>| MachineArgs { system: pid.is_none(), pid, seconds: None };
        assert_eq!(title(&args(None)), "all processes of this machine");
        assert_eq!(title(&args(Some(7))), "process 7 and all below it");
    }
}
