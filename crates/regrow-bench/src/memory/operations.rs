//! What an operation of the service takes, of how many messages it consists, and how much of its time is useful: the paper's table 1.
//!
//! ```text
//!   total       from the call to its return, at the client                              useful    what the zone does for it, by a zone without a service around
//!   processors  of all threads meanwhile: a slave that looks for messages is one        it, and what the kernel does where pages are not there
//!   overhead    the part of the total that is not useful
//! ```
//!
//! Where a client keeps blocks, the zone does nothing, and all of it is useful. Messages are those that the zones have counted. The operations of
//! a size take turns.

use std::time::{Duration, Instant};

use regrow_memory::master::{Load, Master, Routing};
use regrow_memory::request::Want;
use regrow_memory::units::order_for;
use regrow_memory::zone::Zone;
use regrow_memory::{Block, GiveBack, Mode, PAGE_BYTES, Service, ServiceOptions, Slaves};

use super::subject::{Costs, Span, Subject, Watch, Way, at_a_time};
use super::turns::{ROUNDS, refused};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;
use crate::system::memory::PrivateMemory;

/// Sizes of blocks, in pages.
const SIZES: [u64; 3] = [1, 16, 512];
/// How many requests are made at once.
const BATCH: usize = 16;
/// How long a turn of a bare zone is at least.
const TURN: Duration = Duration::from_millis(2);
/// Zones among which the master routes, and chunks that it moves.
const ZONES: usize = 4;
const CHUNKS: u32 = 64;

/// Rows of the table.
pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for pages in SIZES {
        figures.extend(of_size(pages, ROUNDS)?);
    }
    figures.extend(routing(ROUNDS)?);
    figures.extend(growing(ROUNDS)?);
    figures.extend(moving(ROUNDS)?);
    Ok(figures)
}

/// An operation in the table.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    messages: f64,
    useful_ns: f64,
    total: Span,
}

impl Row {
    fn figures(&self, name: &str) -> [Figure; 5] {
        let &Row { messages, useful_ns, total } = self;
        let useful_ns = useful_ns.min(total.ns);
        let overhead = if total.ns > 0.0 { 100.0 * (1.0 - useful_ns / total.ns) } else { 0.0 };
        let told =
            |what: &str, measured, unit| Figure::told(&format!("table 1, {name}: {what}"), measured, unit);
        [
            told("messages", messages, "messages"),
            told("useful", useful_ns, "ns"),
            told("total", total.ns, "ns"),
            told("processors", total.processor_ns, "ns"),
            told("overhead", overhead, "%"),
        ]
    }
}

/// A subject, and what it has measured.
struct Measured {
    subject: Subject,
    name: String,
    is_cold: bool,
    mode: Mode,
    turns: Vec<Costs>,
}

/// Alloc and free of blocks of a size, each way and mode.
fn of_size(pages: u64, rounds: usize) -> Result<Vec<Figure>, BenchError> {
    let hot = [
        (Way::Kept, Mode::Immediate),
        (Way::Token, Mode::Immediate),
        (Way::Slave, Mode::Immediate),
        (Way::Batch(BATCH), Mode::Immediate),
        (Way::Token, Mode::Delayed),
        (Way::Slave, Mode::Delayed),
    ];
    let hot =
        hot.into_iter().filter(|&(way, _)| !matches!(way, Way::Batch(most) if at_a_time(pages, way) < most));
    let cold = [(Way::Token, Mode::Immediate), (Way::Token, Mode::Delayed)];
    let all = hot.map(|of| (of, false)).chain(cold.map(|of| (of, true)));
    let make = |((way, mode), is_cold): ((Way, Mode), bool)| {
        let name = way.name();
        Ok(Measured {
            subject: Subject::new(way, pages, mode, is_cold)?,
            name,
            is_cold,
            mode,
            turns: Vec::new(),
        })
    };
    let mut measured = all.map(make).collect::<Result<Vec<Measured>, BenchError>>()?;
    let (mut bare, mut kernel) = (Vec::new(), [Vec::new(), Vec::new()]);
    for _ in 0..rounds {
        bare.push(zone_alone(pages)?);
        for one in &mut measured {
            one.turns.push(one.subject.turn()?);
            if one.is_cold {
                kernel[usize::from(one.mode == Mode::Delayed)].push(by_kernel(&one.subject, one.mode)?);
            }
        }
    }
    let (bare, kernel) = (Costs::median(&bare), kernel.map(median));
    let mut figures = Vec::new();
    for mut one in measured {
        let messages = one.subject.messages()?;
        figures.extend(rows(pages, &one, messages, bare, kernel));
    }
    Ok(figures)
}

