//! The collector that follows a command by ptrace.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use regrow_bench::record::{RecordError, Recording};
use regrow_profile::traced::Traced;
use regrow_sys::follow::Happened;

use super::watch::{Collector, Ended, Teller};
use crate::error::CliError;

/// Of a command.
pub(super) fn collector(program: &OsStr, args: &[OsString]) -> Collector {
    let (program, args) = (program.to_owned(), args.to_vec());
    Box::new(move |tell| follow(&program, &args, tell))
}

/// The thread that starts the command is the one that can ask what happens.
fn follow(program: &OsStr, args: &[OsString], mut tell: Teller) -> Ended {
    let mut follower = Recording::find(program, args)?.start()?;
    let mut traced = Traced::new();
    let mut status = 0;
    while let Some(happened) =
        follower.next_event().map_err(|error| CliError::from(RecordError::from(error)))?
    {
        traced.take(happened, &follower, &mut tell);
        if let Happened::Gone { pid, status: raw } = happened
            && pid == follower.root()
        {
            status = raw;
        }
    }
    Ok(Some(ExitStatus::from_raw(status)))
}
