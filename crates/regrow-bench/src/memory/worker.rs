//! A thread that has a block at a time: alloc, touch and free by the service, or `mmap`, touch and `munmap`; and several that do so together.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use regrow_memory::{Client, Mode, PAGE_BYTES};

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

/// A turn of several that begin at the same time: blocks per second of all together.
pub(super) fn together(workers: &mut [Worker], by_service: bool) -> Result<f64, BenchError> {
    let barrier = Barrier::new(workers.len());
    let start = &|worker: &mut Worker| {
        barrier.wait();
        worker.turn(by_service)
    };
    thread::scope(|scope| {
        let started: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(move || start(worker))).collect();
        started.into_iter().map(joined).sum()
    })
}
