//! Throughput by the number of processors: the paper's figures 6 and 7.
//!
//! ```text
//!   measured    threads with a block at a time, as far as the processors of this machine go, and beyond with several threads for each
//!   costs       what a block and its pages take, by one client alone                                 ([`costs`])
//!   simulated   clients and servers that have a processor each, to 128 of them, with these costs     ([`steps`], [`model`])
//!   quartiles   of the turns the lower one of costs and the upper one of rates, as others may have had the processors in some; the median where
//!               threads meet in the kernel's lock
//!   checked     each point that is measured with a processor for each thread, against the simulated one
//! ```
//!
//! | figure | requests | side | what it is here |
//! |---|---|---|---|
//! | 6 | immediate | Linux | `mmap`, touch, `munmap` by threads of one process |
//! | 7 | delayed | no server | the service as it is by default: a zone for each client, no thread |
//! | | | 1 to 8 servers | a slave on a processor of its own for each zone; clients keep nothing, so that each request is a message |
//!
//! (a) to (c) have a block of 1, 16 and 512 pages; the paper's text does not name its sizes. (d) to (f) are a lattice-Boltzmann kernel, bzip2 and chess.

mod costs;
mod model;
mod points;
mod programs;
mod steps;

use regrow_memory::{Mode, Service, ServiceOptions, Slaves};

use super::chess::ChessRates;
use super::programs::bzip2::Bzip2;
use super::programs::lattice::{Blocks, Lattice};
use super::source::Program;
use super::subject::{Way, wait_for_slaves};
use super::turns::{ROUNDS, refused};
use super::worker::{Worker, together};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::{lower_quartile, median, upper_quartile};
use costs::{Costing, SizeCosts};
use model::{Distances, Step, rate};
pub use points::ScalingPoint;
use programs::Combination;
use steps::{Side, Work, simulated};

/// Sizes of blocks.
const SIZES: [(&str, u64); 3] = [("4 KiB", 1), ("64 KiB", 16), ("2 MiB", 512)];
/// Both modes, and the paper's figures of them.
const MODES: [(Mode, u8); 2] = [(Mode::Immediate, 6), (Mode::Delayed, 7)];
/// Sides that are simulated, and with how many processors in all.
const SIDES: [Side; 6] =
    [Side::Linux, Side::NoServer, Side::Servers(1), Side::Servers(2), Side::Servers(4), Side::Servers(8)];
const PROCESSORS: [u32; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128];
/// Servers and clients that are measured, more than there are processors among them.
const SERVERS: [usize; 4] = [1, 2, 3, 4];
const CLIENTS: [usize; 4] = [1, 2, 4, 8];
/// Turns of a program.
const RUNS: usize = 5;
/// By how much a simulated point may differ from the measured one, in percent of it.
const MOST_OFF: f64 = 50.0;

/// How the row begins that says how far the simulator is off.
const VERDICT: &str = "simulator against measured, farthest of";

/// Whether a row says how far the simulator is off.
pub(super) fn is_verdict(figure: &Figure) -> bool {
    figure.name().starts_with(VERDICT)
}

/// Rows of both figures, and how far the simulator is off at most: the last row.
pub(super) fn measure(chess: &ChessRates) -> Result<Vec<Figure>, BenchError> {
    let mut all = Scaling::default();
    let distances: Vec<Distances> = (0..ROUNDS).map(|_| costs::distances()).collect();
    let of = |part: fn(&Distances) -> f64| lower_quartile(distances.iter().map(part));
    all.distances = Distances {
        message_ns: 0.0,
        handoff_ns: of(|one| one.handoff_ns),
        wake_ns: of(|one| one.wake_ns),
        waker_ns: of(|one| one.waker_ns),
    };
    for (name, pages) in SIZES {
        all.size(name, pages, ROUNDS)?;
    }
    let lattice = Lattice { rows: 64, steps: 100, blocks: Blocks::PageForEachRow };
    all.program("lattice-Boltzmann", &lattice, RUNS)?;
    all.program("bzip2", &Bzip2::text(500_000), RUNS)?;
    all.chess(chess);
    Ok(all.figures())
}

/// What is found.
#[derive(Default)]
struct Scaling {
    distances: Distances,
    sizes: Vec<SizeCosts>,
    points: Vec<(ScalingPoint, f64)>,
    /// Measured points that are costs themselves, so that nothing is checked by them.
    told: Vec<ScalingPoint>,
    others: Vec<Figure>,
}

/// Threads of a side that have their turn together.
struct Group {
    side: Side,
    mode: Mode,
    workers: Vec<Worker>,
    rates: Vec<f64>,
    /// Its slaves end with it.
    _service: Service,
}

