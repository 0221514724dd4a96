//! Blocks by address: many threads free what others have asked for, wrong addresses are errors, and parts of blocks go home apart.

#![allow(unsafe_code, reason = "memory is written and read by its address")]

use std::ptr::NonNull;
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::thread;

use regrow_memory::raw::Part;
use regrow_memory::{Mode, PAGE_BYTES, RawClient, RawError, Service, ServiceError, ServiceOptions};

fn service(chunks: u32, zones: usize) -> Service {
    let options = ServiceOptions { chunks, zones, grow_by: 1, ..ServiceOptions::default() };
    Service::new(&options).expect("a range")
}

fn pages_in_use(service: &Service) -> u64 {
    service.zones().iter().map(|zone| zone.own_pages - zone.free_pages).sum()
}

/// A block that its thread has alone.
struct Own {
    address: NonNull<u8>,
    pages: usize,
    number: u64,
}

// SAFETY: whoever has it has the block alone.
unsafe impl Send for Own {}

impl Own {
    /// Writes its number to the first and last word of each page.
    fn stamp(&self) {
        for word in self.words() {
            // SAFETY: the block is this thread's alone, and the word lies in it.
            unsafe { word.write_volatile(self.number) };
        }
    }

    fn check(&self) {
        for word in self.words() {
            // SAFETY: as above.
            let found = unsafe { word.read_volatile() };
            assert_eq!(found, self.number, "somebody else has written there");
        }
    }

    fn is_zero(&self) -> bool {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.pages * PAGE_BYTES) };
        bytes.iter().all(|&byte| byte == 0)
    }

    fn words(&self) -> impl Iterator<Item = *mut u64> {
        let page = |page: usize| self.address.as_ptr().wrapping_add(page * PAGE_BYTES);
        (0..self.pages)
            .flat_map(move |at| [page(at), page(at).wrapping_add(PAGE_BYTES - 8)].map(<*mut u8>::cast))
    }
}

fn alloc(client: &RawClient, pages: usize, mode: Mode, zeroed: bool) -> Result<Own, RawError> {
    let address = client.alloc(pages as u64, mode, zeroed)?;
    Ok(Own { address, pages, number: 0 })
}

/// Small numbers, the same for each seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).expect("a small number")
    }
}

