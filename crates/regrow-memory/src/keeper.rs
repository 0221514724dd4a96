//! The keeper of a service: the thread that gives back when it is time to, or memory is short.
//!
//! ```text
//!   asleep     in poll, without a timeout: a notice of a zone, and the kernel's descriptors of stalls        no processor time
//!     │ notice: a zone has more idle pages than its limits say
//!   looking    each T1 and T2                                           until nothing is above the limits, or nothing changes any more
//! ```
//!
//! It comes with the first client, blocks all signals, and ends with the service. A forked child has none, and says nothing to that of its
//! parent.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use regrow_sys::{pressure, raw};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::process::{Pid, getpid};

use crate::giving_back::{Cause, GiveBack, PressureWatch};
use crate::zone::{Look, Notice};

/// What a keeper looks after.
pub(crate) trait LookedAfter: Send + Sync + 'static {
    /// Begins the periods of all looks.
    fn begin_looking(&self);

    /// Ends them: zones tell when they are to be looked at again.
    fn end_looking(&self);

    /// Whether a zone is to be looked at again.
    fn is_watched(&self, is_longer: bool) -> bool;

    /// Gives back what a look finds in the zones. How many pages.
    fn give_back(&self, look: Look, cause: Cause) -> u64;
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Keeper {
    options: GiveBack,
    /// Who says that memory is short instead of the kernel, until the thread has it.
    source: Mutex<Option<OwnedFd>>,
    shared: Arc<OnceLock<Shared>>,
    has_thread: AtomicBool,
    /// Who keeps the service instead: what zones call.
    other: Option<Notice>,
}

/// Why somebody who keeps a service himself wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// So long as was asked, or less.
    Time,
    /// Memory is short.
    Pressure,
    /// He is to stop.
    Over,
}

/// What the thread has as well, from its start on: a service without it has no descriptors.
#[derive(Debug)]
struct Shared {
    /// Of the process that made it.
    pid: Pid,
    wake: OwnedFd,
    sources: Vec<Source>,
    /// The kernel's error where it says nothing about stalls.
    refused: Option<i32>,
    /// How many sources have not ended.
    alive: AtomicI32,
    is_over: AtomicBool,
}

/// What says that memory is short: a trigger of the kernel, or a descriptor that can be read then.
#[derive(Debug)]
struct Source {
    fd: OwnedFd,
    event: PollFlags,
}

/// What the keeper has heard.
#[derive(Debug, Default)]
struct Heard {
    notice: bool,
    pressure: bool,
}

impl Keeper {
    /// A keeper that is still to be started. Stalls are told by `source`, if there is one, instead of the kernel.
    pub(crate) fn new(options: GiveBack, source: Option<OwnedFd>) -> Keeper {
        let (source, shared) = (Mutex::new(source), Arc::new(OnceLock::new()));
        Keeper { options, source, shared, has_thread: AtomicBool::new(false), other: None }
    }

    /// The keeper of a service that somebody else keeps, who is called when there is something to do.
    pub(crate) fn other(options: GiveBack, notice: Notice) -> Keeper {
        let mut keeper = Keeper::new(options, None);
        keeper.other = Some(notice);
        keeper
    }

    pub(crate) fn options(&self) -> &GiveBack {
        &self.options
    }

    /// Starts the thread, if it is wanted and not there. Where there can be none the next client tries again.
    pub(crate) fn start(&self, kept: &Arc<impl LookedAfter>) {
        let is_there = || self.has_thread.load(Ordering::Relaxed);
        if self.other.is_some()
            || !self.options.needs_keeper()
            || is_there()
            || self.has_thread.swap(true, Ordering::SeqCst)
        {
            return;
        }
        if self.open().is_none_or(|shared| !shared.is_own()) {
            self.has_thread.store(false, Ordering::SeqCst);
            return;
        }
        let (kept, shared, options) = (Arc::downgrade(kept), Arc::clone(&self.shared), self.options);
        let life = move || _ = shared.get().map(|shared| keep(&kept, shared, &options));
        if raw::detached_thread(life).is_err() {
            self.has_thread.store(false, Ordering::SeqCst);
        }
    }

    /// Whether the thread was started, by this process.
    pub(crate) fn has_thread(&self) -> bool {
        self.has_thread.load(Ordering::SeqCst) && self.shared.get().is_some_and(Shared::is_own)
    }

    /// What the thread needs; `None` where no descriptor is left. One thread alone is here.
    fn open(&self) -> Option<&Shared> {
        if self.shared.get().is_none() {
            let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
            let shared = Shared::new(self.options.on_pressure, &mut source)?;
            let _ = self.shared.set(shared);
        }
        self.shared.get()
    }

    /// What zones call when they have more idle pages than they are to have.
    pub(crate) fn notice(&self) -> Option<Notice> {
        if let Some(notice) = &self.other {
            return Some(notice.clone());
        }
        let shared = Arc::clone(&self.shared);
        let tell = move || {
            // A keeper that has not come yet looks when it comes.
            let _ = shared.get().map(Shared::wake);
            true
        };
        self.options.needs_keeper().then(|| Notice::new(tell))
    }

