//! Giving back with real memory, looked at from outside: what the kernel says which pages are there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use regrow_memory::{
    Block, Client, GiveBack, Mode, PAGE_BYTES, PressureWatch, Service, ServiceError, ServiceOptions,
};

/// Nothing here takes so long but where it never comes.
const NEVER: Duration = Duration::from_secs(60);

fn service(chunks: u32, zones: usize, give_back: GiveBack) -> Service {
    Service::new(&options(chunks, zones, give_back)).expect("a range")
}

fn options(chunks: u32, zones: usize, give_back: GiveBack) -> ServiceOptions {
    ServiceOptions { chunks, zones, grow_by: 1, give_back, ..ServiceOptions::default() }
}

/// How many pages of some memory are there, by the kernel's table of this process's pages.
fn present(memory: &[(usize, usize)]) -> usize {
    let table = File::open("/proc/self/pagemap").expect("it is this process's own");
    let is_there = |page: usize| {
        let mut entry = [0; 8];
        table.read_exact_at(&mut entry, page as u64 * 8).expect("an entry for each page");
        u64::from_ne_bytes(entry) >> 63 == 1
    };
    let pages = |&(start, bytes): &(usize, usize)| start / PAGE_BYTES..(start + bytes) / PAGE_BYTES;
    memory.iter().flat_map(pages).filter(|&page| is_there(page)).count()
}

fn place(block: &Block) -> (usize, usize) {
    (block.as_ptr().addr(), block.len())
}

/// Blocks of several sizes, each page of them written, by either way; and where they are.
fn written(client: &mut Client, sizes: &[(u64, usize)]) -> (Vec<Block>, Vec<(usize, usize)>) {
    let mut blocks = Vec::new();
    for (number, &(pages, count)) in sizes.iter().enumerate() {
        let mode = if number % 2 == 0 { Mode::Delayed } else { Mode::Immediate };
        for _ in 0..count {
            let mut block = client.alloc(pages, mode).expect("memory");
            block.fill(0x5a);
            blocks.push(block);
        }
    }
    let places = blocks.iter().map(place).collect();
    (blocks, places)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < NEVER, "it never comes: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn idle_pages(service: &Service) -> u64 {
    service.zones().iter().map(|zone| zone.idle_pages).sum()
}

const SIZES: [(u64, usize); 5] = [(1, 300), (3, 40), (16, 20), (512, 3), (1024, 1)];

#[test]
fn what_is_asked_for_goes_at_once_and_what_is_in_use_stays() {
    let service = service(16, 1, GiveBack::NEVER);
    let mut client = service.client();
    let (mut blocks, _) = written(&mut client, &SIZES);
    let all: usize = blocks.iter().map(|block| block.len() / PAGE_BYTES).sum();
    let kept: Vec<Block> = blocks.split_off(150);
    let gone: Vec<_> = blocks.iter().map(place).collect();
    let kept_at: Vec<_> = kept.iter().map(place).collect();
    assert_eq!(present(&gone) + present(&kept_at), all);
    drop(blocks);
    assert_eq!((idle_pages(&service), present(&gone)), (150, 150), "they are hot, and there");
    assert_eq!((service.give_back_now(), present(&gone), idle_pages(&service)), (150, 0, 0));
    assert_eq!(present(&kept_at), all - 150);
    assert!(kept.iter().all(|block| block.iter().all(|&byte| byte == 0x5a)));
    drop(kept);
    assert_eq!(service.give_back_now(), (all - 150) as u64);
    assert_eq!((present(&kept_at), service.give_back_now()), (0, 0));
    let state = service.giving_back();
    assert_eq!((state.pages, state.asked, state.refused), (all as u64, 3, 0));
    assert_eq!((state.looks, state.pressure), (0, PressureWatch::Off));
    // It is as new: zero without being zeroed, whoever has it.
    let again = client.alloc(2048, Mode::Delayed).expect("all of it is one again");
    assert_eq!(present(&[place(&again)]), 0);
    assert!(again.iter().all(|&byte| byte == 0));
}

#[test]
fn what_a_client_keeps_stays_until_it_is_trimmed() {
    let service = service(4, 1, GiveBack::NEVER);
    let mut client = service.client();
    let block = client.alloc(16, Mode::Immediate).expect("memory");
    let at = [place(&block)];
    client.free(block);
    assert_eq!((service.give_back_now(), present(&at)), (0, 16));
    client.trim();
    assert_eq!((service.give_back_now(), present(&at)), (16, 0));
}

/// Takes blocks of one page, and says of each whether it was there before it was asked for, and how many more are there after it.
fn taken_one_by_one(client: &mut Client, count: usize, chunk: (usize, usize)) -> (Vec<Block>, Vec<usize>) {
    let mut blocks = Vec::new();
    let mut ahead = Vec::new();
    for number in 1..=count {
        blocks.push(client.alloc(1, Mode::Immediate).expect("memory"));
        ahead.push(present(&[chunk]) - number);
    }
    (blocks, ahead)
}