fn rows(pages: u64, one: &Measured, messages: [f64; 2], bare: Costs, kernel: [f64; 2]) -> Vec<Figure> {
    let costs = Costs::median(&one.turns);
    let size = if pages == 1 { "1 page".to_owned() } else { format!("{pages} pages") };
    let (mode, kernel) = match one.mode {
        Mode::Immediate => ("immediate", kernel[0]),
        Mode::Delayed => ("delayed", kernel[1]),
    };
    let by = &one.name;
    if one.is_cold {
        let touched = if one.mode == Mode::Delayed { " and first touch" } else { "" };
        let name = format!("alloc of {size} that are not there{touched}, {mode}, {by}");
        let row = Row { messages: messages[0], useful_ns: bare.alloc.ns + kernel, total: costs.alloc };
        return row.figures(&name).to_vec();
    }
    let alloc = Row { messages: messages[0], useful_ns: bare.alloc.ns, total: costs.alloc };
    let free = Row { messages: messages[1], useful_ns: bare.free.ns, total: costs.free };
    let names = ["alloc", "free"].map(|what| format!("{what} of {size}, {mode}, {by}"));
    [alloc.figures(&names[0]), free.figures(&names[1])].concat()
}

/// What a zone does for an alloc and a free, without token, message or client.
fn zone_alone(pages: u64) -> Result<Costs, BenchError> {
    let order = order_for(pages).unwrap_or(0);
    let want = Want { order, owner: 1, mapped: true, zeroed: false };
    let mut zone = Zone::default();
    for chunk in 0..4 {
        zone.add_chunk(chunk).map_err(lost)?;
    }
    let count = at_a_time(pages, Way::Token);
    let mut blocks = Vec::with_capacity(count);
    let (mut alloc, mut free) = (Duration::ZERO, Duration::ZERO);
    let mut all = 0u32;
    let began = Instant::now();
    while began.elapsed() < TURN {
        let begun = Instant::now();
        for _ in 0..count {
            blocks.push(zone.alloc(want).map_err(lost)?.page);
        }
        alloc += begun.elapsed();
        let begun = Instant::now();
        for page in blocks.drain(..) {
            zone.free(page).map_err(lost)?;
        }
        free += begun.elapsed();
        all += u32::try_from(count).unwrap_or(0);
    }
    let each = |time: Duration| {
        let ns = time.as_secs_f64() * 1e9 / f64::from(all.max(1));
        Span { ns, processor_ns: ns }
    };
    Ok(Costs { alloc: each(alloc), free: each(free) })
}

/// What the kernel needs to have the pages of a block there: by a call, or at their first touch. Nanoseconds of a block.
fn by_kernel(subject: &Subject, mode: Mode) -> Result<f64, BenchError> {
    let (bytes, count) = (subject.bytes(), subject.count());
    let parts: Vec<_> = (0..count).map(|part| part * bytes..(part + 1) * bytes).collect();
    let mut memory = PrivateMemory::map(bytes * count).map_err(BenchError::system("mmap"))?;
    memory.touch();
    memory.give_back_each(&parts, false).map_err(BenchError::system("madvise"))?;
    let begun = Instant::now();
    match mode {
        Mode::Immediate => memory.populate_each(&parts).map_err(BenchError::system("madvise"))?,
        Mode::Delayed => memory.touch_parts(&parts),
    }
    Ok(begun.elapsed().as_secs_f64() * 1e9 / f64::from(u32::try_from(count).unwrap_or(u32::MAX)))
}

