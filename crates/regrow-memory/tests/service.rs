//! The service with real memory: many threads, blocks that go home from other threads than they came to, and memory that runs out.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use regrow_memory::master::Routing;
use regrow_memory::{
    Block, Client, GiveBack, Mode, PAGE_BYTES, Service, ServiceError, ServiceOptions, Slaves,
};

fn service(chunks: u32, zones: usize) -> Service {
    of_slaves(chunks, zones, Slaves::Elastic)
}

fn of_slaves(chunks: u32, zones: usize, slaves: Slaves) -> Service {
    // Miri has no descriptors for a keeper to sleep at.
    let give_back = if cfg!(miri) { GiveBack::NEVER } else { GiveBack::default() };
    let options =
        ServiceOptions { chunks, zones, grow_by: 1, slaves, give_back, ..ServiceOptions::default() };
    Service::new(&options).expect("a range")
}

fn free_pages(service: &Service) -> u64 {
    service.zones().iter().map(|zone| zone.free_pages).sum()
}

fn own_pages(service: &Service) -> u64 {
    service.zones().iter().map(|zone| zone.own_pages).sum()
}

/// Small numbers, the same for each seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Writes to each page of a block whose it is, and where in the block it is.
fn stamp(block: &mut Block, number: u64) {
    for (at, page) in (0u64..).zip(block.chunks_exact_mut(PAGE_BYTES)) {
        page[..8].copy_from_slice(&number.to_ne_bytes());
        page[8..16].copy_from_slice(&at.to_ne_bytes());
        page[PAGE_BYTES - 8..].copy_from_slice(&number.to_ne_bytes());
    }
}

fn check(block: &Block, number: u64) {
    for (at, page) in (0u64..).zip(block.chunks_exact(PAGE_BYTES)) {
        let word =
            |range: std::ops::Range<usize>| u64::from_ne_bytes(page[range].try_into().expect("8 bytes"));
        let found = (word(0..8), word(8..16), word(PAGE_BYTES - 8..PAGE_BYTES));
        assert_eq!(found, (number, at, number), "somebody else has written there");
    }
}

fn of_thread(thread: u64, steps: u64, mut client: Client, out: &[Sender<(Block, u64)>], seed: u64) {
    let mut dice = Dice(seed);
    let mut blocks: Vec<(Block, u64)> = Vec::new();
    for step in 0..steps {
        let number = thread << 40 | step;
        if blocks.len() < 20 && dice.below(40) == 0 {
            let (pages, count) = (dice.below(4) + 1, usize::try_from(dice.below(70)).expect("few"));
            let mut many = Vec::new();
            match client.alloc_many(count, pages, Mode::Immediate, &mut many) {
                Ok(()) => assert_eq!(many.len(), count),
                Err(ServiceError::NoMemory { .. }) => client.trim(),
                Err(error) => panic!("{error}"),
            }
            many.iter_mut().for_each(|block| stamp(block, number));
            many.iter().for_each(|block| check(block, number));
            client.free_many(many);
        } else if blocks.len() < 40 && dice.below(100) < 55 {
            let pages =
                if dice.below(steps / 400 + 1) == 0 { dice.below(700) + 1 } else { dice.below(8) + 1 };
            let mode = if dice.below(2) == 0 { Mode::Immediate } else { Mode::Delayed };
            let block = match dice.below(4) {
                0 => client
                    .alloc_zeroed(pages, mode)
                    .inspect(|block| assert!(block.iter().all(|&byte| byte == 0))),
                _ => client.alloc(pages, mode),
            };
            match block {
                Ok(mut block) => {
                    assert!((block.len() / PAGE_BYTES) as u64 >= pages);
                    stamp(&mut block, number);
                    blocks.push((block, number));
                }
                Err(ServiceError::NoMemory { .. }) => client.trim(),
                Err(error) => panic!("{error}"),
            }
        } else if !blocks.is_empty() {
            let at = usize::try_from(dice.below(blocks.len() as u64)).expect("a length");
            let (block, number) = blocks.swap_remove(at);
            check(&block, number);
            match dice.below(4) {
                // Another thread looks at it, and has it go home.
                0 => {
                    let to = usize::try_from(dice.below(out.len() as u64)).expect("a length");
                    let _ = out[to].send((block, number));
                }
                1 => drop(block),
                _ => client.free(block),
            }
        }
    }
}

fn many_threads(threads: u64, steps: u64, service: &Service) {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel::<(Block, u64)>()).unzip();
    thread::scope(|scope| {
        for receiver in receivers {
            scope.spawn(move || receiver.into_iter().for_each(|(block, number)| check(&block, number)));
        }
        for thread in 0..threads {
            let (client, senders) = (service.client(), senders.clone());
            scope.spawn(move || of_thread(thread, steps, client, &senders, 0x9e37_79b9 * (thread + 1)));
        }
        drop(senders);
    });
    assert_eq!(free_pages(service), own_pages(service), "all blocks have gone home");
}