#[test]
fn a_client_that_grows_has_pages_mapped_ahead_and_trims_them() {
    let service = service(4, 1, GiveBack::NEVER);
    let mut client = service.client();
    let first = client.alloc(512, Mode::Delayed).expect("a chunk of which nothing is there");
    let chunk = place(&first);
    drop(first);
    let (blocks, ahead) = taken_one_by_one(&mut client, 40, chunk);
    // One page, then two, four, eight and 16 by a call each.
    assert_eq!(ahead[..8], [0, 1, 0, 3, 2, 1, 0, 7]);
    assert_eq!(ahead[14..32], [0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15]);
    assert!(blocks.iter().all(|block| block.iter().all(|&byte| byte == 0)));
    let all = present(&[chunk]);
    assert_eq!(all, 40 + ahead[39]);
    // What is mapped ahead is the client's until it trims it.
    service.give_back_now();
    assert_eq!(present(&[chunk]), all);
    client.trim();
    service.give_back_now();
    assert_eq!(present(&[chunk]), 40);
    drop(blocks);
    service.give_back_now();
    assert_eq!(present(&[chunk]), 0);
}

#[test]
fn nothing_is_mapped_ahead_where_nothing_is_kept_nor_of_pages_that_are_to_be_zero() {
    let options = ServiceOptions { keep_pages: 0, ..options(4, 1, GiveBack::NEVER) };
    let keeps_nothing = Service::new(&options).expect("a range");
    let mut client = keeps_nothing.client();
    let chunk = place(&client.alloc(512, Mode::Delayed).expect("a chunk"));
    let (_blocks, ahead) = taken_one_by_one(&mut client, 40, chunk);
    assert_eq!(ahead, [0; 40]);
    let keeps = service(4, 1, GiveBack::NEVER);
    let mut client = keeps.client();
    let chunk = place(&client.alloc(512, Mode::Delayed).expect("a chunk"));
    let mut blocks = Vec::new();
    for number in 1..=40 {
        blocks.push(client.alloc_zeroed(1, Mode::Immediate).expect("memory"));
        assert_eq!(present(&[chunk]), number);
    }
}

#[test]
fn what_nobody_needs_goes_by_itself_down_to_the_limit() {
    let (t1, t2) = (Duration::from_millis(20), Duration::from_millis(50));
    let give_back = GiveBack { t1, t2, h1_pages: 1200, h2_pages: 100, on_pressure: false };
    // Where a client keeps nothing it maps nothing ahead.
    let options = ServiceOptions { keep_pages: 0, ..options(16, 1, give_back) };
    let service = Service::new(&options).expect("a range");
    let (blocks, places) = written(&mut service.client(), &SIZES);
    let all = present(&places);
    drop(blocks);
    wait_until("the look at T2", || idle_pages(&service) == 100);
    assert_eq!(present(&places), 100, "so many as H2 stay");
    let state = service.giving_back();
    assert_eq!(state.pages + 100, all as u64);
    // When nothing changes any more nobody looks.
    wait_until("the last look", || {
        let before = service.giving_back().looks;
        thread::sleep(t2 * 4);
        service.giving_back().looks == before
    });
    // It begins anew with the next block.
    let looks = service.giving_back().looks;
    drop(written(&mut service.client(), &[(512, 2)]));
    wait_until("the next look", || service.giving_back().looks > looks && idle_pages(&service) == 100);
}

#[test]
fn nothing_goes_before_its_time_and_chunks_go_before_what_is_smaller() {
    let hour = Duration::from_secs(3600);
    let never_yet = GiveBack { t1: hour, t2: hour, h1_pages: 0, h2_pages: 0, on_pressure: false };
    let service = service(8, 1, never_yet);
    let (blocks, places) = written(&mut service.client(), &SIZES[..4]);
    let all = present(&places);
    drop(blocks);
    thread::sleep(Duration::from_millis(50));
    assert_eq!((present(&places), service.giving_back().pages), (all, 0));

    let only_chunks = GiveBack { t1: Duration::from_millis(10), ..never_yet };
    let service = self::service(8, 1, only_chunks);
    let mut client = service.client();
    let (chunks, of_chunks) = written(&mut client, &[(512, 3)]);
    let (mut small, of_small) = written(&mut client, &[(8, 20)]);
    // One stays in use, so that its chunk is not whole.
    let in_use = small.pop().expect("there are some");
    drop((small, chunks));
    wait_until("the look at T1", || present(&of_chunks) == 0);
    assert_eq!(present(&of_small), 160, "smaller blocks wait for T2");
    assert!(in_use.iter().all(|&byte| byte == 0x5a));
}

