//! The list of a user's pools: each pool that keeps something has a small file, which `regrow status` and `regrow top` read.
//!
//! ```text
//!   tender, once a second ──what the pool is like, if that has changed──> RUNTIME/regrow-pools/PID-NANOSECONDS
//!   reader ──all files──> pools of processes that live; the other files are removed
//! ```
//!
//! Nothing of it is on the way of a run. A pool whose file cannot be written is not listed, and works as ever. A file has a first line that
//! says whose it is, and the rest is JSON. It is replaced as a whole: nobody reads half of one. It goes with the pool; what a process that
//! was killed has left is removed by the next reader, and by the next process that lists a pool.
//!
//! Invariant: a process removes a file of another process only if that process, of the same pid namespace, is not there any more.

mod files;
mod owner;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use files::{Listed, ListingError, read_all};

use regrow_sys::{own_folder, room};

use crate::clock::monotonic_ns;
use crate::controller::{Value, look};
use crate::shard::Shard;
use owner::Owner;

/// How old what is listed may be, beside the time that the tender sleeps.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// What is allocated at most for a list.
const LISTED_BYTES: u64 = 4 << 20;

/// Somebody for whom a pool starts processes: an executor, for example.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolUser {
    /// What it is called.
    pub name: String,
    /// What its processes have loaded when they start, as its caller names it; empty where that is nothing.
    pub loaded: String,
    /// How many processes it has at a time.
    pub workers: u64,
    /// How many of its calls wait.
    pub waiting: u64,
    /// How many of its calls have failed.
    pub failed: u64,
}

/// Those for whom a pool starts processes, by numbers of their own.
pub(crate) type PoolUsers = BTreeMap<u64, PoolUser>;

/// The file of one pool.
#[derive(Debug)]
pub(crate) struct Listing {
    /// When the pool was made: of the pools of a process each has another time.
    number: u64,
    /// The runtime folder's name when the pool was made: the tender does not read an environment that others may write to.
    runtime: Option<PathBuf>,
    due: Instant,
    /// Where the file is, once it was written.
    file: Option<PathBuf>,
    written: String,
    /// Nothing is written any more: it could not be, or is not to be.
    is_over: bool,
}

impl Listing {
    /// Nothing is written in the first second: a short program is not worth a file.
    pub(crate) fn new() -> Listing {
        Listing {
            number: monotonic_ns(),
            runtime: own_folder::named_runtime(),
            due: Instant::now() + PERIOD,
            file: None,
            written: String::new(),
            is_over: false,
        }
    }

    /// Whether it is time to write, and there is memory for it.
    pub(crate) fn is_due(&self) -> bool {
        !self.is_over && self.due <= Instant::now() && room::is_left(LISTED_BYTES)
    }

    /// Writes what a pool is like, if that has changed.
    pub(crate) fn write(&mut self, pool: &Value) {
        self.due = Instant::now() + PERIOD;
        let text = words::json(pool);
        if text == self.written {
            return;
        }
        match self.replace(&text) {
            Ok(file) => (self.file, self.written) = (Some(file), text),
            Err(error) => {
                tracing::debug!(%error, "the pool is not listed");
                self.is_over = true;
            }
        }
    }

    fn replace(&self, text: &str) -> Result<PathBuf, ListingError> {
        let folder = match self.file.as_ref().and_then(|file| file.parent()) {
            Some(folder) => folder.to_owned(),
            None => files::make_folder(self.runtime.as_deref())?,
        };
        let owner = Owner::this().ok_or(ListingError::NoProc)?;
        files::write(&folder, &owner, self.number, text, self.file.is_none())
    }

    /// Takes the pool off the list, until something is written again.
    pub(crate) fn remove(&mut self) {
        self.written.clear();
        if let Some(file) = self.file.take() {
            // Somebody may have tidied up.
            let _ = std::fs::remove_file(file);
        }
    }

    /// Takes the pool off the list for good.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        self.remove();
    }
}

/// What is listed of a pool.
pub(crate) fn listed(shard: &Shard, users: &PoolUsers) -> Value {
    let users = users.iter().map(|(number, user)| {
        let fields = Value::fields([
            ("name", Value::text(&user.name)),
            ("loaded", Value::text(&user.loaded)),
            ("workers", Value::Number(user.workers)),
            ("waiting", Value::Number(user.waiting)),
            ("failed", Value::Number(user.failed)),
        ]);
        (number.to_string(), fields)
    });
    let Value::Fields(mut fields) = look::listed(shard.view(), shard.stats_so_far()) else {
        return Value::None;
    };
    fields.insert(0, ("users".to_owned(), Value::Fields(users.collect())));
    Value::Fields(fields)
}
