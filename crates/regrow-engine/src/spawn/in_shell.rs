//! Executes a run in a shell, a task that is there already, where the run is not recycled. Where no shell is ready, or it is in
//! doubt, the run is started by an exec of its own, which also finds the error of what cannot be executed.

use regrow_abi::task::Task;
use regrow_sys::caller;
use regrow_sys::strings::Strings;

use crate::keeping::holdings::Holdings;
use crate::run::creation::{Creation, Fallback};
use crate::run::inherit::Inheritance;
use crate::run::request::Request;
use crate::run::started::Started;
use crate::tables::processes::ProcessRow;
use crate::tables::shells::ShellSlot;

/// Room for the name of the program before its arguments.
const NAME_BYTES: usize = 64;

/// Whether a run that is not recycled for this reason may be executed in a shell.
pub(crate) fn may_use(why: &Fallback) -> bool {
    matches!(
        why,
        Fallback::FirstRun
            | Fallback::ImageInProgress
            | Fallback::NotKept
            | Fallback::AllBusy
            | Fallback::RefusedState { .. }
            | Fallback::ImageFailed { .. }
    )
}

/// Executes a run in a shell that is ready.
///
/// # Errors
/// The reason that was given, where there is no such shell.
pub(crate) fn start(
    holdings: &mut Holdings,
    caller: &mut Inheritance,
    request: &Request,
    ordered_ns: u64,
    why: Fallback,
) -> Result<Started, Fallback> {
    let Ok(caller) = caller.check() else { return Err(why) };
    let Some(mut slot) = holdings.take_ready_shell() else { return Err(why) };
    match execute_in(holdings, &mut slot, request, &request.task.inherit(&caller)) {
        Some(pid) => {
            let mut started = Started::new(pid, Creation::Exec { why });
            let row = ProcessRow::new(request, &started, None, ordered_ns);
            started.process = Some(holdings.tables.processes.insert(row));
            holdings.tables.shells.push_used(slot);
            Ok(started)
        }
        None => {
            holdings.chores.discard_shell(slot.shell);
            Err(why)
        }
    }
}

/// Executes a run that is to be this task. Gives the process; `None` where exec is to find out what is wrong.
fn execute_in(holdings: &mut Holdings, slot: &mut ShellSlot, request: &Request, whole: &Task) -> Option<i32> {
    let resolved = holdings.resolve(request).ok()?;
    let fds = request.descriptors().ok()?;
    let mut task = whole.beyond(&slot.then);
    task.set_blocked_signals(caller::signal_mask());
    // What the keeper ignores may be what a front end does.
    task.set_ignored_signals(whole.ignored_signals().unwrap_or(0));
    let mut args = Strings::with_capacity(request.args.as_bytes().len() + NAME_BYTES);
    args.push_c_str(request.argv0());
    args.append(&request.args);
    let started = slot.shell.start(&resolved.exec_path, &request.run(&task, &args, &fds));
    started.inspect_err(|error| tracing::debug!(%error, "a shell was not used")).ok()
}
