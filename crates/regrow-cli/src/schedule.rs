//! `regrow schedule`: a command below which processes are scheduled by what is predicted about them.
//!
//! ```text
//!   processes ──events──> Model ──classes──> channel ──> the library, in each process that creates a child
//!                           └── kept in the state folder
//! ```
//!
//! With `--outside` it is the kernel that tells, and this process that schedules (`outside`).

mod class;
mod outside;

use std::process::ExitStatus;
use std::time::Duration;

use regrow_collect::Scheduling;
use regrow_collect::below::{BelowError, Lever, Summary};
use regrow_collect::kept::{Kept, SetAside};
use regrow_sites::Model;

use crate::cli::schedule::{Basis, ScheduleArgs};
use crate::error::CliError;
use crate::exit_status;
use crate::message::{chain, complain};
use crate::sites::below::{self, HeldSignals};
use crate::sites::machine;
use class::Classes;

/// What the model may take.
pub(crate) const BUDGET_BYTES: usize = 1 << 20;

/// Carries out the command.
pub(crate) fn schedule(args: &ScheduleArgs) -> Result<u8, CliError> {
    let kept = if args.fresh { None } else { keeper() };
    let mut model = kept.as_ref().and_then(load).unwrap_or_else(|| Model::new(BUDGET_BYTES));
    let lever =
        |slice_us: u64, nicer, is_batch| Lever { slice_ns: slice_us.saturating_mul(1000), nicer, is_batch };
    let short = lever(args.short_slice_us, args.short_nice, false);
    let long = lever(args.long_slice_us, args.long_nice, args.batch);
    let scheduling =
        Scheduling::new(short, long, Duration::from_micros(args.limit_us)).map_err(BelowError::from)?;
    let ran = if args.outside {
        outside::run(args, scheduling, &mut model).map(|(status, summary, losses)| Ran {
            status,
            summary,
            lacking: machine::describe(&losses),
        })
    } else {
        by_library(args, scheduling, &mut model)
    };
    match ran {
        Ok(Ran { status, summary, lacking }) => {
            if let Some(kept) = &kept {
                save(kept, &mut model);
            }
            complain(&describe(&summary));
            lacking.iter().for_each(|line| complain(line));
            Ok(exit_status::of_run(status))
        }
        Err(CliError::Below(error @ BelowError::Start { .. })) => Ok(below::not_started(&error)),
        // The command was not started, as the kernel does not tell.
        Err(error @ CliError::Machine(_)) => {
            complain(&chain(&error));
            Ok(exit_status::FAILED)
        }
        Err(error) => Err(error),
    }
}

/// What has become of a command.
struct Ran {
    status: ExitStatus,
    summary: Summary,
    /// What was not seen, a line for each.
    lacking: Vec<String>,
}

/// Has the library in each process schedule its children.
fn by_library(args: &ScheduleArgs, scheduling: Scheduling, model: &mut Model) -> Result<Ran, CliError> {
    if args.by == Basis::Parent {
        return Err(CliError::Flags(
            "--by parent needs --outside: a library does not see what its process has used",
        ));
    }
    let classes = Classes::new(args.by, args.limit_us);
    let (below, signals) = (below::start(Some(scheduling))?, HeldSignals::hold()?);
    let mut command = signals.command(&args.program, &args.args);
    let (status, summary) = below.run(&mut command, Some(signals.descriptor()), |below, events| {
        for event in events {
            model.observe(event);
        }
        below.publish(&mut |site| classes.predicted(model, site, None));
    })?;
    Ok(Ran { status, summary, lacking: below::describe(&summary) })
}

/// What was learned is a help and no need: where it cannot be had, that is said.
fn keeper() -> Option<Kept> {
    Kept::of_user().inspect_err(|error| complain(&format!("nothing learned is kept: {}", chain(error)))).ok()
}

fn load(kept: &Kept) -> Option<Model> {
    let loaded = kept
        .load(BUDGET_BYTES)
        .inspect_err(|error| complain(&format!("learning begins anew: {}", chain(error))))
        .ok()?;
    say_set_aside(loaded.set_aside.as_ref());
    Some(loaded.model)
}

fn save(kept: &Kept, model: &mut Model) {
    match kept.save(model) {
        Ok(set_aside) => say_set_aside(set_aside.as_ref()),
        Err(error) => complain(&format!("what was learned is not kept: {}", chain(&error))),
    }
}

fn say_set_aside(file: Option<&SetAside>) {
    if let Some(file) = file {
        complain(&format!(
            "what was learned before cannot be read, and is now {}: {}",
            file.path.display(),
            file.why
        ));
    }
}

fn describe(summary: &Summary) -> String {
    let counts = summary.counts;
    format!(
        "{} processes were created, {} programs executed; {} were scheduled as short, {} as long, and {} anew as they went on",
        counts.created, counts.executed, counts.short, counts.long, summary.taken_back
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow_collect::below::Counts;

    #[test]
    fn the_summary_says_how_many_were_scheduled_how() {
        let counts = Counts { created: 9, executed: 8, short: 5, long: 2, ..Counts::default() };
        let summary = Summary { counts, taken_back: 1, ..Summary::default() };
        assert_eq!(
            describe(&summary),
            "9 processes were created, 8 programs executed; 5 were scheduled as short, 2 as long, and 1 anew as they went on"
        );
    }
}
