//! What the simulator is told: costs that are measured by one client, beside a thread that only counts, or between two threads that do nothing else.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use regrow_memory::{Mode, PAGE_BYTES, Service};

use super::super::subject::{Costs, Subject, Way};
use super::super::turns::{refused, touch};
use super::super::worker::stay_on;
use super::model::Distances;
use crate::error::BenchError;
use crate::samples::{lower_quartile, median};
use crate::system::memory::PrivateMemory;

/// How long a turn is at least.
const TURN: Duration = Duration::from_millis(5);
/// How often a line goes there and back between two looks at the clock, and how many such looks there are.
const PASSES: u32 = 100;
const LOOKS: u32 = 50;
/// How often a thread is woken.
const WAKES: u32 = 100;
/// A gap of a counting thread is an interrupt from here on; up to there, else another one had its processor.
const INTERRUPT: Duration = Duration::from_nanos(700);
const OTHERS: Duration = Duration::from_micros(100);

/// What Linux takes for a block: its calls, and its pages. Nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in super::super) struct LinuxCosts {
    pub(super) mmap: f64,
    /// Of all pages.
    pub(super) touch: f64,
    pub(super) munmap: f64,
    /// The same while another thread of the process runs, and what that one is interrupted for it.
    pub(super) munmap_beside: f64,
    pub(super) interrupt: f64,
}

/// What the service takes for a block. Nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in super::super) struct ServiceCosts {
    /// Alloc and free of a client without a server: what it has kept, or under its zone's token.
    pub(super) pair: f64,
    /// An alloc by a slave, from the call to its return.
    pub(super) ask: f64,
    /// A free by a slave, for the client.
    pub(super) tell: f64,
    /// What the slave does for a message.
    pub(super) server: f64,
}

/// Costs of a size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in super::super) struct SizeCosts {
    pub(super) pages: u64,
    pub(super) linux: LinuxCosts,
    pub(super) immediate: ServiceCosts,
    pub(super) delayed: ServiceCosts,
    /// A touch of all pages where they are there.
    pub(super) touch: f64,
    /// What a block costs more that another client had before.
    pub(super) zero: f64,
}

/// Measures the costs of a size, again and again.
pub(super) struct Costing {
    pages: u64,
    /// Immediate and delayed: without a server, and by a slave.
    subjects: [[Subject; 2]; 2],
    shared: Service,
    turns: Vec<SizeCosts>,
}

impl Costing {
    pub(super) fn new(pages: u64) -> Result<Costing, BenchError> {
        let subject = |way, mode| Subject::new(way, pages, mode, false);
        let subjects = [
            [subject(Way::Kept, Mode::Immediate)?, subject(Way::Slave, Mode::Immediate)?],
            [subject(Way::Token, Mode::Delayed)?, subject(Way::Slave, Mode::Delayed)?],
        ];
        let shared = Service::new(&Way::Token.options()).map_err(refused)?;
        Ok(Costing { pages, subjects, shared, turns: Vec::new() })
    }

    /// A turn of all.
    pub(super) fn turn(&mut self) -> Result<(), BenchError> {
        let pages = usize::try_from(self.pages).unwrap_or(1);
        let linux = linux(pages)?;
        let mut modes = [ServiceCosts::default(); 2];
        for (costs, [alone, slave]) in modes.iter_mut().zip(&mut self.subjects) {
            let Costs { alloc, free } = alone.turn()?;
            let served = slave.turn()?;
            let server = slave.server_ns(served.alloc.ns)?;
            *costs =
                ServiceCosts { pair: alloc.ns + free.ns, ask: served.alloc.ns, tell: served.free.ns, server };
        }
        let [immediate, delayed] = modes;
        let zero = zero(&self.shared, self.pages)?;
        self.turns.push(SizeCosts {
            pages: self.pages,
            linux,
            immediate,
            delayed,
            touch: hot_touch(pages)?,
            zero,
        });
        Ok(())
    }