fn of_thread(client: &RawClient, thread: u64, steps: u64, pool: &Mutex<Vec<Own>>) {
    let mut dice = Dice(0x9e37_79b9 * (thread + 1));
    let mut own: Vec<Own> = Vec::new();
    for step in 0..steps {
        if own.len() < 30 && dice.below(100) < 55 {
            let pages = if dice.below(50) == 0 { dice.below(700) + 1 } else { dice.below(9) + 1 };
            let mode = if dice.below(2) == 0 { Mode::Immediate } else { Mode::Delayed };
            let zeroed = dice.below(4) == 0;
            match alloc(client, pages, mode, zeroed) {
                Ok(block) => {
                    let block = Own { number: thread << 40 | step | 1 << 60, ..block };
                    assert!(!zeroed || block.is_zero());
                    assert!(client.size(block.address.as_ptr()).expect("a block") >= pages * PAGE_BYTES);
                    block.stamp();
                    own.push(block);
                }
                Err(RawError::Service(ServiceError::NoMemory { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        } else if !own.is_empty() {
            let block = own.swap_remove(dice.below(own.len()));
            block.check();
            // Every fourth goes to whichever thread comes next.
            let block = if dice.below(4) == 0 {
                let mut pool = pool.lock().expect("no thread panics with it");
                pool.push(block);
                let at = dice.below(pool.len());
                pool.swap_remove(at)
            } else {
                block
            };
            block.check();
            client.free(block.address.as_ptr()).expect("a block");
        }
    }
    pool.lock().expect("no thread panics with it").extend(own);
}

fn many_threads(threads: u64, steps: u64, service: &Service) {
    let (client, pool) = (service.raw_client(), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for thread in 0..threads {
            let (client, pool) = (&client, &pool);
            scope.spawn(move || of_thread(client, thread, steps, pool));
        }
    });
    let left = pool.into_inner().expect("no thread panicked");
    assert!(!left.is_empty());
    for block in left {
        block.check();
        client.free(block.address.as_ptr()).expect("a block");
    }
    assert!(pages_in_use(service) > 0, "the threads' slots keep some");
    client.trim();
    assert_eq!(pages_in_use(service), 0, "all blocks have gone home");
}

/// Steps of a thread; `REGROW_STEPS` has more of them made, or fewer.
fn steps() -> u64 {
    std::env::var("REGROW_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

#[test]
fn blocks_by_address_of_eight_threads_do_not_overlap_and_none_is_lost() {
    many_threads(8, steps(), &service(256, 3));
}

#[test]
fn blocks_by_address_where_memory_runs_out_all_the_time() {
    many_threads(6, steps(), &service(6, 3));
}

#[test]
fn what_another_threads_slot_keeps_is_there_for_who_finds_no_memory() {
    let service = service(1, 1);
    let client = service.raw_client();
    thread::scope(|scope| {
        let other = || {
            let all: Vec<Own> =
                (0..16).map(|_| alloc(&client, 32, Mode::Delayed, false).expect("memory")).collect();
            all.iter().for_each(|block| client.free(block.address.as_ptr()).expect("a block"));
        };
        scope.spawn(other).join().expect("it has ended");
    });
    assert!(pages_in_use(&service) > 0);
    let whole = alloc(&client, 512, Mode::Delayed, false).expect("all of it");
    client.free(whole.address.as_ptr()).expect("a block");
}

#[test]
fn a_wrong_address_is_an_error_that_names_it_and_changes_nothing() {
    let service = service(4, 1);
    let client = service.raw_client();
    let block = alloc(&client, 3, Mode::Immediate, false).expect("memory").address.as_ptr();
    let refused = |address: *const u8| client.free(address).expect_err("it is wrong");
    for inside in [1, PAGE_BYTES - 1, PAGE_BYTES, 3 * PAGE_BYTES] {
        let inside = block.wrapping_add(inside);
        assert!(matches!(refused(inside), RawError::NoBlock { address } if address == inside.addr()));
        assert!(client.size(inside).is_err() && client.contains(inside));
    }
    let local = 0u8;
    let addresses = client.addresses();
    for outside in [
        &raw const local,
        std::ptr::null(),
        block.with_addr(addresses.end),
        block.with_addr(addresses.start - 1),
    ] {
        assert!(matches!(refused(outside), RawError::Outside { address } if address == outside.addr()));
        assert!(!client.contains(outside));
    }
    assert_eq!(client.size(block).expect("a block"), 4 * PAGE_BYTES);
    client.free(block).expect("a block");
    assert!(matches!(refused(block), RawError::FreedTwice { address } if address == block.addr()));
    assert_eq!(refused(block).to_string(), format!("the block at {:#x} was freed before", block.addr()));
    client.trim();
    assert!(matches!(refused(block), RawError::FreedTwice { .. }), "also when it has gone home");
    let whole = alloc(&client, 512, Mode::Delayed, false).expect("memory").address.as_ptr();
    assert!(
        matches!(refused(whole.wrapping_add(4 * PAGE_BYTES)), RawError::NoBlock { .. }),
        "a block from before"
    );
    assert!(matches!(
        client.alloc(u64::MAX, Mode::Delayed, false),
        Err(RawError::Service(ServiceError::TooLarge { .. }))
    ));
    assert!(matches!(
        client.alloc(2000, Mode::Delayed, false),
        Err(RawError::Service(ServiceError::NoMemory { .. }))
    ));
    client.free(whole).expect("a block");
    let other = service.raw_client();
    let of_other = other.alloc(1, Mode::Delayed, false).expect("memory").as_ptr();
    assert!(
        matches!(refused(of_other), RawError::NoBlock { .. } | RawError::FreedTwice { .. }),
        "another client's"
    );
    other.free(of_other).expect("its own");
}

#[test]
fn of_threads_that_free_a_block_at_the_same_time_one_does() {
    let service = service(4, 1);
    let client = service.raw_client();
    let barrier = Barrier::new(3);
    for _ in 0..if cfg!(miri) { 5 } else { 200 } {
        let address = alloc(&client, 2, Mode::Immediate, false).expect("memory").address.as_ptr().addr();
        let free = || {
            barrier.wait();
            client.free(std::ptr::without_provenance(address)).is_ok()
        };
        let done = thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(free));
            threads.into_iter().map(|thread| thread.join().expect("no panic")).filter(|&done| done).count()
        });
        assert_eq!(done, 1);
    }
}

#[test]
fn a_block_goes_home_with_the_last_of_its_parts_and_is_as_new() {
    let service = service(2, 1);
    let client = service.raw_client();
    for part in [Part::Closed, Part::Open] {
        let block = Own { number: 9, ..alloc(&client, 6, Mode::Delayed, true).expect("memory") };
        block.stamp();
        let at = |page: usize| block.address.as_ptr().wrapping_add(page * PAGE_BYTES);
        client.free_part(at(4), 2 * PAGE_BYTES, part).expect("its end");
        client.free_part(at(1), PAGE_BYTES + 1, part).expect("pages 1 and 2");
        let (around, is_as_given) = client.block_around(at(3)).expect("it is there");
        assert_eq!((around.start, around.len(), is_as_given), (at(0).addr(), 6 * PAGE_BYTES, false));
        Own { pages: 1, address: block.address, number: 9 }.check();
        assert_eq!(client.size(at(0)).expect("a block"), 8 * PAGE_BYTES);
        client.free_part(at(0), PAGE_BYTES, part).expect("its beginning");
        client.free_part(at(3), 100 * PAGE_BYTES, part).expect("the last, and pages of nobody");
        assert!(client.block_around(at(3)).is_none());
        assert!(client.free(at(0)).is_err());
        assert_eq!(pages_in_use(&service), 0, "a changed block is not kept");
        let again = alloc(&client, 512, Mode::Delayed, false).expect("all of it");
        assert!(again.is_zero());
        again.stamp();
        client.free(again.address.as_ptr()).expect("a block");
        client.trim();
    }
    assert!(client.free_part(std::ptr::null(), 5, Part::Open).is_err());
}

#[test]
fn one_call_gives_back_parts_of_several_blocks() {
    let service = service(1, 1);
    let client = service.raw_client();
    let blocks: Vec<Own> = (0..8).map(|_| alloc(&client, 4, Mode::Delayed, true).expect("memory")).collect();
    let first = blocks.iter().map(|block| block.address).min().expect("there are some").as_ptr();
    assert!(client.is_in_use(first, 32 * PAGE_BYTES));
    client.free_part(first.wrapping_add(2 * PAGE_BYTES), 28 * PAGE_BYTES, Part::Closed).expect("blocks");
    client.trim();
    assert_eq!(pages_in_use(&service), 8, "the first and the last are there in part");
    client.free_part(first, 32 * PAGE_BYTES, Part::Closed).expect("blocks");
    client.trim();
    assert_eq!(pages_in_use(&service), 0);
    assert!(!client.is_in_use(first, PAGE_BYTES));
}

#[test]
fn a_block_grows_in_its_place_as_far_as_it_reaches() {
    let service = service(1, 1);
    let client = service.raw_client();
    let block = alloc(&client, 5, Mode::Delayed, true).expect("memory").address.as_ptr();
    assert!(!client.is_in_use(block, 6 * PAGE_BYTES));
    assert!(client.resize(block, 8) && client.is_in_use(block, 8 * PAGE_BYTES));
    assert!(!client.resize(block, 9) && !client.resize(block.wrapping_add(PAGE_BYTES), 1));
    assert!(client.resize(block, 2) && client.block_around(block).expect("it").0.len() == 2 * PAGE_BYTES);
    client.note_changed(block, 1, false);
    assert!(!client.resize(block, 3), "its mapping is not what it was");
    client.purge(block, PAGE_BYTES).expect("its page");
    assert!(matches!(client.purge(block, 4 * PAGE_BYTES), Err(RawError::NoBlock { .. })));
    client.free(block).expect("a block");
    assert_eq!(pages_in_use(&service), 0);
}

#[test]
fn a_label_stays_until_the_block_is_freed() {
    let service = service(1, 1);
    let client = service.raw_client();
    let block = alloc(&client, 3, Mode::Delayed, false).expect("memory").address.as_ptr();
    let inside = block.wrapping_add(PAGE_BYTES + 5);
    assert_eq!(client.is_labelled(inside), Some(false));
    client.label(block).expect("a block");
    assert_eq!((client.is_labelled(inside), client.is_labelled(block)), (Some(true), Some(true)));
    assert!(client.label(inside).is_err());
    client.free(block).expect("a block");
    assert_eq!(client.is_labelled(block), None);
    let again = alloc(&client, 3, Mode::Delayed, false).expect("memory").address.as_ptr();
    assert_eq!((again, client.is_labelled(again)), (block, Some(false)));
}

#[test]
fn blocks_are_aligned_as_asked_up_to_a_chunk() {
    let service = service(4, 1);
    let client = service.raw_client();
    for multiple in [1u64, 2, 16, 512] {
        let _other = client.alloc(1, Mode::Delayed, false).expect("memory");
        let block = client.alloc_aligned(1, multiple, Mode::Delayed, false).expect("memory");
        let bytes = usize::try_from(multiple).expect("small") * PAGE_BYTES;
        assert!(block.addr().get().is_multiple_of(bytes), "{multiple}");
    }
}

#[test]
fn while_it_is_held_nobody_is_in_the_middle_of_a_request() {
    let service = service(8, 2);
    let client = service.raw_client();
    let (started, starts) = channel();
    thread::scope(|scope| {
        let held = client.hold();
        let thread = scope.spawn(|| {
            started.send(()).expect("it is waited for");
            let block = client.alloc(1, Mode::Immediate, false).expect("memory");
            client.free(block.as_ptr()).expect("a block");
        });
        starts.recv().expect("it is sent");
        thread::yield_now();
        assert!(!thread.is_finished());
        drop(held);
        thread.join().expect("it goes on");
    });
}