/// Steps of a thread; `REGROW_STEPS` has more of them made (`make soak`: 10^8 in all), or fewer (`make sanitize`).
fn steps() -> u64 {
    std::env::var("REGROW_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

#[test]
fn blocks_of_eight_threads_do_not_overlap_and_none_is_lost() {
    let all = [Slaves::Elastic, Slaves::Always, Slaves::Never];
    let most = if steps() > 1_000_000 { 1 } else { all.len() };
    for slaves in all.into_iter().take(most) {
        let service = of_slaves(256, 3, slaves);
        many_threads(8, steps(), &service);
        assert_eq!(service.zones().iter().all(|zone| zone.has_slave), slaves == Slaves::Always);
        spread(&service);
    }
}

fn spread(service: &Service) {
    assert!(
        service.zones().iter().filter(|zone| zone.own_pages > 0).count() > 1,
        "the master spreads clients"
    );
}

#[test]
fn the_same_where_memory_runs_out_all_the_time() {
    for slaves in [Slaves::Elastic, Slaves::Always] {
        let service = of_slaves(6, 3, slaves);
        many_threads(6, steps().min(10_000), &service);
        assert_eq!(own_pages(&service), 6 * 512);
    }
}

#[test]
fn memory_goes_to_another_client_as_zero() {
    let service = service(2, 1);
    let mut one = service.client();
    for mode in [Mode::Immediate, Mode::Delayed] {
        let mut block = one.alloc(512, mode).expect("memory");
        block.fill(0xa5);
        one.free(block);
        one.trim();
        let mut other = service.client();
        let blocks: Vec<Block> = (0..3).map_while(|order| other.alloc(1 << (order * 4), mode).ok()).collect();
        assert_eq!(blocks.len(), 3);
        assert!(blocks.iter().all(|block| block.iter().all(|&byte| byte == 0)));
    }
}

#[test]
fn a_client_has_its_own_content_again_and_zero_only_where_it_asks() {
    let service = service(1, 1);
    let mut client = service.client();
    let mut block = client.alloc(4, Mode::Immediate).expect("memory");
    block.fill(3);
    let address = block.as_ptr();
    client.free(block);
    let block = client.alloc(3, Mode::Immediate).expect("memory");
    assert_eq!((block.as_ptr(), block[0], block.len()), (address, 3, 4 * PAGE_BYTES), "it was kept");
    client.free(block);
    client.trim();
    let block = client.alloc_zeroed(4, Mode::Immediate).expect("memory");
    assert!(block.as_ptr() == address && block.iter().all(|&byte| byte == 0));
}

#[test]
fn a_zone_grows_by_what_another_one_has_too_much() {
    let service = service(8, 2);
    let mut one = service.client();
    let all = |client: &mut Client, count: usize| -> Vec<Block> {
        (0..count).map(|_| client.alloc(512, Mode::Delayed).expect("memory")).collect()
    };
    drop(all(&mut one, 7));
    let own = || service.zones().iter().map(|zone| zone.own_pages / 512).collect::<Vec<_>>();
    assert_eq!(own(), [7, 1]);
    let mut other = service.client();
    let blocks = all(&mut other, 4);
    assert_eq!(own(), [4, 4], "half of what the other one had more");
    let rest = all(&mut other, 4);
    assert!(matches!(one.alloc(1, Mode::Delayed), Err(ServiceError::NoMemory { pages: 1 })));
    drop((blocks, rest));
    assert_eq!(free_pages(&service), 8 * 512);
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_lost() {
    let of = |chunks, zones| {
        let options = ServiceOptions {
            chunks,
            zones,
            routing: Routing::RoundRobin,
            grow_by: 0,
            ..ServiceOptions::default()
        };
        Service::new(&options).expect_err("refused")
    };
    assert!(matches!(of(0, 1), ServiceError::Chunks { chunks: 0, .. }));
    assert!(matches!(of(2, 0), ServiceError::Zones { zones: 0, chunks: 2 }));
    assert!(matches!(of(2, 3), ServiceError::Zones { zones: 3, .. }));
    let service = service(4, 1);
    let mut client = service.client();
    for pages in [(1 << 18) + 1, u64::MAX] {
        assert!(matches!(client.alloc(pages, Mode::Immediate), Err(ServiceError::TooLarge { .. })));
    }
    assert!(matches!(client.alloc(5 * 512, Mode::Immediate), Err(ServiceError::NoMemory { pages: 4096 })));
    assert_eq!(client.alloc(2 * 512, Mode::Immediate).expect("memory").len(), 1024 * PAGE_BYTES);
    assert_eq!(free_pages(&service), own_pages(&service));
}

#[test]
fn messages_are_counted_where_a_slave_carries_requests_out() {
    let counted = |slaves: Slaves| {
        // A keeper takes the token too, where memory is short: who meets it asks by message.
        let options = ServiceOptions {
            chunks: 4,
            zones: 1,
            keep_pages: 0,
            slaves,
            give_back: GiveBack::NEVER,
            ..ServiceOptions::default()
        };
        let service = Service::new(&options).expect("a range");
        let messages = || service.zones()[0].messages;
        let mut client = service.client();
        // The slave takes the token, and the client its lane.
        while slaves == Slaves::Always && !service.zones()[0].has_slave {
            thread::yield_now();
        }
        let before = messages();
        let mut blocks: Vec<Block> =
            (0..10).map(|_| client.alloc(1, Mode::Immediate).expect("room")).collect();
        let asked = messages().wrapping_sub(before);
        client.free_many(blocks.drain(..));
        let all = messages().wrapping_sub(before);
        drop(client);
        (asked, all, messages().wrapping_sub(before))
    };
    assert_eq!(counted(Slaves::Never), (0, 0, 0));
    // A request and an answer for each, and one line for all that go home.
    assert_eq!(counted(Slaves::Always), (20, 21, 21));
}