#[test]
fn all_of_it_goes_when_memory_is_said_to_be_short() {
    let (reader, writer) = rustix::pipe::pipe().expect("descriptors");
    let only_then = GiveBack { on_pressure: true, ..GiveBack::NEVER };
    let service = Service::with_pressure(&options(16, 2, only_then), reader).expect("a range");
    assert_eq!(service.giving_back().pressure, PressureWatch::NotYet);
    service.start_keeper();
    assert_eq!(service.giving_back().pressure, PressureWatch::Watched);
    for time in 1..4 {
        let (blocks, places) = written(&mut service.client(), &SIZES);
        drop(blocks);
        assert_ne!(present(&places), 0);
        rustix::io::write(&writer, b"short").expect("somebody reads");
        wait_until("all of it", || service.giving_back().pressures == time && present(&places) == 0);
    }
    drop(writer);
    wait_until("the end of the source", || service.giving_back().pressure == PressureWatch::Ended);
    let (blocks, places) = written(&mut service.client(), &SIZES);
    drop(blocks);
    assert!(service.give_back_now() > 0 && present(&places) == 0, "the service goes on");
}

#[test]
fn the_kernel_says_when_memory_is_short_or_it_is_said_why_not() {
    let service = service(4, 1, GiveBack::default());
    drop(service.client());
    match service.giving_back().pressure {
        PressureWatch::Watched => {}
        PressureWatch::None { errno } => assert_ne!(errno, 0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_keeper_ends_with_its_service() {
    let (reader, writer) = rustix::pipe::pipe().expect("descriptors");
    let service = Service::with_pressure(&options(4, 1, GiveBack::default()), reader).expect("a range");
    let mut client = service.client();
    let block = client.alloc(1, Mode::Delayed).expect("memory");
    drop((service, client));
    rustix::io::write(&writer, b"short").expect("a block keeps its service");
    drop(block);
    wait_until("nobody has the other end", || rustix::io::write(&writer, b"short").is_err());
}

/// Blocks with the number of whoever has them on each page.
fn in_and_out(client: &mut Client, number: u8, rounds: u32) {
    let mut random = u32::from(number).wrapping_mul(0x9e37_79b9);
    let mut blocks: Vec<Block> = Vec::new();
    for _ in 0..rounds {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (most, size) = (random >> 20 & 31, random >> 27);
        if blocks.len() < most as usize {
            let pages = if size == 0 { 512 } else { u64::from(size % 12) + 1 };
            let mode = if size % 2 == 0 { Mode::Immediate } else { Mode::Delayed };
            let mut block = client.alloc(pages, mode).expect("memory");
            let is_own = |byte: u8| byte == 0 || byte == number;
            assert!(block.iter().step_by(512).all(|&byte| is_own(byte)), "zero, or its own");
            block.iter_mut().step_by(512).for_each(|byte| *byte = number);
            blocks.push(block);
        } else if let Some(block) =
            (!blocks.is_empty()).then(|| blocks.swap_remove(random as usize % blocks.len()))
        {
            assert!(block.iter().step_by(512).all(|&byte| byte == number), "nobody else was there");
            if size % 3 == 0 { drop(block) } else { client.free(block) }
        }
    }
}

#[test]
fn blocks_keep_their_content_while_another_thread_gives_back() {
    let quick = Duration::from_millis(1);
    let give_back = GiveBack { t1: quick, t2: quick * 3, h1_pages: 0, h2_pages: 0, on_pressure: false };
    let service = service(96, 2, give_back);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (1..5)
            .map(|number| {
                let mut client = service.client();
                scope.spawn(move || in_and_out(&mut client, number, 6_000))
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                service.give_back_now();
            }
        });
        let ended: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    let zones = service.zones();
    assert!(zones.iter().all(|zone| zone.own_pages == zone.free_pages), "none is lost");
    service.give_back_now();
    let state = service.giving_back();
    assert!(state.pages > 0 && state.refused == 0 && idle_pages(&service) == 0);
}

#[test]
fn memory_on_its_way_to_the_kernel_is_not_missing() {
    let service = service(4, 1, GiveBack::NEVER);
    let mut client = service.client();
    // The zone has all that there is.
    drop(written(&mut client, &[(512, 4)]));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                service.give_back_now();
            }
        });
        let mut until_much_was_given_back = || -> Result<(), ServiceError> {
            let begun = Instant::now();
            while service.giving_back().pages < 10_000 {
                assert!(begun.elapsed() < NEVER, "the other thread gives nothing back");
                // All that there is, in one block.
                let mut block = client.alloc(2048, Mode::Delayed)?;
                block.iter_mut().step_by(PAGE_BYTES * 2).for_each(|byte| *byte = 1);
            }
            Ok(())
        };
        let result = until_much_was_given_back();
        is_over.store(true, Ordering::Relaxed);
        result.expect("nobody else has a block");
    });
}