impl Group {
    fn new(side: Side, mode: Mode, clients: usize, pages: u64) -> Result<Group, BenchError> {
        let options = match side {
            Side::Servers(zones) => ServiceOptions { zones, chunks: 64, ..Way::Slave.options() },
            Side::Linux | Side::NoServer => {
                ServiceOptions { slaves: Slaves::Never, ..ServiceOptions::default() }
            }
        };
        let service = Service::new(&options).map_err(refused)?;
        wait_for_slaves(&service, options.slaves);
        let pages = usize::try_from(pages).unwrap_or(1);
        let workers = (0..clients).map(|_| Worker::new(service.client(), mode, pages)).collect();
        Ok(Group { side, mode, workers, rates: Vec::new(), _service: service })
    }

    fn turn(&mut self) -> Result<(), BenchError> {
        self.rates.push(together(&mut self.workers, self.side != Side::Linux)?);
        Ok(())
    }

    /// What it is, and how many blocks a second it has. Where threads meet in the kernel's lock it is the median of the turns: in some of them
    /// the threads' areas lie apart, or one of them has no processor, so that they never meet.
    fn found(self) -> (Combination, f64) {
        let clients = self.workers.len();
        let meet = self.side == Side::Linux && clients > 1;
        let rate = if meet { median(self.rates) } else { upper_quartile(self.rates) };
        ((self.side, self.mode, clients), rate)
    }
}

impl Scaling {
    /// (a) to (c).
    fn size(&mut self, name: &str, pages: u64, rounds: usize) -> Result<(), BenchError> {
        let mut costing = Costing::new(pages)?;
        let mut groups = Vec::new();
        for clients in CLIENTS {
            groups.push(Group::new(Side::Linux, Mode::Immediate, clients, pages)?);
            for (mode, _) in MODES {
                groups.push(Group::new(Side::NoServer, mode, clients, pages)?);
                for servers in SERVERS {
                    groups.push(Group::new(Side::Servers(servers), mode, clients, pages)?);
                }
            }
        }
        for _ in 0..rounds {
            costing.turn()?;
            groups.iter_mut().try_for_each(Group::turn)?;
        }
        let costs = costing.costs();
        self.sizes.push(costs);
        self.tell_costs(name, &costs);
        for group in groups {
            let (combination, rate) = group.found();
            self.measured(name, combination, rate);
        }
        let pages = f64::from(u32::try_from(pages).unwrap_or(1));
        let sizes = [costs];
        self.simulate(name, &sizes, Work { pages, ns: costs.touch }, 1.0);
        Ok(())
    }

    /// (d) and (e).
    fn program(&mut self, name: &str, program: &impl Program, rounds: usize) -> Result<(), BenchError> {
        let found = programs::measure(program, name, rounds)?;
        for &(setting, rate) in &found.rates {
            self.measured(name, setting, rate);
        }
        // Its work is taken from this one.
        self.tell(6, name, Side::NoServer);
        let pair_ns = self.sizes.first().map_or(0.0, |costs| costs.immediate.pair);
        if let Some(work) = found.work(pair_ns) {
            self.others.push(Figure::told(
                &format!("simulator, {name}: blocks of a run"),
                found.blocks,
                "blocks",
            ));
            self.others.push(Figure::told(
                &format!("simulator, {name}: pages of a block"),
                work.pages,
                "pages",
            ));
            self.others.push(Figure::told(&format!("simulator, {name}: work with a block"), work.ns, "ns"));
            let sizes = std::mem::take(&mut self.sizes);
            self.simulate(name, &sizes, work, found.blocks);
            self.sizes = sizes;
        }
        Ok(())
    }

    /// (f): a program that computes, and asks for its tables once.
    fn chess(&mut self, chess: &ChessRates) {
        for (_, figure) in MODES {
            for (side, rates) in [(Side::Linux, chess.kernel), (Side::NoServer, chess.library)] {
                for (processors, rate) in [1, 2].into_iter().zip(rates) {
                    self.point(figure, "chess", side, processors, false, rate);
                }
                self.tell(figure, "chess", side);
                let alone = [Step::Run(1e9 / rates[0])];
                for processors in PROCESSORS {
                    let clients = usize::try_from(processors).unwrap_or(1);
                    self.point(
                        figure,
                        "chess",
                        side,
                        processors,
                        true,
                        rate(&self.distances, clients, 0, &alone),
                    );
                }
            }
        }
    }

