//! Blocks of the memory service beside those of jemalloc and mimalloc, which give memory back at once.
//!
//! An allocator that keeps what is freed measures its cache. These two are told to give freed pages back to the kernel without delay
//! (`dirty_decay_ms:0`, `purge_delay=0`), as programs do that share a machine; what each is told is read back before anything is measured.
//!
//! The floor beside them is the touch alone, of pages that are there: no allocator gives blocks faster than they are touched. mimalloc keeps the block that a thread
//! has freed last whatever it is told, so that it is near the floor where a thread has one block at a time. With 16 at a time it is not.

#![allow(unsafe_code, reason = "C allocators are asked for memory, and their memory is touched")]

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use libmimalloc_sys as mimalloc;
use regrow_memory::{Block, Client, Mode, PAGE_BYTES, Service};
use tikv_jemalloc_sys as jemalloc;

use super::turns::{AT_ONCE, ROUNDS, TURN, refused, touch};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;
use crate::system::memory::PrivateMemory;

/// How many times as many blocks as by an allocator are asked for.
const AT_LEAST: f64 = 3.0;
const THREADS: usize = 2;
/// What is measured: the name, pages, and how many blocks a thread has at a time.
const CASES: [(&str, usize, usize); 3] =
    [("64 KiB", 16, 1), ("64 KiB, 16 at a time", 16, 16), ("2 MiB", 512, 1)];
/// mimalloc's number of its option `purge_delay`, which the bindings do not have.
const PURGE_DELAY: mimalloc::mi_option_t = 15;
/// For arenas that are to be made, and for the one that is there.
const DECAYS: [&CStr; 4] = [
    c"arenas.dirty_decay_ms",
    c"arenas.muzzy_decay_ms",
    c"arena.0.dirty_decay_ms",
    c"arena.0.muzzy_decay_ms",
];

/// Who gives the blocks of a turn.
#[derive(Clone, Copy)]
enum Side {
    Service,
    Jemalloc,
    Mimalloc,
    /// Blocks that stay: they are touched, and nothing else.
    Floor,
}

const SIDES: [Side; 4] = [Side::Service, Side::Jemalloc, Side::Mimalloc, Side::Floor];

/// Measures all cases.
pub(super) fn measure(service: &Service) -> Result<Vec<Figure>, BenchError> {
    give_back_at_once()?;
    let mut figures = Vec::new();
    for (size, pages, held) in CASES {
        let [ours, jemalloc, mimalloc, floor] = rates(service, pages, held)?;
        let name = format!("{size}, two threads, immediate");
        let against =
            |allocator| format!("{name}: alloc, touch, free, against {allocator} that gives back at once");
        figures.extend([
            Figure::at_least(&against("jemalloc"), ours / jemalloc, AT_LEAST, "times"),
            Figure::at_least(&against("mimalloc"), ours / mimalloc, AT_LEAST, "times"),
            Figure::told(
                &format!("{name}: touch alone (the floor), against mimalloc that gives back at once: no allocator reaches more"),
                floor / mimalloc,
                "times",
            ),
            Figure::told(&format!("{name}: touch alone (the floor), against the service"), floor / ours, "times"),
            Figure::told(&format!("{name}: touch alone"), floor, "1/s"),
            Figure::told(&format!("{name}: by the service beside them"), ours, "1/s"),
            Figure::told(&format!("{name}: by jemalloc"), jemalloc, "1/s"),
            Figure::told(&format!("{name}: by mimalloc"), mimalloc, "1/s"),
        ]);
    }
    Ok(figures)
}

/// Tells both allocators to keep nothing, and reads it back.
fn give_back_at_once() -> Result<(), BenchError> {
    let failed = |what: String| {
        BenchError::system("an allocator cannot be told to give back at once")(std::io::Error::other(what))
    };
    for name in DECAYS {
        let (mut told, mut read) = (0isize, -2isize);
        let mut bytes = size_of::<isize>();
        // SAFETY: the names end in a zero; these settings are words, and both words live until the calls return.
        let status = unsafe {
            let set = jemalloc::mallctl(
                name.as_ptr(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                (&raw mut told).cast(),
                bytes,
            );
            let get = jemalloc::mallctl(
                name.as_ptr(),
                (&raw mut read).cast(),
                &raw mut bytes,
                std::ptr::null_mut(),
                0,
            );
            (set, get)
        };
        if (status, read) != ((0, 0), 0) {
            return Err(failed(format!("jemalloc's {}: {read}, by {status:?}", name.to_string_lossy())));
        }
    }
    // SAFETY: options are words of mimalloc's own.
    let delay = unsafe {
        mimalloc::mi_option_set(PURGE_DELAY, 0);
        mimalloc::mi_option_get(PURGE_DELAY)
    };
    if delay == 0 { Ok(()) } else { Err(failed(format!("mimalloc's purge_delay: {delay}"))) }
}

/// Blocks per second by each side, of all threads together.
fn rates(service: &Service, pages: usize, held: usize) -> Result<[f64; SIDES.len()], BenchError> {
    let barrier = Barrier::new(THREADS);
    let of_threads = thread::scope(|scope| {
        let started: Vec<_> = (0..THREADS)
            .map(|_| {
                let worker = Worker { client: service.client(), pages, held, time: 0, floor: Vec::new() };
                scope.spawn(|| worker.work(&barrier))
            })
            .collect();
        let panicked = |_| std::io::Error::other("a thread of the benchmark panicked");
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().map_err(panicked).map_err(BenchError::system("memory cannot be measured"))?
        };
        started.into_iter().map(join).collect::<Result<Vec<[f64; SIDES.len()]>, BenchError>>()
    })?;
    Ok(std::array::from_fn(|side| of_threads.iter().map(|rates| rates[side]).sum()))
}

