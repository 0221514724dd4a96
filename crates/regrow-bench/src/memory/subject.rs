//! A client of a service of its own that asks for blocks and gives them back: what operations cost it, and how many messages they are.

use std::time::{Duration, Instant};

use regrow_memory::{Block, Client, GiveBack, Mode, PAGE_BYTES, Service, ServiceOptions, Slaves};
use rustix::time::{ClockId, clock_gettime};

use super::turns::{refused, touch};
use crate::error::BenchError;
use crate::samples::median;

/// How long a turn is at least.
const TURN: Duration = Duration::from_millis(5);
/// In how many rounds messages are counted. An answer that is asked for ahead counts where it is asked for.
const COUNTED: u32 = 16;

/// Who carries requests out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The client has kept what it has given back.
    Kept,
    /// The client, under the token of its zone.
    Token,
    /// A slave, one request at a time.
    Slave,
    /// A slave, so many requests at once.
    Batch(usize),
}

impl Way {
    /// How a row calls it.
    pub(super) fn name(self) -> String {
        match self {
            Way::Kept => "kept by the client".to_owned(),
            Way::Token => "by the client under the zone's token".to_owned(),
            Way::Slave => "by a slave".to_owned(),
            Way::Batch(count) => format!("by a slave, {count} at once"),
        }
    }

    /// A service with one zone in which requests go this way. Nothing goes back to the kernel by itself.
    pub(super) fn options(self) -> ServiceOptions {
        let (slaves, keep_pages) = match self {
            Way::Kept => (Slaves::Never, ServiceOptions::default().keep_pages),
            Way::Token => (Slaves::Never, 0),
            Way::Slave | Way::Batch(_) => (Slaves::Always, 0),
        };
        let give_back = GiveBack::NEVER;
        ServiceOptions { chunks: 16, zones: 1, slaves, keep_pages, give_back, ..ServiceOptions::default() }
    }
}

/// Time that passed, and processor time of all threads of this process, slaves among them; of each of some operations, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Span {
    pub(super) ns: f64,
    pub(super) processor_ns: f64,
}

/// Alloc and free, each of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Costs {
    pub(super) alloc: Span,
    pub(super) free: Span,
}

impl Costs {
    /// The median of each.
    pub(super) fn median(turns: &[Costs]) -> Costs {
        let of = |part: fn(&Costs) -> f64| median(turns.iter().map(part));
        Costs {
            alloc: Span { ns: of(|turn| turn.alloc.ns), processor_ns: of(|turn| turn.alloc.processor_ns) },
            free: Span { ns: of(|turn| turn.free.ns), processor_ns: of(|turn| turn.free.processor_ns) },
        }
    }
}

/// Takes times.
pub(super) struct Watch {
    began: Instant,
    processors: Duration,
}

impl Watch {
    pub(super) fn start() -> Watch {
        let processors = processor_time();
        Watch { began: Instant::now(), processors }
    }

    /// What has passed, and starts anew.
    pub(super) fn lap(&mut self, into: &mut (Duration, Duration)) {
        into.0 += self.began.elapsed();
        let processors = processor_time();
        into.1 += processors.saturating_sub(self.processors);
        *self = Watch { began: Instant::now(), processors };
    }
}

/// What this process has used of its processors.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// See the module.
pub(super) struct Subject {
    service: Service,
    client: Client,
    way: Way,
    pages: u64,
    mode: Mode,
    /// Pages are given to the kernel before each round, and touched after an alloc that does not map them.
    is_cold: bool,
    count: usize,
    blocks: Vec<Block>,
    times: usize,
}

impl Subject {
    /// A subject whose requests go that way.
    pub(super) fn new(way: Way, pages: u64, mode: Mode, is_cold: bool) -> Result<Subject, BenchError> {
        let service = Service::new(&way.options()).map_err(refused)?;
        wait_for_slaves(&service, way.options().slaves);
        let client = service.client();
        let count = at_a_time(pages, way);
        let blocks = Vec::with_capacity(count);
        let mut subject = Subject { service, client, way, pages, mode, is_cold, count, blocks, times: 0 };
        // The first blocks are not hot.
        subject.round(&mut Default::default(), &mut Default::default())?;
        Ok(subject)
    }

