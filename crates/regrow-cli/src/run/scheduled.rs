//! `--schedule`: the slice of a run, which is part of its order. A program that will use much processor time gets a long one: others come before
//! it at once, and it is interrupted seldom.
//!
//! What is predicted is what `regrow schedule` has learned of the program and of the class of its arguments, wherever it was created.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use regrow_collect::kept::Kept;
use regrow_image::resolve::find_program;
use regrow_sites::{Arguments, ImageId, Site};
use regrow_sys::scheduling;

use crate::cli::run::ScheduleArg;
use crate::message::{chain, complain};
use crate::schedule::BUDGET_BYTES;

/// The slice of a long run: the default of `regrow schedule`.
const LONG_SLICE: Duration = Duration::from_millis(20);
/// From so much processor time on a run is a long one, likewise.
const LIMIT_US: u64 = 10_000;

/// The slice that a run is to have; `None`: the usual one.
pub(super) fn slice(how: ScheduleArg, program: &OsStr, args: &[OsString]) -> Option<Duration> {
    let is_long = match how {
        ScheduleArg::Long => true,
        ScheduleArg::Predicted => is_predicted(program, args),
    };
    is_long.then_some(LONG_SLICE)
}

/// Whether such a call has used much before. What cannot be had is no reason not to run.
fn is_predicted(program: &OsStr, args: &[OsString]) -> bool {
    let Ok(found) = find_program(program, std::env::var_os("PATH").as_deref(), None) else { return false };
    let Some(image) = File::open(&found.path).ok().and_then(|file| regrow_profile::image::id_of(&file).ok())
    else {
        return false;
    };
    let loaded = match Kept::of_user().and_then(|kept| kept.load(BUDGET_BYTES)) {
        Ok(loaded) => loaded,
        Err(error) => {
            complain(&format!("nothing is predicted: {}", chain(&error)));
            return false;
        }
    };
    let words = std::iter::once(program).chain(args.iter().map(OsString::as_os_str)).map(OsStr::as_bytes);
    let site = Site { image: ImageId::UNKNOWN, frames: [None; 3], script: None, child: Some(image) };
    loaded.model.predict_call(&site, Some(Arguments::of(words))).is_long(LIMIT_US)
}

/// Gives this process a slice, as it is about to become the program.
pub(super) fn take(slice: Option<Duration>) {
    let Some(slice) = slice else { return };
    let slice_ns = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    let changed = scheduling::read().map(|own| own.with_slice(slice_ns));
    // A policy that is no ordinary one has no slice.
    if let Ok(Some(changed)) = changed
        && let Err(error) = scheduling::set(&changed)
    {
        complain(&format!("the program is scheduled as any other: {}", chain(&error)));
    }
}