/// A thread.
struct Worker {
    client: Client,
    pages: usize,
    held: usize,
    time: usize,
    /// The blocks that stay.
    floor: Vec<PrivateMemory>,
}

impl Worker {
    /// The medians of its rates in turns that both threads begin at the same time. Whatever fails, it comes to every barrier.
    fn work(mut self, barrier: &Barrier) -> Result<[f64; SIDES.len()], BenchError> {
        let mut rates = [const { Vec::new() }; SIDES.len()];
        let mut failed = self.map_floor();
        for _ in 0..ROUNDS {
            for (rates, side) in rates.iter_mut().zip(SIDES) {
                barrier.wait();
                if failed.is_ok() {
                    failed = self.turn(side).map(|rate| rates.push(rate));
                }
                barrier.wait();
            }
        }
        failed.map(|()| rates.map(median))
    }

    fn map_floor(&mut self) -> Result<(), BenchError> {
        for _ in 0..self.held {
            let mut memory =
                PrivateMemory::map(self.pages * PAGE_BYTES).map_err(BenchError::system("mmap"))?;
            memory.touch();
            self.floor.push(memory);
        }
        Ok(())
    }

    /// Blocks per second in a turn.
    fn turn(&mut self, side: Side) -> Result<f64, BenchError> {
        let begun = Instant::now();
        let mut count = 0u32;
        let mut held = Vec::with_capacity(self.held);
        while begun.elapsed() < TURN {
            for _ in 0..AT_ONCE {
                held.push(self.take(side)?);
                count += 1;
                if held.len() == self.held {
                    held.drain(..).for_each(|block| self.give_back(block));
                }
            }
        }
        held.drain(..).for_each(|block| self.give_back(block));
        Ok(f64::from(count) / begun.elapsed().as_secs_f64())
    }

    /// A block that was touched.
    fn take(&mut self, side: Side) -> Result<Taken, BenchError> {
        self.time += 1;
        let bytes = self.pages * PAGE_BYTES;
        Ok(match side {
            Side::Service => {
                let mut block = self.client.alloc(self.pages as u64, Mode::Immediate).map_err(refused)?;
                touch(&mut block, self.time);
                Taken::Service(block)
            }
            Side::Jemalloc => {
                // SAFETY: the size is not zero.
                let block = given(unsafe { jemalloc::mallocx(bytes, 0) })?;
                touch_raw(block, bytes, self.time);
                Taken::Jemalloc(block)
            }
            Side::Mimalloc => {
                // SAFETY: any size may be asked for.
                let block = given(unsafe { mimalloc::mi_malloc(bytes) })?;
                touch_raw(block, bytes, self.time);
                Taken::Mimalloc(block)
            }
            Side::Floor => {
                let at = self.time % self.held;
                if let Some(block) = self.floor.get_mut(at) {
                    touch(block, self.time);
                }
                Taken::Nothing
            }
        })
    }

    fn give_back(&mut self, taken: Taken) {
        match taken {
            Taken::Nothing => {}
            Taken::Service(block) => self.client.free(block),
            // SAFETY: the block is jemalloc's, and is used no more.
            Taken::Jemalloc(block) => unsafe { jemalloc::dallocx(block.as_ptr().cast(), 0) },
            // SAFETY: the block is mimalloc's, and is used no more.
            Taken::Mimalloc(block) => unsafe { mimalloc::mi_free(block.as_ptr().cast()) },
        }
    }
}

/// A block, and who has given it.
enum Taken {
    Nothing,
    Service(Block),
    Jemalloc(NonNull<u8>),
    Mimalloc(NonNull<u8>),
}

fn given(block: *mut std::ffi::c_void) -> Result<NonNull<u8>, BenchError> {
    let none = || BenchError::system("an allocator has no memory")(std::io::ErrorKind::OutOfMemory.into());
    NonNull::new(block.cast()).ok_or_else(none)
}

/// Touches a block of which nothing has been written as yet: the first byte of each page is written before it is looked at.
fn touch_raw(block: NonNull<u8>, bytes: usize, time: usize) {
    for at in (0..bytes).step_by(PAGE_BYTES) {
        // SAFETY: the block has so many bytes, and is this thread's alone.
        let page = unsafe {
            block.add(at).write(0);
            std::slice::from_raw_parts_mut(block.add(at).as_ptr(), 1)
        };
        touch(page, time);
    }
}