    /// Of each the lower quartile.
    pub(super) fn costs(&self) -> SizeCosts {
        let of = |part: &dyn Fn(&SizeCosts) -> f64| lower_quartile(self.turns.iter().map(part));
        let service = |mode: fn(&SizeCosts) -> ServiceCosts| ServiceCosts {
            pair: of(&|turn| mode(turn).pair),
            ask: of(&|turn| mode(turn).ask),
            tell: of(&|turn| mode(turn).tell),
            server: of(&|turn| mode(turn).server),
        };
        SizeCosts {
            pages: self.pages,
            linux: LinuxCosts {
                mmap: of(&|turn| turn.linux.mmap),
                touch: of(&|turn| turn.linux.touch),
                munmap: of(&|turn| turn.linux.munmap),
                munmap_beside: of(&|turn| turn.linux.munmap_beside),
                interrupt: of(&|turn| turn.linux.interrupt),
            },
            immediate: service(|turn| turn.immediate),
            delayed: service(|turn| turn.delayed),
            touch: of(&|turn| turn.touch),
            zero: of(&|turn| turn.zero),
        }
    }
}

/// Times of the calls of a block, by one thread. Of those alone that a thread beside it has seen begin and end, if there is one: else it had no processor.
fn calls(pages: usize, beat: Option<&AtomicU64>) -> Result<(LinuxCosts, u32), BenchError> {
    let (mut mmap, mut touches, mut munmap) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let (mut count, mut all) = (0u32, 0u32);
    let beats = || beat.map_or(0, |beat| beat.load(Ordering::Relaxed));
    let began = Instant::now();
    while began.elapsed() < TURN {
        let before = beats();
        let start = Instant::now();
        let mut memory = PrivateMemory::map(pages * PAGE_BYTES).map_err(BenchError::system("mmap"))?;
        let mapped = Instant::now();
        black_box(&mut memory).touch();
        let (touched, between) = (Instant::now(), beats());
        drop(memory);
        let unmapped = touched.elapsed();
        all += 1;
        if beat.is_none() || (before != between && beats() != between) {
            munmap += unmapped;
            mmap += mapped - start;
            touches += touched - mapped;
            count += 1;
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(count.max(1));
    let (mmap, touch, munmap) = (each(mmap), each(touches), each(munmap));
    Ok((LinuxCosts { mmap, touch, munmap, ..LinuxCosts::default() }, all))
}

/// The same alone, and beside a thread that counts for how long it is interrupted.
fn linux(pages: usize) -> Result<LinuxCosts, BenchError> {
    let (alone, _) = calls(pages, None)?;
    let is_over = AtomicBool::new(false);
    let (beat, lost_ns) = (AtomicU64::new(0), AtomicU64::new(0));
    let beside = thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = Instant::now();
            while !is_over.load(Ordering::Relaxed) {
                beat.fetch_add(1, Ordering::Relaxed);
                let now = Instant::now();
                let gap = now - last;
                last = now;
                if gap > INTERRUPT && gap < OTHERS {
                    lost_ns.fetch_add(u64::try_from(gap.as_nanos()).unwrap_or(0), Ordering::Relaxed);
                }
            }
        });
        while beat.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        let found = calls(pages, Some(&beat));
        is_over.store(true, Ordering::Relaxed);
        found
    });
    let (beside, count) = beside?;
    let interrupt = Duration::from_nanos(lost_ns.into_inner()).as_secs_f64() * 1e9 / f64::from(count.max(1));
    Ok(LinuxCosts { munmap_beside: beside.munmap.max(alone.munmap), interrupt, ..alone })
}