    /// Who says that memory is short.
    pub(crate) fn pressure(&self) -> PressureWatch {
        if !self.options.on_pressure {
            return PressureWatch::Off;
        }
        match self.shared.get() {
            None => PressureWatch::NotYet,
            Some(&Shared { refused: Some(errno), .. }) => PressureWatch::None { errno },
            Some(shared) if shared.alive.load(Ordering::Relaxed) > 0 => PressureWatch::Watched,
            Some(_) => PressureWatch::Ended,
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.get() {
            shared.is_over.store(true, Ordering::SeqCst);
            shared.wake();
        }
    }
}

impl Shared {
    /// Takes the source, if there is one.
    fn new(on_pressure: bool, source: &mut Option<OwnedFd>) -> Option<Shared> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let (fds, event, refused) = match source.take() {
            _ if !on_pressure => (Vec::new(), PollFlags::PRI, None),
            Some(fd) => (vec![fd], PollFlags::IN, None),
            None => match pressure::triggers() {
                Ok(fds) => (fds, PollFlags::PRI, None),
                Err(error) => (Vec::new(), PollFlags::PRI, Some(error.raw_os_error().unwrap_or(0))),
            },
        };
        let sources: Vec<Source> = fds.into_iter().map(|fd| Source { fd, event }).collect();
        let alive = AtomicI32::new(i32::try_from(sources.len()).unwrap_or(i32::MAX));
        Some(Shared { pid: getpid(), wake, sources, refused, alive, is_over: AtomicBool::new(false) })
    }

    /// Whether this is the process that made it: descriptors are shared with a forked child, threads are not.
    fn is_own(&self) -> bool {
        self.pid == getpid()
    }

