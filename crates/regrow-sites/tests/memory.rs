//! A model keeps to its memory, by its own account and by the allocator's: whatever it is told of, by whatever program.
//!
//! `REGROW_EVENTS=10000000` tells it of so many events (`make soak` does).

#![allow(unsafe_code, reason = "an allocator")]

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{PARENT, Teller, child_of, cpu, image, is_close, place};
use regrow_sites::model::DEFAULT_BUDGET_BYTES;
use regrow_sites::site::{Script, Site};
use regrow_sites::{Arguments, Event, Level, Model};

/// Counts what its thread has allocated.
struct Counting;

thread_local! {
    /// Calls, bytes that are allocated, and the most that were at a time.
    static ALLOCATED: Cell<(u64, usize, usize)> = const { Cell::new((0, 0, 0)) };
}

fn note(more: usize, less: usize) {
    // At the end of a thread it is gone.
    let _ = ALLOCATED.try_with(|allocated| {
        let (calls, bytes, most) = allocated.get();
        let bytes = (bytes + more).saturating_sub(less);
        allocated.set((calls + u64::from(more > 0), bytes, most.max(bytes)));
    });
}

// SAFETY: the system's allocator does all the work; what is counted has no destructor and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller's contract is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What is done, with the calls of the allocator in it and the most bytes beyond those before.
fn counted<T>(what: impl FnOnce() -> T) -> (T, u64, usize) {
    let (calls, bytes, _) = ALLOCATED.get();
    ALLOCATED.set((calls, bytes, bytes));
    let done = what();
    let (calls_after, _, most) = ALLOCATED.get();
    (done, calls_after - calls, most - bytes)
}

/// Pseudorandom numbers: xorshift.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// The sites of a machine: 250 programs with 20 places each, of which every second creates two programs, or has two lines of a script.
fn machine() -> Vec<Site> {
    let mut sites = Vec::new();
    for program in 0..250_u64 {
        for at in 0..20 {
            let site = place(&format!("program {program}"), &[at, 100 + at % 4, 7]);
            let child = |number: u64| child_of(site, &format!("child {}", (program + number) % 300));
            match at % 4 {
                0 => sites.extend([child(at), child(at + 1)]),
                1 => sites.extend(
                    [1, 2].map(|line| Site { script: Some(Script { file: program, line }), ..child(at) }),
                ),
                _ => sites.extend([child(at), Site { frames: [site.frames[0], None, None], ..child(at) }]),
            }
        }
    }
    sites
}

#[test]
fn ten_thousand_sites_are_told_apart_in_one_mebibyte() {
    let sites = machine();
    assert_eq!(sites.len(), 10_000);
    let (mut model, _, at_start) = counted(Model::default);
    assert!(at_start <= DEFAULT_BUDGET_BYTES && model.memory_bytes() <= DEFAULT_BUDGET_BYTES, "{at_start}");
    assert!(at_start >= model.memory_bytes(), "the account is not less than the truth");
    let mut teller = Teller::default();
    // Each site has a processor time of its own.
    let usage = |number: usize| cpu(100 + 37 * number as u64);
    let mut told: Vec<Event> = Vec::new();
    for _ in 0..5 {
        for (number, site) in sites.iter().enumerate() {
            told.extend(teller.events(site, None, usage(number)));
        }
    }
    let ((), calls, _) = counted(|| told.iter().for_each(|event| model.observe(event)));
    assert_eq!(calls, 0, "telling allocates nothing");
    let mut right = 0;
    let ((), calls, _) = counted(|| {
        for (number, site) in sites.iter().enumerate() {
            let prediction = model.predict(site);
            right += usize::from(is_close(prediction.cpu_us.quantile(0.5), usage(number).cpu_us));
        }
    });
    assert_eq!(calls, 0, "asking allocates nothing");
    let counts = model.counts();
    println!("{right} of 10,000 sites; {counts:?}; {} bytes", model.memory_bytes());
    assert!(right >= 9_500, "{right} of 10,000 sites are told apart: {counts:?}");
}

#[test]
fn a_model_keeps_to_any_budget() {
    for budget in [0, 32 << 10, 100_000, 1 << 20, 3_000_000, usize::MAX] {
        let (model, _, bytes) = counted(|| Model::new(budget));
        assert!(bytes <= model.budget_bytes(), "{bytes} of {}", model.budget_bytes());
        assert!(model.memory_bytes() * 100 >= model.budget_bytes() * 97, "it is made use of");
    }
}