    /// A measured rate: a point where each thread has a processor, else a row of its own.
    fn measured(&mut self, what: &str, (side, mode, clients): Combination, rate: f64) {
        let threads = clients + side.servers();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for (_, figure) in MODES.into_iter().filter(|&(other, _)| other == mode || side == Side::Linux) {
            if threads <= processors {
                self.point(figure, what, side, u32::try_from(threads).unwrap_or(u32::MAX), false, rate);
            }
        }
        let figure = MODES.into_iter().find(|&(other, _)| other == mode).map_or(0, |(_, figure)| figure);
        let plural = if clients == 1 { "client" } else { "clients" };
        let side = side.name();
        let row = format!(
            "figure {figure} on {processors} processors, {what}, {side}, {clients} {plural}: measured"
        );
        self.others.push(Figure::told(&row, rate, "1/s"));
    }

    /// All sides to the most processors, with so many blocks in a run.
    fn simulate(&mut self, what: &str, sizes: &[SizeCosts], work: Work, blocks: f64) {
        for (mode, figure) in MODES {
            for side in SIDES {
                for processors in PROCESSORS {
                    let count = usize::try_from(processors).unwrap_or(1);
                    let rate = simulated(sizes, &self.distances, (side, mode), work, count);
                    if let Some(rate) = rate {
                        self.point(figure, what, side, processors, true, rate / blocks);
                    }
                }
            }
        }
    }

    fn point(&mut self, figure: u8, what: &str, side: Side, processors: u32, is_simulated: bool, rate: f64) {
        let (what, side) = (what.to_owned(), side.name());
        self.points.push((ScalingPoint { figure, what, side, processors, is_simulated }, rate));
    }

    fn tell(&mut self, figure: u8, what: &str, side: Side) {
        let (what, side) = (what.to_owned(), side.name());
        self.told.push(ScalingPoint { figure, what, side, processors: 1, is_simulated: false });
    }

    fn tell_costs(&mut self, name: &str, costs: &SizeCosts) {
        let mut told = |what: &str, ns: f64| {
            self.others.push(Figure::told(&format!("simulator, {name}: {what}"), ns, "ns"));
        };
        told("mmap", costs.linux.mmap);
        told("first touch", costs.linux.touch);
        told("munmap", costs.linux.munmap);
        told("munmap beside another thread", costs.linux.munmap_beside);
        told("interrupt of the other thread", costs.linux.interrupt);
        told("touch of pages that are there", costs.touch);
        told("zeroing after another client", costs.zero);
        for (mode, of) in [("immediate", costs.immediate), ("delayed", costs.delayed)] {
            told(&format!("{mode}, pair without a server"), of.pair);
            told(&format!("{mode}, alloc by a slave"), of.ask);
            told(&format!("{mode}, free by a slave"), of.tell);
            told(&format!("{mode}, slave's time for a message"), of.server);
        }
    }

    /// All rows. The last one says how far the simulator is off.
    fn figures(self) -> Vec<Figure> {
        let Scaling { distances, points, told, mut others, .. } = self;
        others.push(Figure::told(
            "simulator: the lock's line from processor to processor",
            distances.handoff_ns,
            "ns",
        ));
        others.push(Figure::told("simulator: a thread is woken", distances.wake_ns, "ns"));
        others.push(Figure::told(
            "simulator: of that, before who wakes it goes on",
            distances.waker_ns,
            "ns",
        ));
        let mut figures: Vec<Figure> =
            points.iter().map(|(point, rate)| Figure::told(&point.to_string(), *rate, "1/s")).collect();
        figures.extend(others);
        figures.extend(compared(&points));
        figures.extend(checked(&points, &told));
        figures
    }
}

/// The most that a side gives with up to so many processors.
fn most(points: &[(ScalingPoint, f64)], figure: u8, what: &str, side: Side, processors: u32) -> f64 {
    let name = side.name();
    let of = points.iter().filter(|(point, _)| {
        point.is_simulated
            && point.figure == figure
            && point.what == what
            && point.side == name
            && point.processors <= processors
    });
    of.map(|(_, rate)| *rate).fold(0.0, f64::max)
}

/// The paper's sentence: by how much the most with four servers exceeds the most by Linux. It had 32 processors.
fn compared(points: &[(ScalingPoint, f64)]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let names = SIZES.map(|(name, _)| name).into_iter().chain(["lattice-Boltzmann", "bzip2"]);
    for what in names {
        for (_, figure) in MODES {
            for processors in [32, 128] {
                let linux = most(points, figure, what, Side::Linux, processors);
                for side in [Side::Servers(4), Side::NoServer] {
                    let more = (most(points, figure, what, side, processors) / linux - 1.0) * 100.0;
                    let name = format!(
                        "figure {figure}, {what}, to {processors} processors: the most by {} above the most by Linux, simulated",
                        side.name()
                    );
                    figures.push(Figure::told(&name, more, "%"));
                }
            }
        }
    }
    figures
}

