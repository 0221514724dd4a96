//! A shard that several threads use: its lock, spawning with the fall back to exec, and the *tender*, a thread that carries out
//! what there is to do for what is kept, and sleeps until there is some.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;
use std::time::Instant;

use regrow_sys::raw::detached_thread;
use regrow_sys::room;

use crate::listing::{self, Listing, PoolUser, PoolUsers};
use crate::run::exec::spawn_exec;
use crate::run::request::Request;
use crate::run::started::Started;
use crate::settings::Settings;
use crate::shard::Shard;
use crate::tending;

/// The address space that there must be for the tender: its stack, and what it allocates.
const TENDER_BYTES: u64 = 8 << 20;

/// A handle of a shard. Its clones are the same shard.
#[derive(Clone, Debug)]
pub struct SharedShard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The process that made it: what a forked copy has of this is not the copy's.
    process: u32,
    shard: Mutex<Shard>,
    tender: Mutex<Tender>,
    users: Mutex<PoolUsers>,
    /// Nothing where the pool is not to be listed. It is the tender's, who may hold it while he writes a file.
    listing: Option<Mutex<Listing>>,
}

/// Whether there is a thread that carries work out, and how it is woken.
#[derive(Debug, Default)]
struct Tender {
    is_there: bool,
    thread: Option<Thread>,
}

impl SharedShard {
    /// A shard that keeps nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> SharedShard {
        let listing = settings.listed.then(|| Mutex::new(Listing::new()));
        SharedShard(Arc::new(Inner {
            process: std::process::id(),
            shard: Mutex::new(Shard::new(settings)),
            tender: Mutex::default(),
            users: Mutex::default(),
            listing,
        }))
    }

    /// The shard, for this thread alone.
    pub fn lock(&self) -> MutexGuard<'_, Shard> {
        self.0.lock()
    }

    /// Spawns a request: in a body if it can be, else by exec. The lock is not held during an exec.
    ///
    /// # Errors
    /// What exec of the request would say; `WouldBlock` where a process that is to wait for its turn could not.
    pub fn spawn(&self, request: &Request) -> io::Result<Started> {
        let attempt = self.lock().start(request);
        if request.is_ahead && attempt.is_err() {
            // What is started in another way begins at once.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let attempt = attempt.or_else(|why| self.lock().start_in_shell(request, why));
        let started = match attempt {
            Ok(started) => started,
            Err(why) => spawn_exec(request, why)?,
        };
        let mut shard = self.lock();
        shard.count(&started.creation);
        self.tend(&shard);
        Ok(started)
    }

    /// Sets how much memory may be held by what is in no use, and has what is more given back.
    pub fn set_budget(&self, bytes: u64) {
        let mut shard = self.lock();
        shard.set_budget(bytes);
        self.tend(&shard);
    }

    /// Says for whom processes are started, in the list of pools: `number` is a user, and nothing takes him off.
    pub fn set_user(&self, number: u64, user: Option<PoolUser>) {
        let mut users = self.0.users();
        match user {
            Some(user) => users.insert(number, user),
            None => users.remove(&number),
        };
    }

    /// Takes the pool off the list of pools for good.
    pub fn unlist(&self) {
        self.0.unlist();
    }

    /// In a forked copy of the process that made the shard: closes the copy's descriptors of what is kept, which goes on in the other
    /// process. Does nothing where a thread of that process was using the shard at the fork: it may be in the middle of a change.
    pub fn let_go_in_a_copy(&self) {
        if let Ok(mut shard) = self.0.shard.try_lock() {
            *shard = Shard::new(Settings { recycle: false, ..Settings::default() });
        }
    }

    /// Sees to it that somebody carries out what there is to do.
    fn tend(&self, shard: &Shard) {
        let mut tender = self.0.tender();
        if tender.is_there {
            if let Some(thread) = tender.thread.as_ref().filter(|_| tending::is_urgent(shard.view().holdings))
            {
                thread.unpark();
            }
            return;
        }
        if !(tending::is_wanted(shard.view().holdings) || self.0.is_listed(shard))
            || !room::is_left(TENDER_BYTES)
        {
            return;
        }
        let weak = Arc::downgrade(&self.0);
        match detached_thread(move || tend_for_ever(&weak)) {
            Ok(()) => tender.is_there = true,
            Err(error) => tracing::debug!(%error, "no thread for what is kept"),
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn users(&self) -> MutexGuard<'_, PoolUsers> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listing(&self) -> Option<MutexGuard<'_, Listing>> {
        Some(self.listing.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether there is something that others may see.
    fn is_listed(&self, shard: &Shard) -> bool {
        self.listing.is_some() && shard.view().tables().images.iter_kept().next().is_some()
    }

    /// Brings the list of pools up to date, where it is time. The shard's lock is not held while a file is written.
    fn list(&self) {
        let Some(mut listing) = self.listing().filter(|listing| listing.is_due()) else { return };
        let users = self.users().clone();
        let shard = self.lock();
        let pool = self.is_listed(&shard).then(|| listing::listed(&shard, &users));
        drop(shard);
        match pool {
            Some(pool) => listing.write(&pool),
            None => listing.remove(),
        }
    }

    fn unlist(&self) {
        // In a copy a thread that is not there may hold the lock.
        if self.process == std::process::id()
            && let Some(mut listing) = self.listing()
        {
            listing.end();
        }
    }

    /// Taken after the shard's lock, never before it.
    fn tender(&self) -> MutexGuard<'_, Tender> {
        self.tender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.unlist();
        if let Some(thread) = &self.tender().thread {
            thread.unpark();
        }
    }
}

/// The tender's life: as long as there is a shard that keeps something.
fn tend_for_ever(weak: &Weak<Inner>) {
    loop {
        let Some(inner) = weak.upgrade() else { return };
        inner.list();
        let mut shard = inner.lock();
        if let Some(work) = shard.take_work() {
            drop(shard);
            drop(inner);
            let finished = work.carry_out();
            if let Some(inner) = weak.upgrade() {
                inner.lock().finish(finished);
            }
            continue;
        }
        let looks = inner.is_listed(&shard).then(|| Instant::now() + listing::PERIOD);
        let next = shard.next_work().into_iter().chain(looks).min();
        let mut tender = inner.tender();
        let Some(next) = next else {
            *tender = Tender::default();
            drop(tender);
            drop(shard);
            // What comes meanwhile has another tender, who lists the pool again.
            if let Some(mut listing) = inner.listing() {
                listing.remove();
            }
            return;
        };
        tender.thread.get_or_insert_with(std::thread::current);
        drop(tender);
        drop(shard);
        // Whoever drops the last handle wakes this thread.
        drop(inner);
        std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
}