#[test]
fn millions_of_events_take_no_more_memory() {
    let events: u64 = std::env::var("REGROW_EVENTS").map_or(1_000_000, |count| count.parse().unwrap());
    let mut model = Model::default();
    let (mut numbers, mut teller) = (Numbers(88_172_645_463_325_252), Teller::default());
    let site = place("steady", &[1]);
    let mut most = 0;
    while model.counts().events < events {
        let told: Vec<Event> = (0..1_000)
            .flat_map(|_| {
                let program = numbers.below(2_000);
                let program = numbers.below(program + 1);
                let offsets = [numbers.below(30), numbers.below(5), numbers.below(3)];
                let site = child_of(place(&program.to_string(), &offsets), &numbers.below(500).to_string());
                let arguments = Arguments { magnitude: 2, class: u32::try_from(numbers.below(9)).unwrap() };
                let mut events = teller.events(&site, Some(arguments), cpu(numbers.below(1 << 22)));
                // Some are lost, some come twice, some in another order.
                match numbers.below(20) {
                    0 => events.truncate(2),
                    1 => events.rotate_left(1),
                    2 => events.extend_from_within(..),
                    3 => events
                        .push(Event::Named { image: image(&program.to_string()), path: program.to_string() }),
                    _ => {}
                }
                events
            })
            .collect();
        teller.tell_often(&mut model, &site, cpu(4_000), 2);
        let ((), calls, _) = counted(|| told.iter().for_each(|event| model.observe(event)));
        most = most.max(calls);
    }
    assert_eq!(most, 0, "telling allocates nothing");
    assert!(model.memory_bytes() <= DEFAULT_BUDGET_BYTES);
    let counts = model.counts();
    println!("{counts:?}");
    assert!(counts.runs > events / 6 && counts.evicted > 0, "{counts:?}");
    assert!(is_close(model.predict(&site).cpu_us.quantile(0.5), 4_000), "what comes all the time is kept");
}

#[test]
fn a_program_that_creates_from_a_million_places_does_not_push_out_what_others_have_learned() {
    let mut model = Model::default();
    let mut teller = Teller::default();
    let sites: Vec<Site> = (0..2_000_u64)
        .map(|number| child_of(place(&(number / 10).to_string(), &[number % 10]), &(number % 50).to_string()))
        .collect();
    for _ in 0..3 {
        for (number, site) in sites.iter().enumerate() {
            teller.tell(&mut model, site, cpu(1_000 + 100 * number as u64));
        }
    }
    let evicted = model.counts().evicted;
    let known = |model: &Model| {
        let is_right = |(number, site): (usize, &Site)| {
            let prediction = model.predict(site);
            let is_known = prediction.level >= Level::Image;
            is_known && is_close(prediction.cpu_us.quantile(0.5), 1_000 + 100 * number as u64)
        };
        sites.iter().enumerate().filter(|&site| is_right(site)).count()
    };
    let before = known(&model);
    assert!(before >= 1_990, "{before}");
    for at in 0..1_000_000_u64 {
        let site = child_of(place("hostile", &[at, at * 3, at * 7]), "child");
        teller.tell(&mut model, &site, cpu(at % 10_000));
    }
    let (after, counts) = (known(&model), model.counts());
    println!("{before} before, {after} after: {counts:?}");
    assert!(counts.evicted + counts.refused > evicted + 900_000, "the table was full: {counts:?}");
    assert!(after + 5 >= before, "{after} of {before}");
    assert!(model.memory_bytes() <= DEFAULT_BUDGET_BYTES);
    // A program that comes later has room too.
    let late = place("late", &[1]);
    teller.tell_often(&mut model, &late, cpu(77_000), 5);
    assert!(is_close(model.predict(&late).cpu_us.quantile(0.5), 77_000));
}

#[test]
fn a_million_programs_do_not_push_out_what_was_seen_often() {
    let mut model = Model::default();
    let mut teller = Teller::default();
    let sites: Vec<Site> =
        (0..1_000_u64).map(|number| place(&(number / 5).to_string(), &[number % 5])).collect();
    for _ in 0..6 {
        sites.iter().for_each(|site| teller.tell(&mut model, site, cpu(40_000)));
    }
    for at in 0..500_000_u64 {
        teller.tell(&mut model, &child_of(place(&format!("p{at}"), &[1]), &format!("c{at}")), cpu(9));
    }
    let known =
        sites.iter().filter(|site| is_close(model.predict(site).cpu_us.quantile(0.5), 40_000)).count();
    println!("{known} of 1,000; {:?}", model.counts());
    assert!(known >= 950, "{known} of 1,000");
}

#[test]
fn ends_that_are_lost_make_room() {
    let mut model = Model::default();
    let mut teller = Teller::default();
    let site = place("app", &[1]);
    for _ in 0..100_000 {
        let process = teller.process();
        model.observe(&Event::Created { time_us: teller.now_us, process, parent: PARENT, site });
    }
    assert!(model.counts().lost > 90_000, "{:?}", model.counts());
    teller.tell_often(&mut model, &site, cpu(6_000), 5);
    assert!(is_close(model.predict(&site).cpu_us.quantile(0.5), 6_000));
}