    /// What an alloc and a free cost it in a turn.
    pub(super) fn turn(&mut self) -> Result<Costs, BenchError> {
        let began = Instant::now();
        let (mut alloc, mut free) = Default::default();
        let mut rounds = 0u32;
        while began.elapsed() < TURN {
            self.round(&mut alloc, &mut free)?;
            rounds += 1;
        }
        let count = f64::from(rounds) * f64::from(u32::try_from(self.count).unwrap_or(u32::MAX));
        let each = |(passed, processors): (Duration, Duration)| Span {
            ns: passed.as_secs_f64() * 1e9 / count,
            processor_ns: processors.as_secs_f64() * 1e9 / count,
        };
        Ok(Costs { alloc: each(alloc), free: each(free) })
    }

    /// How many messages an alloc and a free are. Who counts has the token for that time, so that all are counted at once after many rounds, and those
    /// of an alloc once more alone. A free is none where the slave sleeps.
    pub(super) fn messages(&mut self) -> Result<[f64; 2], BenchError> {
        let (mut of_allocs, before) = (0u32, self.counted());
        for _ in 0..COUNTED {
            self.alloc()?;
            self.free();
        }
        let all = self.counted().wrapping_sub(before);
        for _ in 0..COUNTED {
            let before = self.counted();
            self.alloc()?;
            of_allocs += self.counted().wrapping_sub(before);
            self.free();
        }
        let count = f64::from(COUNTED) * f64::from(u32::try_from(self.count).unwrap_or(u32::MAX));
        Ok([of_allocs, all.saturating_sub(of_allocs)].map(|messages| f64::from(messages) / count))
    }

    fn counted(&self) -> u32 {
        self.service.zones().iter().fold(0u32, |all, zone| all.wrapping_add(zone.messages))
    }

    /// Nanoseconds that a slave needs for a message: many blocks go home one by one, faster than it takes them, until it answers a request, which takes
    /// so long where it has nothing else to do.
    pub(super) fn server_ns(&mut self, ask_ns: f64) -> Result<f64, BenchError> {
        self.alloc()?;
        let began = Instant::now();
        self.free();
        let drained = self.client.alloc(self.pages, self.mode).map_err(refused)?;
        let all = began.elapsed().as_secs_f64() * 1e9;
        drop(drained);
        Ok((all - ask_ns).max(0.0) / f64::from(u32::try_from(self.count).unwrap_or(u32::MAX)))
    }

    fn round(
        &mut self,
        alloc: &mut (Duration, Duration),
        free: &mut (Duration, Duration),
    ) -> Result<(), BenchError> {
        if self.is_cold {
            self.service.give_back_now();
        }
        let mut watch = Watch::start();
        self.alloc()?;
        if self.is_cold && self.mode == Mode::Delayed {
            self.times += 1;
            self.blocks.iter_mut().for_each(|block| touch(block, self.times));
        }
        watch.lap(alloc);
        self.free();
        watch.lap(free);
        Ok(())
    }

    fn alloc(&mut self) -> Result<(), BenchError> {
        let Subject { client, way, pages, mode, count, blocks, .. } = self;
        if let Way::Batch(batch) = *way {
            for _ in 0..*count / batch {
                client.alloc_many(batch, *pages, *mode, blocks).map_err(refused)?;
            }
        } else {
            for _ in 0..*count {
                blocks.push(client.alloc(*pages, *mode).map_err(refused)?);
            }
        }
        Ok(())
    }

    fn free(&mut self) {
        let Subject { client, way, blocks, .. } = self;
        if let Way::Batch(batch) = *way {
            while !blocks.is_empty() {
                client.free_many(blocks.drain(..batch.min(blocks.len())));
            }
        } else {
            blocks.drain(..).for_each(|block| client.free(block));
        }
    }

    /// Bytes of a block.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.pages).unwrap_or(0) * PAGE_BYTES
    }

    /// How many blocks it has at a time.
    pub(super) fn count(&self) -> usize {
        self.count
    }
}

/// Waits until slaves that are to be there have begun.
pub(super) fn wait_for_slaves(service: &Service, slaves: Slaves) {
    while slaves == Slaves::Always && !service.zones().iter().all(|zone| zone.has_slave) {
        std::thread::yield_now();
    }
}

/// As many blocks as stay hot, and as a client keeps.
pub(super) fn at_a_time(pages: u64, way: Way) -> usize {
    let pages = usize::try_from(pages).unwrap_or(usize::MAX).max(1);
    match way {
        Way::Kept => (ServiceOptions::default().keep_pages / pages).max(1),
        _ => (1024 / pages).clamp(1, 64),
    }
}