    fn wake(&self) {
        if self.is_own() {
            // Where it fails the counter is full, and the keeper awake.
            let _ = write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Sleeps until something is heard, or it is time. `ended`: the sources that say nothing any more. `None` where it cannot sleep: the
    /// process has closed what is not its own, or may have no descriptors.
    fn wait(&self, until: Option<Instant>, ended: &mut [bool]) -> Option<Heard> {
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let own = [PollFd::new(&self.wake, PollFlags::IN)];
        let alive = (0..).zip(&self.sources).filter(|&(number, _)| ended.get(number) == Some(&false));
        let (numbers, sources): (Vec<usize>, Vec<&Source>) = alive.unzip();
        let of_sources =
            sources.iter().map(|source| PollFd::from_borrowed_fd(source.fd.as_fd(), source.event));
        let mut fds: Vec<PollFd<'_>> = own.into_iter().chain(of_sources).collect();
        let mut heard = Heard::default();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Some(heard),
            Err(_) => return None,
        }
        let mut events = fds.iter().map(PollFd::revents);
        if events.next().is_some_and(|event| !event.is_empty()) {
            heard.notice = drain(&self.wake);
            if !heard.notice {
                return None;
            }
        }
        for ((event, source), number) in events.zip(sources).zip(numbers) {
            let is_trigger = source.event == PollFlags::PRI;
            let has_failed = event.intersects(PollFlags::ERR | PollFlags::NVAL);
            let says = event.contains(source.event) && !has_failed && (is_trigger || drain(&source.fd));
            heard.pressure |= says;
            if !says && !event.is_empty() {
                // The control group is gone, or who had the other end.
                if let Some(ended) = ended.get_mut(number) {
                    *ended = true;
                }
                self.alive.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Some(heard)
    }
}

/// Reads what can be read, once. Whether there was something.
fn drain(fd: &OwnedFd) -> bool {
    read(fd, &mut [0u8; 64]).is_ok_and(|bytes| bytes > 0)
}

/// The life of the thread.
fn keep(kept: &Weak<impl LookedAfter>, shared: &Shared, options: &GiveBack) {
    raw::set_signal_mask(u64::MAX);
    let mut periods = Periods::new(options);
    let mut ended = vec![false; shared.sources.len()];
    // What has become idle before is looked at as well.
    shared.wake();
    loop {
        let Some(heard) = shared.wait(periods.next(), &mut ended) else {
            shared.alive.store(0, Ordering::Relaxed);
            return;
        };
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        let Some(kept) = kept.upgrade() else { return };
        if heard.pressure {
            kept.give_back(Look::Everything, Cause::Pressure);
        }
        if heard.notice && periods.begin(Instant::now()) {
            kept.begin_looking();
        }
        let due = periods.due(Instant::now());
        for look in due.looks() {
            kept.give_back(look, Cause::Time);
        }
        if due.looks().next().is_some() && !kept.is_watched(due.is_longer) {
            periods.end();
        }
    }
}

/// Looks at each T1 and T2, until nothing is above the limits or nothing changes any more, or the caller is to stop. `wait` waits so long at
/// most; `after_all` is called after each look at all sizes.
pub(crate) fn keep_for_now(
    kept: &impl LookedAfter,
    options: &GiveBack,
    mut wait: impl FnMut(Duration) -> Woken,
    mut after_all: impl FnMut(),
) {
    let mut periods = Periods::new(options);
    periods.begin(Instant::now());
    kept.begin_looking();
    while let Some(next) = periods.next() {
        match wait(next.saturating_duration_since(Instant::now())) {
            Woken::Over => break,
            Woken::Pressure => _ = kept.give_back(Look::Everything, Cause::Pressure),
            Woken::Time => {}
        }
        let due = periods.due(Instant::now());
        for look in due.looks() {
            kept.give_back(look, Cause::Time);
            if look == Look::All {
                after_all();
            }
        }
        if due.looks().next().is_some() && !kept.is_watched(due.is_longer) {
            return;
        }
    }
    kept.end_looking();
}

/// When the next looks are.
#[derive(Debug)]
struct Periods {
    lengths: [Duration; 2],
    next: [Option<Instant>; 2],
}

/// The looks whose time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    chunks: bool,
    all: bool,
    /// The longer one of the periods is over.
    is_longer: bool,
}

impl Due {
    fn looks(self) -> impl Iterator<Item = Look> {
        [(self.chunks, Look::Chunks), (self.all, Look::All)]
            .into_iter()
            .filter_map(|(is_due, look)| is_due.then_some(look))
    }
}

impl Periods {
    fn new(options: &GiveBack) -> Periods {
        Periods { lengths: [options.t1, options.t2], next: [None; 2] }
    }

    fn next(&self) -> Option<Instant> {
        self.next.into_iter().flatten().min()
    }

    /// Begins both, unless they have begun. Whether it did.
    fn begin(&mut self, now: Instant) -> bool {
        let is_new = self.next().is_none();
        if is_new {
            self.next = self.lengths.map(|length| after(now, length));
        }
        is_new && self.next().is_some()
    }

    fn end(&mut self) {
        self.next = [None; 2];
    }

    /// What is due. Its next periods begin.
    fn due(&mut self, now: Instant) -> Due {
        let is_due = self.next.map(|next| next.is_some_and(|next| next <= now));
        for ((next, length), is_due) in self.next.iter_mut().zip(self.lengths).zip(is_due) {
            if is_due {
                *next = after(now, length);
            }
        }
        let [chunks, all] = is_due;
        let [t1, t2] = self.lengths;
        // Zero is no period: the other one is the longer.
        Due { chunks, all, is_longer: if t1 > t2 { chunks } else { all } }
    }
}

/// Zero is no period.
fn after(now: Instant, length: Duration) -> Option<Instant> {
    if length.is_zero() { None } else { now.checked_add(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_once_and_come_again_until_they_end() {
        let ms = Duration::from_millis;
        let mut periods = Periods::new(&GiveBack { t1: ms(10), t2: ms(25), ..GiveBack::default() });
        let start = Instant::now();
        assert_eq!(periods.next(), None);
        assert!(periods.begin(start) && !periods.begin(start + ms(5)));
        let mut due = |after| {
            let due = periods.due(start + ms(after));
            (due.looks().collect::<Vec<_>>(), due.is_longer)
        };
        assert_eq!(due(9), (vec![], false));
        assert_eq!(due(10), (vec![Look::Chunks], false));
        assert_eq!(due(26), (vec![Look::Chunks, Look::All], true));
        assert_eq!(due(27), (vec![], false));
        assert_eq!(periods.next(), Some(start + ms(36)));
        periods.end();
        assert_eq!((periods.next(), periods.begin(start)), (None, true));
    }

    #[test]
    fn a_period_of_no_length_never_ends() {
        let t1 = Duration::from_secs(1);
        let mut periods = Periods::new(&GiveBack { t1, ..GiveBack::NEVER });
        let start = Instant::now();
        assert!(periods.begin(start));
        let due = periods.due(start + t1);
        assert!(due.chunks && !due.all && due.is_longer, "there is no other: {due:?}");
        assert!(!Periods::new(&GiveBack::NEVER).begin(start));
    }

    #[test]
    fn a_source_that_has_ended_is_asked_no_more() {
        let (reader, writer) = rustix::pipe::pipe().expect("descriptors");
        let shared = Shared::new(true, &mut Some(reader)).expect("a descriptor");
        let mut ended = [false];
        write(&writer, b"short").expect("there is room");
        let mut wait = |until| shared.wait(until, &mut ended).expect("it can sleep");
        assert!(wait(None).pressure);
        drop(writer);
        assert!(!wait(None).pressure);
        shared.wake();
        assert!(wait(None).notice);
        assert!(!wait(Some(Instant::now())).notice, "it was taken");
        assert_eq!(ended, [true]);
        assert_eq!(shared.alive.load(Ordering::Relaxed), 0);
    }
}
