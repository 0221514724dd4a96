//! Requests to one zone that go through its slave, beside those that clients carry out themselves under the zone's token.
//!
//! Clients keep nothing here, so that each request comes to the zone. A *request* is an alloc or a free of a block of one page.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use regrow_memory::{Block, Client, Mode, Service, ServiceOptions, Slaves};

use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;

use super::turns::{ROUNDS, TURN, refused};

/// How many blocks are asked for at once.
const BATCH: usize = 16;
/// How many batches there are between two looks at the clock.
const AT_ONCE: usize = 16;

/// Who carries requests out.
const WAYS: [(Slaves, &str); 3] = [
    (Slaves::Never, "the client itself"),
    (Slaves::Always, "a slave"),
    (Slaves::Elastic, "whoever it is by load"),
];

pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (batch, clients) in [(BATCH, 1), (1, 1), (BATCH, 2), (1, 2)] {
        let ns = per_request(batch, clients)?;
        for ((slaves, by), ns) in WAYS.into_iter().zip(ns) {
            let of = if clients == 1 { "one client" } else { "two clients together" };
            let name = format!("one request in a batch of {batch}, {of}, by {by}");
            let is_asked = (batch, clients, slaves) == (BATCH, 1, Slaves::Always);
            figures.push(match is_asked {
                true => Figure::at_most(&name, ns, 30.0, "ns"),
                false => Figure::told(&name, ns, "ns"),
            });
        }
    }
    Ok(figures)
}

/// Nanoseconds of a request by each way, in turn: time of all clients together through requests of all.
fn per_request(batch: usize, clients: usize) -> Result<[f64; 3], BenchError> {
    let services = WAYS.map(|(slaves, _)| {
        let options =
            ServiceOptions { chunks: 8, zones: 1, keep_pages: 0, slaves, ..ServiceOptions::default() };
        Service::new(&options).map_err(refused)
    });
    let mut times = [const { Vec::new() }; 3];
    let [never, always, elastic] = services;
    let services = [never?, always?, elastic?];
    for _ in 0..ROUNDS {
        for (times, service) in times.iter_mut().zip(&services) {
            times.push(turn(service, batch, clients)?);
        }
    }
    Ok(times.map(median))
}

fn turn(service: &Service, batch: usize, clients: usize) -> Result<f64, BenchError> {
    let barrier = Barrier::new(clients);
    let counts = thread::scope(|scope| {
        let started: Vec<_> = (0..clients)
            .map(|_| {
                let client = service.client();
                scope.spawn(|| {
                    barrier.wait();
                    requests(client, batch)
                })
            })
            .collect();
        let panicked = |_| BenchError::system("a client panicked")(std::io::Error::other("see above"));
        started.into_iter().map(|thread| thread.join().map_err(panicked)?).collect::<Result<Vec<_>, _>>()
    })?;
    let rate: f64 = counts.into_iter().map(|(count, time)| f64::from(count) / time.as_secs_f64()).sum();
    Ok(1e9 / rate)
}

/// How many requests a client has had carried out, and in which time.
fn requests(mut client: Client, batch: usize) -> Result<(u32, Duration), BenchError> {
    let mut blocks: Vec<Block> = Vec::with_capacity(batch);
    let mut count = 0;
    let begun = Instant::now();
    while begun.elapsed() < TURN {
        for _ in 0..AT_ONCE {
            client.alloc_many(batch, 1, Mode::Immediate, &mut blocks).map_err(refused)?;
            count += u32::try_from(2 * blocks.len()).unwrap_or(0);
            client.free_many(blocks.drain(..));
        }
    }
    let time = begun.elapsed();
    client.alloc_many(batch, 1, Mode::Immediate, &mut blocks).map_err(refused)?;
    let mut addresses: Vec<_> = blocks.iter().map(|block| block.as_ptr()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), batch, "each block is another one");
    Ok((count, time))
}