/// The master routes a client, which then goes.
fn routing(rounds: usize) -> Result<Vec<Figure>, BenchError> {
    const CLIENTS: u32 = 500;
    let mut figures = Vec::new();
    for slaves in [Slaves::Never, Slaves::Always] {
        let options =
            ServiceOptions { zones: ZONES, slaves, give_back: GiveBack::NEVER, ..ServiceOptions::default() };
        let service = Service::new(&options).map_err(refused)?;
        let before = messages(&service);
        let mut turns = Vec::new();
        for _ in 0..rounds {
            let (mut watch, mut spent) = (Watch::start(), Default::default());
            (0..CLIENTS).for_each(|_| drop(service.client()));
            watch.lap(&mut spent);
            turns.push(each(spent, CLIENTS));
        }
        let all = f64::from(messages(&service).wrapping_sub(before));
        let count = f64::from(CLIENTS) * f64::from(u32::try_from(rounds).unwrap_or(u32::MAX));
        let row = Row { messages: all / count, useful_ns: master_alone(), total: middle(&turns) };
        let with = if slaves == Slaves::Never { "" } else { ", which slaves serve" };
        figures.extend(row.figures(&format!("a client routed to one of {ZONES} zones{with}, by the master")));
    }
    Ok(figures)
}

/// Nanoseconds in which the master decides.
fn master_alone() -> f64 {
    const TIMES: u32 = 100_000;
    let mut master = Master::new(Routing::DEFAULT);
    let loads = [Load { own: 512, used: 100, asked: 0 }; ZONES];
    let begun = Instant::now();
    for _ in 0..TIMES {
        std::hint::black_box(master.route(std::hint::black_box(&loads)));
    }
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(TIMES)
}

/// A zone without room grows by a chunk out of the reserve for each request.
fn growing(rounds: usize) -> Result<Vec<Figure>, BenchError> {
    let mut turns = Vec::new();
    let mut all = 0u32;
    for _ in 0..rounds {
        let service = Service::new(&chunks_one_by_one(1)).map_err(refused)?;
        let before = messages(&service);
        turns.push(fill(&service, CHUNKS - 1)?);
        all += messages(&service).wrapping_sub(before);
    }
    let count = f64::from(CHUNKS - 1) * f64::from(u32::try_from(rounds).unwrap_or(u32::MAX));
    let row = Row {
        messages: f64::from(all) / count,
        useful_ns: median_of(rounds, growing_alone)?,
        total: middle(&turns),
    };
    Ok(row.figures("alloc of 512 pages where the zone grows by a chunk, delayed, by the master").to_vec())
}

/// A zone without room gets chunks of another one, which had them all.
fn moving(rounds: usize) -> Result<Vec<Figure>, BenchError> {
    let wanted = CHUNKS / 2;
    let mut turns = Vec::new();
    let mut all = 0u32;
    for _ in 0..rounds {
        let service = Service::new(&chunks_one_by_one(2)).map_err(refused)?;
        fill(&service, CHUNKS - 2)?;
        let before = messages(&service);
        turns.push(fill(&service, wanted)?);
        all += messages(&service).wrapping_sub(before);
    }
    let count = f64::from(wanted) * f64::from(u32::try_from(rounds).unwrap_or(u32::MAX));
    let row = Row {
        messages: f64::from(all) / count,
        useful_ns: median_of(rounds, moving_alone)?,
        total: middle(&turns),
    };
    Ok(row.figures("alloc of 512 pages where chunks come from another zone, delayed, by the master").to_vec())
}

fn chunks_one_by_one(zones: usize) -> ServiceOptions {
    let give_back = GiveBack::NEVER;
    ServiceOptions {
        chunks: CHUNKS,
        zones,
        grow_by: 1,
        slaves: Slaves::Never,
        give_back,
        ..ServiceOptions::default()
    }
}

/// A client takes so many blocks of a chunk, and gives them back at its end.
fn fill(service: &Service, count: u32) -> Result<Span, BenchError> {
    let mut client = service.client();
    let mut blocks: Vec<Block> = Vec::with_capacity(count as usize);
    let (mut watch, mut spent) = (Watch::start(), Default::default());
    for _ in 0..count {
        blocks.push(client.alloc(512, Mode::Delayed).map_err(refused)?);
    }
    watch.lap(&mut spent);
    if blocks.iter().any(|block| block.len() != 512 * PAGE_BYTES) {
        return Err(BenchError::system("a block is too short")(std::io::ErrorKind::InvalidData.into()));
    }
    Ok(each(spent, count))
}

