//! Commands of a pool that counts what was in a body.

use std::cell::RefCell;
use std::ffi::OsStr;

use regrow::{Pool, Stats};

thread_local! {
    /// The pool of the scenario that this thread is in.
    static POOL: RefCell<Option<Pool>> = const { RefCell::new(None) };
}

/// Stands for `Command` in a scenario.
pub(crate) struct Command;

impl Command {
    /// A command of the scenario's pool, whose program has an image from the first run on.
    #[allow(clippy::new_ret_no_self, reason = "it is called as that of `std::process`")]
    pub(crate) fn new(program: impl AsRef<OsStr>) -> regrow::Command {
        let pool = POOL.with_borrow(Clone::clone).expect("it is called in a scenario");
        let command = pool.command(program);
        // Where there is no such program the scenario has its own say; where there is one, the count of the runs in a body.
        let _ = pool.prepare(&command);
        command
    }
}

/// Has an image of a command as it stands made ahead: one with another environment or another name may need another image.
pub(crate) trait Ready {
    fn ready(&mut self) -> &mut Self;
}

impl Ready for std::process::Command {
    fn ready(&mut self) -> &mut Self {
        self
    }
}

impl Ready for regrow::Command {
    fn ready(&mut self) -> &mut Self {
        let pool = POOL.with_borrow(Clone::clone).expect("it is called in a scenario");
        pool.prepare(self).expect("it can be kept");
        self
    }
}

/// How the runs of a scenario were made.
#[derive(Debug)]
pub(crate) struct Counts(Stats);

impl Counts {
    pub(crate) fn in_bodies(&self) -> u64 {
        self.0.recycled.total() + self.0.forked_body.total()
    }
}

/// Runs a scenario in a pool of its own.
pub(crate) fn counted<T>(scenario: impl FnOnce() -> T) -> (T, Counts) {
    let pool = Pool::new();
    let before = POOL.replace(Some(pool.clone()));
    assert!(before.is_none(), "a scenario is in no other");
    let seen = scenario();
    POOL.set(None);
    (seen, Counts(pool.stats()))
}
