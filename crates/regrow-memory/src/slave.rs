//! Slaves: threads that keep the token of a zone while there is much to do, and are not there otherwise.
//!
//! ```text
//!   little to do   no thread: each client is the server for its own request
//!   grow           more than GROW lanes have something when somebody looks, on the mean, and a processor is idle ──> a slave takes the token and keeps it
//!   shrink         nothing came for IDLE, or no processor is left for it ──> it lets the token go and ends; the next one comes later, and later each time
//!                  that one did not pay
//! ```
//!
//! The elasticity that the paper leaves open. The borders were found by measurement: decision 045.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::store::Store;

/// When slaves are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slaves {
    /// As many as the load asks for, and none where it asks for none.
    #[default]
    Elastic,
    /// None: clients do all themselves.
    Never,
    /// One for each zone. It sleeps while nothing is to be done.
    Always,
}

/// From this mean length of the queue on a slave comes.
pub(crate) const GROW: f64 = 1.5;
/// How long a slave looks for something to do.
const IDLE: Duration = Duration::from_micros(200);
/// How many looks there are between two at the clock, and how long between two at the processors.
const LOOKS: u32 = 64;
const LOOK_AT_PROCESSORS: Duration = Duration::from_millis(10);
/// A slave that stayed for less than this did not pay.
pub(crate) const PAYS: Duration = Duration::from_millis(20);

/// The slaves that are there always; they end with it.
#[derive(Debug)]
pub(crate) struct Fixed {
    store: Arc<Store>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Fixed {
    /// A slave for each zone. Those that cannot be started are not there, and clients do the work.
    pub(crate) fn start(store: &Arc<Store>) -> Fixed {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |zone: usize| {
            let (store, stop) = (Arc::clone(store), Arc::clone(&stop));
            named(zone).spawn(move || stay(&store, zone, &stop)).ok()
        };
        let threads = (0..store.seats().len()).filter_map(start).collect();
        Fixed { store: Arc::clone(store), stop, threads }
    }
}

impl Drop for Fixed {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.store.seats().iter().for_each(crate::seat::Seat::wake);
        for thread in self.threads.drain(..) {
            // It has nothing to give back but what it holds itself.
            let _ = thread.join();
        }
    }
}

fn named(zone: usize) -> thread::Builder {
    thread::Builder::new().name(format!("regrow-mem-{zone}")).stack_size(128 << 10)
}

/// Whether a processor has nothing to do: fewer tasks are ready to run than there are processors.
fn is_processor_idle(others: usize) -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/loadavg") else { return false };
    let ready =
        text.split_whitespace().nth(3).and_then(|field| field.split('/').next()?.parse::<usize>().ok());
    let processors = thread::available_parallelism().map_or(1, usize::from);
    ready.is_some_and(|ready| ready + others <= processors)
}

/// Starts a slave for a zone, where a processor is idle. Whether it did.
pub(crate) fn grow(store: &Arc<Store>, zone: usize) -> bool {
    let Some(seat) = store.seats().get(zone) else { return false };
    // One ready task is the caller.
    if !is_processor_idle(1) || !seat.set_slave(true) {
        return false;
    }
    let weak = Arc::downgrade(store);
    let started = named(zone).spawn(move || serve_while_it_pays(&weak, zone));
    if started.is_err() {
        seat.set_slave(false);
    }
    started.is_ok()
}

fn serve_while_it_pays(store: &Weak<Store>, zone: usize) {
    let Some(store) = store.upgrade() else { return };
    let Some(seat) = store.seats().get(zone) else { return };
    let began = Instant::now();
    let mut looked = began;
    while serve_until_idle(&store, zone) == Ended::Wanted {
        if looked.elapsed() > LOOK_AT_PROCESSORS {
            looked = Instant::now();
            if !is_processor_idle(0) {
                break;
            }
        }
    }
    seat.set_slave(false);
    seat.catch_up();
    store.note_slave(zone, began.elapsed());
}

/// The life of a slave that is always there.
fn stay(store: &Store, zone: usize, stop: &AtomicBool) {
    let Some(seat) = store.seats().get(zone) else { return };
    seat.set_slave(true);
    while !stop.load(Ordering::SeqCst) {
        if serve_until_idle(store, zone) == Ended::Idle {
            seat.wait(|| stop.load(Ordering::SeqCst));
        }
    }
    seat.set_slave(false);
    seat.catch_up();
}

/// Why a slave lets the token go.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// Nothing came.
    Idle,
    /// Somebody waits for the token, or it is time to look at the processors.
    Wanted,
}

/// Has the token of a zone until there is nothing to do, or somebody else wants it.
fn serve_until_idle(store: &Store, zone: usize) -> Ended {
    let Some(seat) = store.seats().get(zone) else { return Ended::Idle };
    let mut token = seat.token();
    let began = Instant::now();
    let mut last = began;
    let attends = token.may_attend();
    if attends {
        seat.attend(true);
    }
    let ended = 'serving: loop {
        for _ in 0..LOOKS {
            let served = if attends { token.serve_all() } else { token.serve() };
            if served > 0 {
                last = Instant::now();
            } else {
                std::hint::spin_loop();
            }
            if seat.is_wanted() {
                break 'serving Ended::Wanted;
            }
        }
        if last.elapsed() > IDLE {
            break Ended::Idle;
        }
        if began.elapsed() > LOOK_AT_PROCESSORS {
            break Ended::Wanted;
        }
    };
    if attends {
        seat.attend(false);
        token.serve_all();
    }
    drop(token);
    seat.catch_up();
    if ended == Ended::Wanted && seat.is_wanted() {
        // Who waits has its turn: a lock that is taken again at once would starve it.
        thread::yield_now();
    }
    ended
}
