//! A thread that has a block at a time: alloc, touch and free by the service, or `mmap`, touch and `munmap`; and several that do so together.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use regrow_memory::{Client, Mode, PAGE_BYTES};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::turns::{AT_ONCE, TURN, joined, refused, touch};
use crate::error::BenchError;
use crate::system::memory::PrivateMemory;

/// See the module.
pub(super) struct Worker {
    client: Client,
    mode: Mode,
    pages: usize,
    time: usize,
}

impl Worker {
    /// One that asks as this client for blocks of a size.
    pub(super) fn new(client: Client, mode: Mode, pages: usize) -> Worker {
        Worker { client, mode, pages, time: 0 }
    }

    fn by_service(&mut self) -> Result<(), BenchError> {
        let mut block = self.client.alloc(self.pages as u64, self.mode).map_err(refused)?;
        self.time += 1;
        touch(&mut block, self.time);
        self.client.free(block);
        Ok(())
    }

    fn by_kernel(&self) -> Result<(), BenchError> {
        let mapped = PrivateMemory::map(self.pages * PAGE_BYTES).map_err(BenchError::system("mmap"))?;
        black_box(mapped).touch();
        Ok(())
    }

    /// Blocks per second in a turn.
    pub(super) fn turn(&mut self, by_service: bool) -> Result<f64, BenchError> {
        let begun = Instant::now();
        let mut count = 0u32;
        while begun.elapsed() < TURN {
            for _ in 0..AT_ONCE {
                if by_service {
                    self.by_service()?;
                } else {
                    self.by_kernel()?;
                }
                count += 1;
            }
        }
        Ok(f64::from(count) / begun.elapsed().as_secs_f64())
    }
}

/// Has the calling thread run on one of the processors that it may use, by its number among them, alone.
pub(super) fn stay_on(number: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&processor| allowed.is_set(processor)).collect();
    let mut only = CpuSet::new();
    all.get(number % all.len().max(1)).into_iter().for_each(|&processor| only.set(processor));
    // Where this is refused the thread goes where the scheduler puts it.
    let _ = sched_setaffinity(None, &only);
}

/// A turn of several that begin at the same time: blocks per second of all together. Where there are processors enough each has one of its own: else
/// two may share one for a whole turn, while another processor rests.
pub(super) fn together(workers: &mut [Worker], by_service: bool) -> Result<f64, BenchError> {
    let barrier = Barrier::new(workers.len());
    let has_own = workers.len() <= thread::available_parallelism().map_or(1, usize::from);
    let start = &|number: usize, worker: &mut Worker| {
        if has_own {
            stay_on(number);
        }
        barrier.wait();
        worker.turn(by_service)
    };
    thread::scope(|scope| {
        let workers = workers.iter_mut().enumerate();
        let started: Vec<_> =
            workers.map(|(number, worker)| scope.spawn(move || start(number, worker))).collect();
        started.into_iter().map(joined).sum()
    })
}