/// Each measured point against the simulated one, and the farthest of them.
fn checked(points: &[(ScalingPoint, f64)], told: &[ScalingPoint]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut farthest = 0.0f64;
    // Linux is the same in both figures.
    let is_checked = |point: &ScalingPoint| {
        let is_again = point.side == Side::Linux.name() && point.figure != MODES[0].1;
        !point.is_simulated && !is_again && !told.contains(point)
    };
    for (point, measured) in points.iter().filter(|(point, _)| is_checked(point)) {
        let simulated = ScalingPoint { is_simulated: true, ..point.clone() };
        let Some((_, rate)) = points.iter().find(|(other, _)| *other == simulated) else { continue };
        let off = (rate / measured - 1.0) * 100.0;
        farthest = farthest.max(off.abs());
        let place = point.to_string();
        let place = place.trim_end_matches(": measured");
        figures.push(Figure::told(&format!("simulator against measured, {place}"), off, "%"));
    }
    let name = format!("{VERDICT} {} points", figures.len());
    figures.push(Figure::at_most(&name, farthest, MOST_OFF, "%"));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(side: &str, processors: u32, is_simulated: bool) -> ScalingPoint {
        let (what, side) = ("4 KiB".to_owned(), side.to_owned());
        ScalingPoint { figure: 6, what, side, processors, is_simulated }
    }

    #[test]
    fn a_size_and_a_program_are_measured_and_simulated() -> Result<(), BenchError> {
        let mut all = Scaling { distances: costs::distances(), ..Scaling::default() };
        all.size("4 KiB", 1, 1)?;
        let lattice = Lattice { rows: 8, steps: 3, blocks: Blocks::PageForEachRow };
        all.program("lattice-Boltzmann", &lattice, 1)?;
        all.chess(&ChessRates { kernel: [1.0, 1.9], library: [1.0, 1.8] });
        let figures = all.figures();
        let of = |name: &str| {
            let found = figures.iter().find(|figure| figure.name() == name);
            found.unwrap_or_else(|| panic!("{name} is missing")).measured()
        };
        for name in [
            "figure 6, 4 KiB, Linux, 1 processor: measured",
            "figure 7, 4 KiB, no server, 128 processors: simulated",
            "figure 6, 4 KiB, 8 servers, 9 processors: simulated",
            "figure 7 on 2 processors, 4 KiB, 4 servers, 8 clients: measured",
            "figure 6, lattice-Boltzmann, 4 servers, 32 processors: simulated",
        ] {
            let known = name.replace("9 processors", "12 processors");
            let known = known.replace(
                "on 2",
                &format!("on {}", std::thread::available_parallelism().map_or(1, usize::from)),
            );
            assert!(of(&known) > 0.0, "{known}");
        }
        assert!((of("figure 7, chess, Linux, 128 processors: simulated") - 128.0).abs() < 0.01);
        assert!(figures.last().is_some_and(is_verdict));
        Ok(())
    }

    #[test]
    fn a_simulator_that_is_too_far_off_is_told() {
        let points = |simulated| {
            vec![
                (point("Linux", 1, false), 100.0),
                (point("Linux", 1, true), 101.0),
                (point("Linux", 2, false), 100.0),
                (point("Linux", 2, true), simulated),
                (point("Linux", 128, true), 5.0),
            ]
        };
        let near = checked(&points(60.0), &[]);
        assert_eq!((near.len(), near[2].holds()), (3, Some(true)));
        assert!((near[1].measured() + 40.0).abs() < 1e-9, "{near:?}");
        assert!(super::super::check(&near).is_ok());
        let far = checked(&points(160.0), &[]);
        let error = super::super::check(&far).unwrap_err().to_string();
        assert_eq!(error, "simulator against measured, farthest of 2 points: is off by 60 %");
        assert_eq!(checked(&points(160.0), &[point("Linux", 2, false)]).len(), 2, "a cost checks nothing");
    }

    #[test]
    fn the_most_of_a_side_is_compared_with_the_most_of_linux() {
        let points = [
            (point("Linux", 2, true), 10.0),
            (point("Linux", 64, true), 1_000.0),
            (point("4 servers", 32, true), 40.0),
            (point("4 servers", 128, true), 3_000.0),
        ];
        let figures = compared(&points);
        let name =
            "figure 6, 4 KiB, to 32 processors: the most by 4 servers above the most by Linux, simulated";
        let found = figures.iter().find(|figure| figure.name() == name).map(Figure::measured);
        assert_eq!(found.map(f64::to_bits), Some(300.0f64.to_bits()), "{figures:?}");
    }
}
