//! What it costs to give memory back: by the kernel's two kinds of advice, one by one and together, and by the service.
//!
//! Another thread of this process runs meanwhile: each call that takes pages away interrupts its processor.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use regrow_memory::{Block, GiveBack, Mode, PAGE_BYTES, Service, ServiceOptions};

use super::turns::{ROUNDS, refused};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;
use crate::system::memory::PrivateMemory;

/// Parts of a mapping that are given back, with as much between two of them.
const PARTS: usize = 64;
/// Sizes of parts, in pages.
const SIZES: [(&str, usize); 3] = [("4 KiB", 1), ("64 KiB", 16), ("2 MiB", 512)];

/// How parts are given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Each,
    EachLazily,
    Together,
}

/// Measures all of it; the service gives back what nobody uses.
pub(super) fn measure(service: &Service) -> Result<Vec<Figure>, BenchError> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let figures = SIZES.iter().map(|&(size, pages)| of_size(size, pages)).collect::<Result<Vec<_>, _>>();
        let of_service = by_service();
        is_over.store(true, Relaxed);
        let mut figures: Vec<Figure> = figures?.into_iter().flatten().collect();
        figures.extend(of_service?);
        // What is measured after this finds nothing to give back.
        service.give_back_now();
        Ok(figures)
    })
}

fn of_size(size: &str, pages: usize) -> Result<Vec<Figure>, BenchError> {
    let ways = [
        (Way::Each, "MADV_DONTNEED, a call for each"),
        (Way::Together, "MADV_DONTNEED, one call"),
        (Way::EachLazily, "MADV_FREE, a call for each"),
    ];
    let mut figures = Vec::new();
    for (way, name) in ways {
        let Some((call, touch)) = by_kernel(pages, way)? else { continue };
        let begin = format!("{PARTS} parts of {size} given back, {name}");
        figures.push(Figure::told(&begin, call, "ns a page"));
        figures.push(Figure::told(&format!("{begin}: the next touch"), touch, "ns a page"));
    }
    Ok(figures)
}

/// The times of a page: to give it back, and to touch it again. `None` where the kernel has no such call.
fn by_kernel(pages: usize, way: Way) -> Result<Option<(f64, f64)>, BenchError> {
    let bytes = pages * PAGE_BYTES;
    let parts: Vec<_> = (0..PARTS).map(|part| 2 * part * bytes..(2 * part + 1) * bytes).collect();
    let mut memory = PrivateMemory::map(2 * PARTS * bytes).map_err(BenchError::system("mmap"))?;
    let (mut calls, mut touches) = (Vec::new(), Vec::new());
    memory.touch();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        match way {
            Way::Each | Way::EachLazily => memory
                .give_back_each(&parts, way == Way::EachLazily)
                .map_err(BenchError::system("madvise"))?,
            Way::Together => match memory.give_back_together(&parts) {
                Some(given) if given == PARTS * bytes => {}
                _ => return Ok(None),
            },
        }
        calls.push(per_page(begun, PARTS * pages));
        let begun = Instant::now();
        memory.touch_parts(&parts);
        touches.push(per_page(begun, PARTS * pages));
    }
    Ok(Some((median(calls), median(touches))))
}

/// The service gives back chunks, and pages between which others are in use.
fn by_service() -> Result<Vec<Figure>, BenchError> {
    let options = ServiceOptions { zones: 1, give_back: GiveBack::NEVER, ..ServiceOptions::default() };
    let service = Service::new(&options).map_err(refused)?;
    let mut client = service.client();
    let mut figures = Vec::new();
    for (name, pages, count) in [("2 MiB", 512, 32), ("4 KiB", 1, 4096)] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let blocks = (0..2 * count).map(|_| client.alloc(pages, Mode::Delayed));
            let mut blocks: Vec<Block> = blocks.collect::<Result<_, _>>().map_err(refused)?;
            blocks
                .iter_mut()
                .for_each(|block| block.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1));
            service.give_back_now();
            let mut number = 0u64;
            blocks.retain(|_| {
                number += 1;
                number.is_multiple_of(2)
            });
            let begun = Instant::now();
            let given = service.give_back_now();
            if given != pages * count {
                return Err(BenchError::system("the memory service gives too little back")(
                    std::io::Error::other(format!("{given} pages")),
                ));
            }
            times.push(per_page(begun, usize::try_from(given).unwrap_or(usize::MAX)));
        }
        let name = format!("every other block of {name} given back by the service");
        figures.push(Figure::told(&name, median(times), "ns a page"));
    }
    Ok(figures)
}

fn per_page(begun: Instant, pages: usize) -> f64 {
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(pages)
}
