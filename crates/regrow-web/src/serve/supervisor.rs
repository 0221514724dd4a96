//! Waits for processes that have replied, and ends those that are late or that scripts have left behind.
//!
//! ```text
//!  reaper   each process that nobody needs: waits for it, then makes the pipes of the next process
//!  sweep    every SWEEP: late processes; and orphans, if a process has ended since the last sweep
//! ```

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, timeout};

use crate::serve::launcher::Launcher;
use crate::serve::orphans::Orphans;
use crate::serve::unreaped::UnreapedProcess;

/// The time between two sweeps.
const SWEEP: Duration = Duration::from_millis(250);
/// How often a gateway that stops looks for processes that are left.
const END_POLL: Duration = Duration::from_millis(5);

/// Sees to it that every process ends.
pub(crate) struct Supervisor {
    launcher: Rc<Launcher>,
    orphans: RefCell<Orphans>,
    /// Whether a process has ended since the last sweep, or an orphan is left from it.
    may_be_left: Cell<bool>,
}

impl Supervisor {
    /// Makes the gateway the parent of all processes that scripts leave behind, and starts the reaper and the sweeps.
    pub(crate) fn start(
        launcher: &Rc<Launcher>,
        unreaped: UnboundedReceiver<UnreapedProcess>,
    ) -> io::Result<Rc<Self>> {
        let supervisor = Rc::new(Self {
            launcher: Rc::clone(launcher),
            orphans: RefCell::new(Orphans::take_over(Rc::clone(launcher.pools()))?),
            may_be_left: Cell::new(false),
        });
        tokio::task::spawn_local(Rc::clone(&supervisor).sweep());
        tokio::task::spawn_local(Rc::clone(&supervisor).reap(unreaped));
        Ok(supervisor)
    }

    /// Waits for each process in a task of its own.
    async fn reap(self: Rc<Self>, mut unreaped: UnboundedReceiver<UnreapedProcess>) {
        while let Some(process) = unreaped.recv().await {
            let supervisor = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                process.reap().await;
                supervisor.may_be_left.set(true);
                supervisor.launcher.pools().drop_unused(&supervisor.launcher.under_way().groups());
                supervisor.launcher.fill_pipes();
            });
        }
    }

    async fn sweep(self: Rc<Self>) {
        loop {
            sleep(SWEEP).await;
            self.end(self.launcher.under_way().take_late(Instant::now()));
            // Nobody knows the processes of a pool that is being made.
            if !self.launcher.pools().is_making() && self.may_be_left.take() {
                let scripts = self.launcher.under_way().groups();
                self.may_be_left.set(self.orphans.borrow_mut().sweep(&scripts));
            }
        }
    }

    /// Kills processes, and gives them to the reaper.
    fn end(&self, processes: Vec<UnreapedProcess>) {
        for process in processes {
            process.kill();
            self.launcher.hand_over(process);
        }
    }

    /// Whether a request has a process, or the reaper waits for one.
    pub(crate) fn is_busy(&self) -> bool {
        !self.launcher.under_way().is_empty()
    }

    /// Kills all processes and all orphans, and waits a moment until they are gone.
    pub(crate) async fn end_all(&self) {
        let under_way = self.launcher.under_way();
        self.end(under_way.take_all());
        // The reaper has the others. Nobody has waited for them, so the numbers are still their own.
        for group in under_way.groups().into_iter().filter_map(Pid::from_raw) {
            // There is no group when all its members have ended.
            let _ = kill_process_group(group, Signal::KILL).or_else(|_| kill_process(group, Signal::KILL));
        }
        // The end of a process may leave its children.
        let gone = async {
            while self.is_busy() || self.orphans.borrow().end_all(&under_way.groups()) {
                sleep(END_POLL).await;
            }
        };
        let _ = timeout(SWEEP, gone).await;
    }
}
