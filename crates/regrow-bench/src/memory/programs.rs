//! Programs of the paper's kind, with their page-sized blocks from the kernel, from the service, and for nothing (the ceiling) in turn: one copy
//! for each of two threads.
//!
//! | program | asked | as in the paper |
//! |---|---|---|
//! | [`bzip2`] | half as fast again | two pages for every 5,000 bytes; +49 % |
//! | [`lattice`] | nearly twice as fast | malloc and free are system calls; +90 % |
//!
//! Both threads begin a turn together, so that they meet in the kernel's lock of the address space. Each copy has a client of its own. A run
//! whose result is not that of the first one, byte for byte, is an error.

pub(super) mod bzip2;
pub(super) mod lattice;

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use regrow_memory::{Mode, Service};

use super::source::{Kernel, Program, Ready, Served, Source};
use super::turns::joined;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;
use bzip2::Bzip2;
use lattice::{Blocks, Lattice};

/// How many turns each side has, and copies that run at the same time.
const ROUNDS: usize = 7;
const COPIES: usize = 2;
/// By the kernel, by the service, and with blocks that cost nothing.
const SIDES: usize = 3;

/// Measures all programs.
///
/// # Errors
/// [`BenchError`] where memory is refused or a result differs.
pub(super) fn measure(service: &Service) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    let text = Bzip2::text(1_000_000);
    figures.extend(compare(service, &text, "bzip2 of a text of 1 MB", Some(50.0))?);
    let runs = Bzip2::runs(10_000_000);
    figures.extend(compare(service, &runs, "bzip2 of 10 MB that are one run", None)?);
    let pages = Lattice { rows: 64, steps: 200, blocks: Blocks::PageForEachRow };
    figures.extend(compare(service, &pages, "lattice-Boltzmann, a page for each row and step", Some(90.0))?);
    let grids = Lattice { rows: 512, steps: 10, blocks: Blocks::GridForEachRun };
    figures.extend(compare(service, &grids, "lattice-Boltzmann, two grids of 2 MiB for 10 steps", None)?);
    Ok(figures)
}

/// A run: what it took, in seconds, and how many blocks it was given.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
struct Took {
    seconds: f64,
    blocks: u32,
}

/// A program by the kernel and by the service: how much more of it is done in the same time, in percent.
fn compare(
    service: &Service,
    program: &impl Program,
    name: &str,
    asked: Option<f64>,
) -> Result<[Figure; 4], BenchError> {
    let expected = program.run(&mut Kernel::default())?;
    let barrier = Barrier::new(COPIES);
    let copy = || turns(service, program, &expected, name, &barrier);
    let copies = thread::scope(|scope| {
        let started: Vec<_> = (0..COPIES).map(|_| scope.spawn(copy)).collect();
        started.into_iter().map(joined).collect::<Result<Vec<[Vec<Took>; SIDES]>, BenchError>>()
    })?;
    let [kernel, ours, ceiling] = [0, 1, 2].map(|side| {
        let seconds = copies.iter().flat_map(|sides| sides[side].iter().map(|took| took.seconds));
        median(seconds)
    });
    let blocks = copies.iter().flat_map(|sides| &sides[1]).map(|took| took.blocks).max().unwrap_or(0);
    let gain = |seconds: f64| (kernel / seconds - 1.0) * 100.0;
    let against = format!("{name}, two threads: more by the service than by mmap");
    let per_block = |seconds: f64| seconds * 1e6 / f64::from(blocks.max(1));
    Ok([
        asked.map_or_else(
            || Figure::told(&against, gain(ours), "%"),
            |asked| Figure::at_least(&against, gain(ours), asked, "%"),
        ),
        Figure::told(
            &format!("{name}, two threads: more by blocks that cost nothing (the ceiling)"),
            gain(ceiling),
            "%",
        ),
        Figure::told(
            &format!("{name}: time for each block, with the work, by the service"),
            per_block(ours),
            "us",
        ),
        Figure::told(
            &format!("{name}: time for each block, with the work, by mmap"),
            per_block(kernel),
            "us",
        ),
    ])
}

/// The turns of a copy, by each side. Whatever fails, it comes to every barrier.
fn turns(
    service: &Service,
    program: &impl Program,
    expected: &[u8],
    name: &str,
    barrier: &Barrier,
) -> Result<[Vec<Took>; SIDES], BenchError> {
    let mut kernel = Kernel::default();
    let mut served = Served::new(service.client(), Mode::Immediate);
    let mut ready = Ready::default();
    let mut took = [const { Vec::new() }; SIDES];
    let mut failed = Ok(());
    for _ in 0..ROUNDS {
        for (side, took) in took.iter_mut().enumerate() {
            barrier.wait();
            if failed.is_ok() {
                let turn = match side {
                    0 => timed(program, &mut kernel, expected, name),
                    1 => timed(program, &mut served, expected, name),
                    _ => timed(program, &mut ready, expected, name),
                };
                failed = turn.map(|turn| took.push(turn));
            }
        }
    }
    failed.map(|()| took)
}

fn timed<S: Source>(
    program: &impl Program,
    source: &mut S,
    expected: &[u8],
    name: &str,
) -> Result<Took, BenchError> {
    let (begun, before) = (Instant::now(), source.count());
    let result = program.run(source)?;
    let took = Took { seconds: begun.elapsed().as_secs_f64(), blocks: source.count() - before };
    if result == expected {
        return Ok(took);
    }
    Err(BenchError::WrongRun {
        program: name.to_owned(),
        what: "its result differs from that of its first run".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use regrow_memory::ServiceOptions;

    use super::*;

    #[test]
    fn programs_compute_the_same_by_either() -> Result<(), BenchError> {
        let service =
            Service::new(&ServiceOptions { chunks: 32, ..ServiceOptions::default() }).expect("a service");
        let lattice = Lattice { rows: 8, steps: 3, blocks: Blocks::PageForEachRow };
        compare(&service, &lattice, "lattice", None)?;
        compare(&service, &Bzip2::text(20_000), "bzip2", None)?;
        let used = |zone: regrow_memory::ZoneState| zone.own_pages - zone.free_pages;
        assert_eq!(service.zones().into_iter().map(used).sum::<u64>(), 0, "all blocks are home");
        Ok(())
    }

    /// Says something else each time.
    struct Fickle;

    impl Program for Fickle {
        fn run<S: Source>(&self, source: &mut S) -> Result<Vec<u8>, BenchError> {
            let mut block = source.take(1)?;
            block[0] = 1;
            source.give(block);
            Ok(source.count().to_ne_bytes().to_vec())
        }
    }

    #[test]
    fn a_result_that_differs_is_an_error() {
        let service =
            Service::new(&ServiceOptions { chunks: 8, ..ServiceOptions::default() }).expect("a service");
        let error = compare(&service, &Fickle, "fickle", None).unwrap_err();
        assert_eq!(error.to_string(), "fickle: its result differs from that of its first run");
    }
}
