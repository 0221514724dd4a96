//! The keeper of a program's service: a thread that gives back what the program needs no more.
//!
//! ```text
//!   a zone has more idle pages than H2 ──> it comes, looks each T1 and T2, listens for stalls ──> nothing is above the limits: it ends
//!   the program forks, changes its namespaces or its user, filters its calls ──> it ends first, and what is above H2 goes at once
//! ```
//!
//! So a program that has little free never has a thread of ours, nor has one that is idle; and one that may have no second thread at some
//! moment has none then. The C library does not know of the thread ([`regrow_sys::bare_thread`]).

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use regrow_memory::{GiveBack, Woken};
use regrow_sys::bare_thread::{BareThread, Own};
use regrow_sys::pressure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};

use crate::made::{Served, get};
use crate::settings::Settings;

static KEEPER: BareThread = BareThread::new(c"regrow-memory", keep);
/// The pipe that says that memory is short, if one is named.
static SOURCE: OnceLock<&'static [u8]> = OnceLock::new();
/// While it is there it looks so often whether memory is short.
const LISTEN: Duration = Duration::from_millis(250);
/// What all zones together keep at T1, and at T2.
const H1_PAGES: u64 = 2048;
const H2_PAGES: u64 = 512;

/// What goes back, and when.
pub(crate) fn give_back(settings: Settings, zones: usize) -> GiveBack {
    let ms = |ms: u32| Duration::from_millis(u64::from(ms));
    let zones = zones.max(1) as u64;
    GiveBack {
        t1: ms(settings.t1_ms),
        t2: ms(settings.t2_ms),
        h1_pages: H1_PAGES / zones,
        h2_pages: H2_PAGES / zones,
        on_pressure: true,
    }
}

/// Has the keeper come. To be called by zones, in the middle of a request. False where it cannot.
pub(crate) fn call() -> bool {
    KEEPER.call()
}

/// Names what says that memory is short instead of the kernel.
pub(crate) fn listen_to(source: &'static [u8]) {
    let _ = SOURCE.set(source);
}

/// As long as this is there, there is no keeper.
#[derive(Debug)]
pub(crate) struct Barred(());

/// Ends the keeper. What it would have given back is given back by the caller.
pub(crate) fn bar(served: &Served) -> Barred {
    let (barred, was_there) = bar_only();
    if was_there {
        let _nobody_is_in_a_request = served.client.hold();
        served.service.give_back_surplus();
    }
    barred
}

/// Ends the keeper. For a fork, which has all requests wait anyway; whether there is something to give back.
pub(crate) fn bar_only() -> (Barred, bool) {
    let was_there = KEEPER.bar();
    (Barred(()), was_there)
}

impl Drop for Barred {
    fn drop(&mut self) {
        KEEPER.unbar();
    }
}

/// Ends it for good: what the program does next may forbid calls that it makes.
pub(crate) fn end(served: &Served) {
    std::mem::forget(bar(served));
}

/// The life of the thread.
fn keep(own: &Own) {
    let Some(served) = get() else { return };
    let sources = if own.has_descriptors() { sources() } else { Vec::new() };
    let wait = |time: Duration| {
        let until = Instant::now() + time;
        loop {
            if is_short(&sources) {
                return Woken::Pressure;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::Time;
            }
            // Without a source there is nothing to listen to.
            let step = if sources.is_empty() { left } else { left.min(LISTEN) };
            if own.sleep(step) {
                return Woken::Over;
            }
        }
    };
    // A thread that needs what its slot keeps has it from its zone the next time.
    served.service.keep(wait, || served.client.trim_free());
}

/// What says that memory is short: descriptors of the thread's own, which are closed when it has nothing to do any more.
fn sources() -> Vec<(OwnedFd, PollFlags)> {
    match SOURCE.get() {
        Some(&path) => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            open(path, flags, Mode::empty()).into_iter().map(|fd| (fd, PollFlags::IN)).collect()
        }
        None => pressure::triggers().unwrap_or_default().into_iter().map(|fd| (fd, PollFlags::PRI)).collect(),
    }
}

fn is_short(sources: &[(OwnedFd, PollFlags)]) -> bool {
    let mut fds: Vec<PollFd<'_>> = sources.iter().map(|(fd, event)| PollFd::new(fd, *event)).collect();
    if fds.is_empty() || poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_err() {
        return false;
    }
    let says = |(fd, (source, event)): (&PollFd<'_>, &(OwnedFd, PollFlags))| {
        let event = *event;
        let has_said = fd.revents().contains(event) && !fd.revents().contains(PollFlags::ERR);
        // A trigger is reset by being asked; what a pipe holds is read.
        has_said && (event == PollFlags::PRI || rustix::io::read(source, &mut [0u8; 64]).is_ok_and(|n| n > 0))
    };
    fds.iter().zip(sources).filter(|&pair| says(pair)).count() > 0
}