/// What zones do for [`growing`]: nanoseconds of a request.
fn growing_alone() -> Result<f64, BenchError> {
    let want = Want { order: 9, owner: 1, mapped: false, zeroed: false };
    let mut zone = Zone::default();
    let begun = Instant::now();
    for chunk in 0..CHUNKS {
        zone.add_chunk(chunk).map_err(lost)?;
        zone.alloc(want).map_err(lost)?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e9 / f64::from(CHUNKS))
}

/// What zones do for [`moving`].
fn moving_alone() -> Result<f64, BenchError> {
    let want = Want { order: 9, owner: 1, mapped: false, zeroed: false };
    let (mut from, mut to) = (Zone::default(), Zone::default());
    for chunk in 0..CHUNKS {
        from.add_chunk(chunk).map_err(lost)?;
    }
    let begun = Instant::now();
    let mut count = 0u32;
    while let Some((chunk, _)) = from.take_chunk() {
        to.add_chunk(chunk).map_err(lost)?;
        to.alloc(want).map_err(lost)?;
        count += 1;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e9 / f64::from(count.max(1)))
}

fn median_of(rounds: usize, work: fn() -> Result<f64, BenchError>) -> Result<f64, BenchError> {
    Ok(median((0..rounds).map(|_| work()).collect::<Result<Vec<f64>, BenchError>>()?))
}

fn middle(turns: &[Span]) -> Span {
    let of = |part: fn(&Span) -> f64| median(turns.iter().map(part));
    Span { ns: of(|span| span.ns), processor_ns: of(|span| span.processor_ns) }
}

fn each((passed, processors): (Duration, Duration), count: u32) -> Span {
    let ns = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(count);
    Span { ns: ns(passed), processor_ns: ns(processors) }
}

fn messages(service: &Service) -> u32 {
    service.zones().iter().fold(0, |all, zone| all.wrapping_add(zone.messages))
}

fn lost(error: regrow_memory::ZoneError) -> BenchError {
    BenchError::system("a bare zone has no room")(std::io::Error::other(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figure of an operation.
    fn of(figures: &[Figure], name: &str) -> f64 {
        let name = format!("table 1, {name}");
        let found = figures.iter().find(|figure| figure.name() == name);
        found.unwrap_or_else(|| panic!("{name} is missing")).measured()
    }

    #[test]
    fn operations_have_their_messages_and_an_overhead_of_at_most_the_whole() -> Result<(), BenchError> {
        let figures = of_size(1, 1)?;
        let messages = |name: &str| of(&figures, &format!("{name}: messages"));
        assert_eq!(messages("alloc of 1 page, immediate, kept by the client").to_bits(), 0);
        assert_eq!(messages("free of 1 page, immediate, by the client under the zone's token").to_bits(), 0);
        assert!((messages("alloc of 1 page, immediate, by a slave") - 2.0).abs() < 1e-9);
        let free = messages("free of 1 page, delayed, by a slave");
        assert!((0.0..=1.0).contains(&free), "one, or none where the slave sleeps: {free}");
        let batch = messages("alloc of 1 page, immediate, by a slave, 16 at once");
        assert!((0.15..0.25).contains(&batch), "a request and two lines of answers for 16: {batch}");
        for figure in &figures {
            let is_share = !figure.name().ends_with("overhead") || (0.0..=100.0).contains(&figure.measured());
            assert!(is_share && figure.measured() >= 0.0, "{figure:?}");
        }
        Ok(())
    }

    #[test]
    fn chunks_that_move_are_messages() -> Result<(), BenchError> {
        let figures = growing(1)?;
        let name = "alloc of 512 pages where the zone grows by a chunk, delayed, by the master: messages";
        // All but the first one, for which the zone has a chunk.
        assert!((0.9..1.0).contains(&of(&figures, name)), "{figures:?}");
        let figures = moving(1)?;
        let name = "alloc of 512 pages where chunks come from another zone, delayed, by the master: messages";
        assert!((1.0..4.0).contains(&of(&figures, name)), "{figures:?}");
        assert_eq!(routing(1)?.len(), 10);
        Ok(())
    }
}
