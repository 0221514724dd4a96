//! Runs that are not recycled, executed in a shell: a task that is there already. Where there is none that is ready, or it
//! is in doubt, the run is started by an exec of its own, which also finds the error of what cannot be executed.

use regrow_body::Run;
use regrow_pool::{Event, Kept as KeptId, ShellId};
use regrow_sys::caller::{self, Settable};

use crate::creation::{Creation, Fallback};
use crate::request::{Request, Strings};
use crate::shard::{SIGPIPE, Shard, limits, run_of};
use crate::started::Started;
use crate::work::{Discarded, ShellSlot, Todo};

impl Shard {
    /// Executes a run in a shell that is ready; gives the reason back where there is none, or it is not to be used.
    pub(crate) fn start_in_shell(&mut self, request: &Request, why: Fallback) -> Result<Started, Fallback> {
        // A process of a pool of sessions leads one before it has its order.
        let may = request.setsid || !self.settings.sessions;
        let may = may
            && matches!(
                why,
                Fallback::FirstRun
                    | Fallback::ImageInProgress
                    | Fallback::NotKept
                    | Fallback::AllBusy
                    | Fallback::RefusedState { .. }
                    | Fallback::ImageFailed { .. }
            );
        let ready = |(id, _): &(&ShellId, &ShellSlot)| {
            self.keeping.pool().state().shells().any(|(shell, kept)| shell == **id && kept.ready)
        };
        let Some((&id, _)) = self.keeping.shells.iter().find(ready).filter(|_| may) else { return Err(why) };
        let (Ok(mut settable), Some(mut slot)) = (self.caller(), self.keeping.shells.remove(&id)) else {
            return Err(why);
        };
        settable.ignored &= !SIGPIPE;
        self.tell(&Event::Lost(KeptId::Shell(id)));
        let started = self.execute_in(&mut slot, request, &settable, why);
        match &started {
            Ok(_) => {
                self.stats.in_shell += 1;
                self.keeping.spare.push(slot);
            }
            Err(_) => self.keeping.todo.push_back(Todo::Discard(Discarded::Shell(Box::new(slot.shell)))),
        }
        started
    }

    fn execute_in(
        &mut self,
        slot: &mut ShellSlot,
        request: &Request,
        settable: &Settable,
        why: Fallback,
    ) -> Result<Started, Fallback> {
        let Ok(resolved) = self.resolve(request) else { return Err(why) };
        let Ok(given) = request.descriptors() else { return Err(why) };
        let fds: Vec<_> = given.iter().map(|fd| (fd.source, fd.target)).collect();
        let limits = limits(request, settable, &slot.then);
        let mut args = Strings::with_capacity(request.args.as_bytes().len() + 64);
        args.push_c_str(request.argv0());
        args.append(&request.args);
        let run = Run {
            signal_mask: caller::signal_mask(),
            // What the keeper ignores may be what a front end does.
            ignored_signals: Some(settable.ignored),
            ..run_of(request, settable, &slot.then, &args, (&fds, &limits))
        };
        match slot.shell.start(&resolved.exec_path, &run) {
            Ok(pid) => Ok(Started::new(pid, Creation::Exec { why })),
            Err(error) => {
                tracing::debug!(%error, "a shell was not used");
                Err(why)
            }
        }
    }
}