/// A touch of pages that are there.
fn hot_touch(pages: usize) -> Result<f64, BenchError> {
    let mut memory = PrivateMemory::map(pages * PAGE_BYTES).map_err(BenchError::system("mmap"))?;
    memory.touch();
    let began = Instant::now();
    let mut times = 0u32;
    while began.elapsed() < TURN / 4 {
        for time in 0..16 {
            touch(&mut memory, time);
            times += 1;
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e9 / f64::from(times))
}

/// What it costs that another client had the block: two take it in turn, and then one alone.
fn zero(service: &Service, pages: u64) -> Result<f64, BenchError> {
    let mut clients = [service.client(), service.client()];
    let mut each = |others: usize| -> Result<f64, BenchError> {
        let began = Instant::now();
        let mut times = 0u32;
        while began.elapsed() < TURN / 4 {
            for number in 0..16 {
                let client = &mut clients[number % others];
                let block = client.alloc(pages, Mode::Immediate).map_err(refused)?;
                client.free(block);
                times += 1;
            }
        }
        Ok(began.elapsed().as_secs_f64() * 1e9 / f64::from(times))
    };
    let (both, alone) = (each(2)?, each(1)?);
    Ok((both - alone).max(0.0))
}

/// What passes between two processors, but for messages, of which each size has its own cost.
pub(super) fn distances() -> Distances {
    let [wake_ns, waker_ns] = wake();
    Distances { message_ns: 0.0, handoff_ns: handoff(), wake_ns, waker_ns }
}

/// A line goes from one processor to the other, and back: one way. The median of many looks, as others may take a processor away meanwhile.
fn handoff() -> f64 {
    let turn = AtomicU32::new(0);
    let last = 2 * PASSES * LOOKS;
    let pass = |mine: u32| {
        while turn.load(Ordering::Acquire) != mine {
            spin_loop();
        }
        turn.store(mine + 1, Ordering::Release);
    };
    let times = thread::scope(|scope| {
        scope.spawn(|| (0..last).filter(|number| number % 2 == 1).for_each(pass));
        let look = |look: u32| {
            let began = Instant::now();
            (0..PASSES).for_each(|number| pass(2 * (look * PASSES + number)));
            began.elapsed().as_secs_f64() * 1e9 / f64::from(2 * PASSES)
        };
        (0..LOOKS).map(look).collect::<Vec<f64>>()
    });
    median(times)
}

/// From the call that wakes a thread which has just gone to sleep until it runs; and until the call returns. Each stays on a processor: a thread that is woken by what runs on
/// its own processor would wait for no other one.
fn wake() -> [f64; 2] {
    let began = Instant::now();
    let since = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (called, woken) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            stay_on(1);
            for _ in 0..WAKES {
                while called.load(Ordering::Acquire) == 0 {
                    thread::park();
                }
                called.store(0, Ordering::Relaxed);
                woken.store(since(), Ordering::Release);
            }
        });
        let one = |sleeper: &thread::Thread| {
            thread::sleep(Duration::from_micros(50));
            let now = since();
            called.store(now, Ordering::Release);
            sleeper.unpark();
            let returned = since();
            let at = loop {
                match woken.swap(0, Ordering::AcqRel) {
                    0 => spin_loop(),
                    at => break at,
                }
            };
            [at, returned].map(|end| Duration::from_nanos(end.saturating_sub(now)).as_secs_f64() * 1e9)
        };
        let caller = scope.spawn(move || {
            stay_on(0);
            let waker = sleeper.thread().clone();
            let looks: Vec<[f64; 2]> = (0..WAKES).map(|_| one(&waker)).collect();
            [0, 1].map(|part| median(looks.iter().map(|look| look[part])))
        });
        caller.join().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_costs_are_there_and_a_block_of_another_client_costs_more() -> Result<(), BenchError> {
        let mut costing = Costing::new(16)?;
        // What others do meanwhile is in single turns, and not in the middle of several.
        for _ in 0..5 {
            costing.turn()?;
        }
        let costs = costing.costs();
        let linux = costs.linux;
        assert!(
            [linux.mmap, linux.touch, linux.munmap, linux.munmap_beside].iter().all(|&ns| ns > 0.0),
            "{costs:?}"
        );
        for mode in [costs.immediate, costs.delayed] {
            // A slave that has no processor of its own may have no time that is its alone.
            assert!([mode.pair, mode.ask, mode.tell].iter().all(|&ns| ns > 0.0), "{costs:?}");
            assert!(mode.server >= 0.0, "{costs:?}");
        }
        assert!(costs.touch > 0.0 && costs.zero > 0.0, "{costs:?}");
        let distances = distances();
        assert!(distances.handoff_ns > 0.0 && distances.wake_ns > 0.0, "{distances:?}");
        Ok(())
    }
}
