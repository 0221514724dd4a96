//! What a client of the simulator does, out of the costs that were measured: a block of each side, with the work that a program does with it.

use regrow_memory::Mode;

use super::costs::{LinuxCosts, ServiceCosts, SizeCosts};
use super::model::{Distances, Step, rate};

/// Who gives blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Side {
    Linux,
    /// The service as it is by default: clients are served by nobody but themselves, and each has a zone.
    NoServer,
    /// So many slaves, each with a processor and a zone, and clients that keep nothing.
    Servers(usize),
}

impl Side {
    /// As rows and plots call it.
    pub(in super::super) fn name(self) -> String {
        match self {
            Side::Linux => "Linux".to_owned(),
            Side::NoServer => "no server".to_owned(),
            Side::Servers(1) => "1 server".to_owned(),
            Side::Servers(count) => format!("{count} servers"),
        }
    }

    /// Processors of its servers.
    pub(in super::super) fn servers(self) -> usize {
        match self {
            Side::Servers(count) => count,
            _ => 0,
        }
    }
}

/// What is done with a block: how many pages of it are touched, and the work besides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Work {
    /// Pages that Linux has to provide for each block.
    pub(super) pages: f64,
    /// Nanoseconds where pages are there.
    pub(super) ns: f64,
}

/// How many blocks a second a side gives, by so many processors in all.
pub(super) fn simulated(
    sizes: &[SizeCosts],
    distances: &Distances,
    (side, mode): (Side, Mode),
    work: Work,
    processors: usize,
) -> Option<f64> {
    let clients = processors.checked_sub(side.servers()).filter(|&clients| clients > 0)?;
    let costs = at(sizes, work.pages);
    let steps = match side {
        Side::Linux => linux(&costs.linux, work, clients),
        Side::NoServer => vec![Step::Run(service(&costs, mode).pair), Step::Run(work.ns)],
        Side::Servers(_) => served(&costs, mode, work),
    };
    let of = service(&costs, mode);
    let distances = Distances { message_ns: ((of.ask - of.server) / 2.0).max(0.0), ..*distances };
    Some(rate(&distances, clients, side.servers(), &steps))
}

fn service(costs: &SizeCosts, mode: Mode) -> ServiceCosts {
    match mode {
        Mode::Immediate => costs.immediate,
        Mode::Delayed => costs.delayed,
    }
}

fn linux(costs: &LinuxCosts, work: Work, clients: usize) -> Vec<Step> {
    let (munmap, interrupts_ns) =
        if clients > 1 { (costs.munmap_beside, costs.interrupt) } else { (costs.munmap, 0.0) };
    let mut steps = vec![Step::Exclusive { ns: costs.mmap, interrupts_ns: 0.0 }];
    let faults = whole(work.pages);
    for _ in 0..faults {
        steps.push(Step::Fault(costs.touch / f64::from(faults)));
    }
    steps.push(Step::Run(work.ns));
    steps.push(Step::Exclusive { ns: munmap, interrupts_ns });
    steps
}

fn served(costs: &SizeCosts, mode: Mode, work: Work) -> Vec<Step> {
    let of = service(costs, mode);
    vec![
        Step::Ask { server_ns: of.server, zero_ns: costs.zero },
        Step::Run(work.ns + of.tell),
        Step::Tell { server_ns: of.server },
    ]
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "pages of a block are few")]
fn whole(pages: f64) -> u16 {
    pages.round().clamp(1.0, 10_000.0) as u16
}

/// Costs of blocks of so many pages: between those of the sizes next to it.
fn at(sizes: &[SizeCosts], pages: f64) -> SizeCosts {
    let Some((first, rest)) = sizes.split_first() else { return SizeCosts::default() };
    let mut below = first;
    for above in rest {
        if pages <= float(above.pages) {
            let share = (pages - float(below.pages)) / (float(above.pages) - float(below.pages));
            return between(below, above, share.max(0.0));
        }
        below = above;
    }
    *below
}

