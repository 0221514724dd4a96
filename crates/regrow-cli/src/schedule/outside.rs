//! `regrow schedule --outside`: the kernel tells of the processes below the command (BPF), and this process schedules them. Nothing is in them.
//!
//! It is woken for each event, and comes before what it schedules: a child runs as its parent did until its creation was read.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use regrow_collect::below::{BelowError, Summary};
use regrow_collect::outside::Outside;
use regrow_collect::{Scheduling, signals};
use regrow_machine::{Losses, Machine, MachineOptions, Scope};
use regrow_sites::{Event, Model, Site};
use regrow_sys::{raw, scheduling};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::class::Classes;
use crate::cli::schedule::ScheduleArgs;
use crate::error::CliError;
use crate::message::{chain, complain};
use crate::sites::below::HeldSignals;

/// How often is looked who has outlived what was predicted, and whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How this process is scheduled while it collects: before all that it schedules.
const OWN_NICE: i32 = -20;
const OWN_SLICE_NS: u64 = 100_000;

/// Runs a command: how it ended, how many were scheduled, and what was not seen.
pub(super) fn run(
    args: &ScheduleArgs,
    scheduling: Scheduling,
    model: &mut Model,
) -> Result<(ExitStatus, Summary, Losses), CliError> {
    let signals = HeldSignals::hold()?;
    // This process and all below it: the command is seen from its creation on.
    let scope = Scope::Below(std::process::id());
    let mut machine =
        Machine::start(&MachineOptions { scope, gather: Duration::ZERO, ..MachineOptions::default() })?;
    let mut command = signals.command(&args.program, &args.args);
    let mut child = command.spawn().map_err(|source| {
        let program = args.program.clone();
        BelowError::Start { program, source }
    })?;
    let pidfd = raw::pidfd_open(child.id().cast_signed())
        .map_err(CliError::system("the command cannot be waited for"))?;
    come_first();
    let classes = Classes::new(args.by, args.limit_us);
    let mut scheduler = Scheduler { outside: Outside::new(scheduling), model, classes };
    let collected = collect(&mut machine, &pidfd, &signals, &mut scheduler);
    if let Err(error) = &collected {
        // The command goes on to its end all the same.
        complain(&format!("nothing is scheduled any more: {}", chain(error)));
    }
    let status = wait(&mut child, &pidfd, &signals)?;
    let losses = machine.finish(&mut |event| scheduler.model.observe(&event))?;
    scheduler.outside.release();
    let (counts, taken_back) = scheduler.outside.counts();
    let summary = Summary { counts, taken_back, ..Summary::default() };
    Ok((status, summary, losses))
}

/// Those that are scheduled, and what is known of them.
struct Scheduler<'a> {
    outside: Outside,
    model: &'a mut Model,
    classes: Classes,
}

impl Scheduler<'_> {
    /// Schedules by what was known before, then learns.
    fn take(&mut self, event: &Event) {
        let Scheduler { outside, model, classes } = self;
        classes.take(event);
        let class = |process, site: &Site, arguments| classes.of(model, process, site, arguments);
        if let Event::Created { time_us, process, parent, site } = event {
            let site = model.completed(*parent, site);
            outside
                .take(&Event::Created { time_us: *time_us, process: *process, parent: *parent, site }, class);
        } else {
            outside.take(event, class);
        }
        model.observe(event);
    }
}

/// Takes what happens until the command has ended.
fn collect(
    machine: &mut Machine,
    command: &OwnedFd,
    signals: &HeldSignals,
    scheduler: &mut Scheduler<'_>,
) -> Result<(), CliError> {
    let mut looked = Instant::now();
    loop {
        machine.collect(LOOK_EVERY, &mut |event| scheduler.take(&event))?;
        if looked.elapsed() >= LOOK_EVERY {
            let outlived = scheduler.outside.look();
            outlived.iter().for_each(|event| scheduler.model.observe(event));
            looked = Instant::now();
        }
        signals::pass_on(signals.descriptor(), command.as_fd());
        if has_ended(command, Some(&Timespec::default()))? {
            return Ok(());
        }
    }
}

/// Waits for the end of the command; signals go on to it meanwhile.
fn wait(child: &mut Child, command: &OwnedFd, signals: &HeldSignals) -> Result<ExitStatus, CliError> {
    let look = Timespec::try_from(LOOK_EVERY).ok();
    while !has_ended(command, look.as_ref())? {
        signals::pass_on(signals.descriptor(), command.as_fd());
    }
    child.wait().map_err(CliError::system("the command cannot be waited for"))
}

/// Whether a process has ended, or does so in a time.
fn has_ended(process: &OwnedFd, time: Option<&Timespec>) -> Result<bool, CliError> {
    match poll(&mut [PollFd::new(process, PollFlags::IN)], time) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(CliError::system("the command cannot be waited for")(error.into())),
    }
}

/// Has this process come before all that it schedules, as far as it may.
fn come_first() {
    let hurried = scheduling::read().and_then(|mut own| {
        (own.nice, own.runtime) = (OWN_NICE, OWN_SLICE_NS);
        scheduling::set(&own)
    });
    if let Err(error) = hurried {
        complain(&format!("children are scheduled later than they could be: {}", chain(&error)));
    }
}
