//! Programs of figures 6 and 7: runs per second of one copy and of two, measured, and what a block takes of them.

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use regrow_memory::{Mode, Service, ServiceOptions};

use super::super::source::{Kernel, Program, Served, Source};
use super::super::subject::{Way, wait_for_slaves};
use super::super::turns::{joined, refused};
use super::steps::{Side, Work};
use crate::error::BenchError;
use crate::samples::upper_quartile;

/// Who gives a program its blocks, and how many copies of it run.
pub(super) type Combination = (Side, Mode, usize);

/// What is measured of a program: as many processors are in use as there are, or fewer.
pub(super) const SETTINGS: [Combination; 8] = [
    (Side::Linux, Mode::Immediate, 1),
    (Side::Linux, Mode::Immediate, 2),
    (Side::NoServer, Mode::Immediate, 1),
    (Side::NoServer, Mode::Immediate, 2),
    (Side::NoServer, Mode::Delayed, 1),
    (Side::NoServer, Mode::Delayed, 2),
    (Side::Servers(1), Mode::Immediate, 1),
    (Side::Servers(1), Mode::Delayed, 1),
];

/// What was found of a program.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    /// Runs per second of all copies together, by setting.
    pub(super) rates: Vec<(Combination, f64)>,
    /// Blocks of a run.
    pub(super) blocks: f64,
    /// Pages that the kernel has provided for each block, where each is mapped.
    pub(super) pages: f64,
}

impl Found {
    /// What is done with a block, by one copy whose blocks cost it so many nanoseconds each.
    pub(super) fn work(&self, pair_ns: f64) -> Option<Work> {
        let alone =
            self.rates.iter().find(|(setting, _)| *setting == (Side::NoServer, Mode::Immediate, 1))?.1;
        let ns = 1e9 / alone / self.blocks.max(1.0) - pair_ns;
        Some(Work { pages: self.pages, ns: ns.max(0.0) })
    }
}

/// Runs a program in each setting in turn.
pub(super) fn measure(program: &impl Program, name: &str, rounds: usize) -> Result<Found, BenchError> {
    let default = Service::new(&ServiceOptions::default()).map_err(refused)?;
    let served = Service::new(&ServiceOptions { chunks: 64, ..Way::Slave.options() }).map_err(refused)?;
    wait_for_slaves(&served, Way::Slave.options().slaves);
    let before = page_faults();
    let mut kernel = Kernel::default();
    let expected = program.run(&mut kernel)?;
    let (faults, blocks) = (page_faults() - before, f64::from(kernel.count()));
    let mut found = Found { rates: Vec::new(), blocks, pages: faults / blocks.max(1.0) };
    let mut rates = [const { Vec::new() }; SETTINGS.len()];
    for _ in 0..rounds {
        for (rates, &(side, mode, copies)) in rates.iter_mut().zip(&SETTINGS) {
            let run = Run { program, name, expected: &expected };
            rates.push(match side {
                Side::Linux => run.copies((0..copies).map(|_| Kernel::default()).collect())?,
                Side::NoServer => run.copies(clients(&default, mode, copies))?,
                Side::Servers(_) => run.copies(clients(&served, mode, copies))?,
            });
        }
    }
    found.rates = SETTINGS.into_iter().zip(rates.map(upper_quartile)).collect();
    Ok(found)
}

fn clients(service: &Service, mode: Mode, count: usize) -> Vec<Served> {
    (0..count).map(|_| Served::new(service.client(), mode)).collect()
}

/// A program, and what it is to compute.
struct Run<'a, P> {
    program: &'a P,
    name: &'a str,
    expected: &'a [u8],
}

impl<P: Program> Run<'_, P> {
    /// Runs per second of copies that begin together. Each has run once before, so that what a client keeps is there.
    fn copies<S: Source + Send>(&self, sources: Vec<S>) -> Result<f64, BenchError> {
        let barrier = Barrier::new(sources.len());
        thread::scope(|scope| {
            let started: Vec<_> = sources
                .into_iter()
                .map(|mut source| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        let before = self.once(&mut source);
                        barrier.wait();
                        before?;
                        self.once(&mut source)
                    })
                })
                .collect();
            let seconds = started.into_iter().map(joined).collect::<Result<Vec<f64>, BenchError>>()?;
            Ok(seconds.into_iter().map(|seconds| 1.0 / seconds).sum())
        })
    }

    /// Seconds of a run.
    fn once(&self, source: &mut impl Source) -> Result<f64, BenchError> {
        let begun = Instant::now();
        let result = self.program.run(source)?;
        let seconds = begun.elapsed().as_secs_f64();
        if result == self.expected {
            return Ok(seconds);
        }
        let what = "its result differs from that of its first run".to_owned();
        Err(BenchError::WrongRun { program: self.name.to_owned(), what })
    }
}

/// How many pages the kernel has provided for this thread; nothing where it does not say.
fn page_faults() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    // The command's name is in brackets, and may have spaces; the state follows, and the faults are the eighth field from there.
    let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
    after.split(' ').nth(7).and_then(|field| field.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::super::programs::lattice::{Blocks, Lattice};
    use super::*;

    #[test]
    fn a_program_is_measured_in_each_setting() -> Result<(), BenchError> {
        let lattice = Lattice { rows: 8, steps: 3, blocks: Blocks::PageForEachRow };
        let found = measure(&lattice, "lattice", 1)?;
        assert_eq!(found.rates.len(), SETTINGS.len());
        assert!(found.rates.iter().all(|(_, rate)| *rate > 0.0), "{found:?}");
        assert_eq!(
            found.blocks.to_bits(),
            32.0f64.to_bits(),
            "a row for each step, and those of the beginning"
        );
        assert!((0.9..3.0).contains(&found.pages), "a page for each block: {found:?}");
        assert!(found.work(0.0).expect("it ran alone").ns > 0.0);
        Ok(())
    }

    #[test]
    fn faults_of_a_thread_are_counted() {
        let before = page_faults();
        let mut memory = vec![0u8; 64 << 20];
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        assert!(page_faults() > before, "{before}");
        drop(memory);
    }
}