fn between(below: &SizeCosts, above: &SizeCosts, share: f64) -> SizeCosts {
    let of = |part: &dyn Fn(&SizeCosts) -> f64| part(below) * (1.0 - share) + part(above) * share;
    let service = |mode: fn(&SizeCosts) -> ServiceCosts| ServiceCosts {
        pair: of(&|costs| mode(costs).pair),
        ask: of(&|costs| mode(costs).ask),
        tell: of(&|costs| mode(costs).tell),
        server: of(&|costs| mode(costs).server),
    };
    SizeCosts {
        pages: below.pages,
        linux: LinuxCosts {
            mmap: of(&|costs| costs.linux.mmap),
            touch: of(&|costs| costs.linux.touch),
            munmap: of(&|costs| costs.linux.munmap),
            munmap_beside: of(&|costs| costs.linux.munmap_beside),
            interrupt: of(&|costs| costs.linux.interrupt),
        },
        immediate: service(|costs| costs.immediate),
        delayed: service(|costs| costs.delayed),
        touch: of(&|costs| costs.touch),
        zero: of(&|costs| costs.zero),
    }
}

#[expect(clippy::cast_precision_loss, reason = "pages of a block are few")]
fn float(pages: u64) -> f64 {
    pages as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Distances =
        Distances { message_ns: 0.0, handoff_ns: 100.0, wake_ns: 10_000.0, waker_ns: 0.0 };

    /// Costs like those of a machine.
    fn sizes() -> [SizeCosts; 2] {
        let linux = LinuxCosts {
            mmap: 1_500.0,
            touch: 2_000.0,
            munmap: 3_000.0,
            munmap_beside: 12_000.0,
            interrupt: 6_000.0,
        };
        let immediate = ServiceCosts { pair: 10.0, ask: 600.0, tell: 50.0, server: 200.0 };
        let delayed = ServiceCosts { pair: 120.0, ..immediate };
        let one = SizeCosts { pages: 1, linux, immediate, delayed, touch: 5.0, zero: 100.0 };
        let linux = LinuxCosts { touch: 17_000.0, ..linux };
        [one, SizeCosts { pages: 16, linux, touch: 50.0, zero: 1_600.0, ..one }]
    }

    fn of(side: Side, processors: usize) -> Option<f64> {
        let work = Work { pages: 1.0, ns: 5.0 };
        simulated(&sizes(), &NEAR, (side, Mode::Immediate), work, processors)
    }

    #[test]
    fn servers_take_processors_of_their_own() {
        assert_eq!(of(Side::Servers(2), 2), None);
        let one = of(Side::Servers(1), 2).expect("one is left for a client");
        // The server is still at the block that went home before.
        assert!((one - 1e9 / (600.0 + 5.0 + 50.0 + 200.0)).abs() < 1.0, "{one}");
        let (some, many) = (of(Side::Servers(4), 32).unwrap(), of(Side::Servers(4), 128).unwrap());
        assert!((many - 4.0 * 1e9 / 400.0).abs() < 0.01 * many && many < 1.05 * some, "{some} {many}");
    }

    #[test]
    fn linux_is_flat_where_the_service_without_servers_scales() {
        let (linux, service) = (of(Side::Linux, 128).unwrap(), of(Side::NoServer, 128).unwrap());
        assert!(linux < of(Side::Linux, 1).unwrap(), "{linux}");
        assert!((service / of(Side::NoServer, 1).unwrap() - 128.0).abs() < 0.1, "{service}");
    }

    #[test]
    fn sizes_between_have_costs_between() {
        let of = |pages| at(&sizes(), pages).linux.touch;
        assert_eq!(
            [of(0.5), of(1.0), of(8.5), of(16.0), of(99.0)],
            [2_000.0, 2_000.0, 9_500.0, 17_000.0, 17_000.0]
        );
    }
}
