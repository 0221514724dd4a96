//! What disturbs a pool between its runs: kills and short memory.

use std::os::fd::AsFd;

use regrow::{Pool, Stdio};
use regrow_sys::maps::read_maps;
use regrow_sys::raw;

/// One keeper is killed for so many runs.
const KILL_KEEPER_EACH: usize = 1511;
/// One run is killed for so many.
const KILL_RUN_EACH: usize = 211;
/// Memory is short once for so many runs.
const PRESS_EACH: usize = 997;

/// How often what was done.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    pub(crate) keepers_killed: usize,
    pub(crate) runs_killed: usize,
    /// Keepers whose memory was paged out.
    pub(crate) pressed: usize,
    /// The kernel lets this process have memory paged out.
    may_press: Option<bool>,
}

impl Trouble {
    /// Makes the trouble that is due after a run.
    pub(crate) fn after(&mut self, pool: &Pool, run: usize) {
        if run % KILL_KEEPER_EACH == KILL_KEEPER_EACH - 1 {
            self.kill_keeper(pool, run);
        }
        if run % KILL_RUN_EACH == KILL_RUN_EACH - 1 {
            self.kill_run(pool);
        }
        if run % PRESS_EACH == PRESS_EACH - 1 && self.may_press != Some(false) {
            self.press(pool);
        }
    }

    /// What was done, for a run of this length.
    pub(crate) fn is_enough(&self, runs: usize) -> bool {
        let pressed = self.may_press == Some(false) || self.pressed >= runs / PRESS_EACH;
        self.keepers_killed >= runs / KILL_KEEPER_EACH && self.runs_killed >= runs / KILL_RUN_EACH && pressed
    }

    fn kill_keeper(&mut self, pool: &Pool, run: usize) {
        let keepers = pool.idle_keepers();
        let chosen = keepers.get(run % keepers.len().max(1)).copied();
        chosen.into_iter().for_each(kill);
        self.keepers_killed += 1;
    }

    /// Kills a run that waits for its input.
    fn kill_run(&mut self, pool: &Pool) {
        let mut command = pool.command("cat");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat is installed");
        child.kill().expect("it lives");
        let status = child.wait().expect("its end");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
        self.runs_killed += 1;
    }

    /// Has the kernel page all keepers out, as far as it can.
    fn press(&mut self, pool: &Pool) {
        for keeper in pool.keepers() {
            let (Ok(pidfd), Ok(maps)) = (raw::pidfd_open(keeper), read_maps(keeper)) else { continue };
            let ours = maps.iter().filter(|mapping| mapping.write && !mapping.shared);
            let done = ours
                .map(|mapping| raw::page_out(pidfd.as_fd(), mapping.start, mapping.len_bytes()))
                .filter(Result::is_ok)
                .count();
            self.pressed += usize::from(done > 0);
        }
        self.may_press.get_or_insert(self.pressed > 0);
    }
}

/// Kills a keeper or a seed: a child of this process that nobody has waited for, so that the number is its own.
pub(crate) fn kill(keeper: i32) {
    if let Ok(pidfd) = raw::pidfd_open(keeper) {
        let _ = raw::pidfd_kill(pidfd.as_fd(), libc::SIGKILL);
    }
}
