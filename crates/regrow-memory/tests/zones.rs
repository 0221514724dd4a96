//! Zones against a model: blocks do not overlap, nothing is lost, no client sees what another one has written, and nothing that is in use is
//! given back.

use std::collections::BTreeMap;

use proptest::prelude::*;
use regrow_memory::ZoneError;
use regrow_memory::request::{NOBODY, Owner, Want};
use regrow_memory::units::{CHUNK_PAGES, Page};
use regrow_memory::zone::{Away, Look, Most, Zone};

const CHUNKS: u32 = 6;

#[derive(Debug, Clone)]
enum Step {
    Alloc(Want),
    /// The block of this number among those in use, from a page of it.
    Free(prop::sample::Index, u32),
    /// Any page at all.
    FreePage(Page),
    CoolDown,
    /// A chunk goes from one zone to the other.
    Move(bool),
    /// What a look finds goes away, at most so much.
    TakeAway(Look, u64, Most),
    /// One of the blocks that are away comes back: given back, or as it was.
    PutBack(prop::sample::Index, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let want = (0u8..12, 1u32..4, any::<bool>(), any::<bool>())
        .prop_map(|(order, owner, mapped, zeroed)| Want { order, owner, mapped, zeroed });
    let small = (0u8..3, 1u32..4, any::<bool>(), any::<bool>())
        .prop_map(|(order, owner, mapped, zeroed)| Want { order, owner, mapped, zeroed });
    let look = prop_oneof![Just(Look::Chunks), Just(Look::All), Just(Look::Everything)];
    let most = (1u64..2000, 1usize..40).prop_map(|(pages, blocks)| Most { pages, blocks });
    prop_oneof![
        6 => small.prop_map(Step::Alloc),
        2 => want.prop_map(Step::Alloc),
        8 => (any::<prop::sample::Index>(), prop_oneof![9 => Just(0u32), 1 => 1u32..64]).prop_map(|(which, beside)| Step::Free(which, beside)),
        1 => prop_oneof![0..CHUNKS * CHUNK_PAGES + 10, Just(u32::MAX)].prop_map(Step::FreePage),
        1 => Just(Step::CoolDown),
        1 => any::<bool>().prop_map(Step::Move),
        1 => (look, 0u64..4000, most).prop_map(|(look, surplus, most)| Step::TakeAway(look, surplus, most)),
        4 => (any::<prop::sample::Index>(), prop_oneof![4 => Just(true), 1 => Just(false)])
            .prop_map(|(which, is_given_back)| Step::PutBack(which, is_given_back)),
    ]
}

/// What the memory holds and whether it is mapped, as whoever holds the range would have it.
struct Memory {
    /// Who has written to each page last.
    content: Vec<Owner>,
    mapped: Vec<bool>,
    /// Whether it may be there: a client has had it since it was zero.
    touched: Vec<bool>,
}

struct World {
    zones: [Zone; 2],
    memory: Memory,
    /// First pages of the blocks in use: zone, order, client.
    blocks: BTreeMap<Page, (usize, u8, Owner)>,
    /// Blocks that are being given back.
    away: Vec<(usize, Away)>,
}

impl World {
    fn new() -> World {
        let mut zones = [Zone::default(), Zone::default()];
        for chunk in 0..CHUNKS {
            zones[usize::from(chunk >= CHUNKS / 2)].add_chunk(chunk).expect("a new chunk");
        }
        let pages = (CHUNKS * CHUNK_PAGES) as usize;
        let memory =
            Memory { content: vec![NOBODY; pages], mapped: vec![false; pages], touched: vec![false; pages] };
        World { zones, memory, blocks: BTreeMap::new(), away: Vec::new() }
    }

    /// The first page of the block, if there is room for it.
    fn alloc(&mut self, number: usize, want: Want) -> Option<Page> {
        let zone = &mut self.zones[number];
        match zone.alloc(want) {
            Ok(grant) => {
                let pages = 1u32 << want.order;
                assert_eq!(grant.page % pages, 0, "a block begins at a multiple of its size");
                let end = grant.page + pages;
                assert!(
                    self.blocks
                        .range(..end)
                        .next_back()
                        .is_none_or(|(&page, block)| page + (1 << block.1) <= grant.page)
                );
                assert!(!overlaps(&self.away, grant.page, end), "nobody gets what is just being given back");
                for page in grant.page..end {
                    assert!(zone.has(page));
                    self.memory.touched[page as usize] = true;
                    let (content, mapped) =
                        (&mut self.memory.content[page as usize], &mut self.memory.mapped[page as usize]);
                    let is_own = *content == want.owner && !want.zeroed;
                    assert!(
                        grant.zero || *content == NOBODY || is_own,
                        "page {page} holds what {content} has written"
                    );
                    *mapped &= !(grant.zero && want.is_zeroed_by_the_kernel());
                    assert!(grant.map || *mapped || !want.mapped, "page {page} is not mapped");
                    *mapped |= want.mapped;
                    *content = want.owner;
                }
                self.blocks.insert(grant.page, (number, want.order, want.owner));
                Some(grant.page)
            }
            Err(error) => {
                assert_eq!(error, ZoneError::NoRoom { order: want.order });
                // What is hot was joined: there is no block of this order but those that are away.
                assert!(zone.fragmentation(want.order) >= 1.0 || zone.free_pages() == 0);
                None
            }
        }
    }

    fn free(&mut self, page: Page) {
        let number = usize::from(!self.zones[0].has(page));
        let freed = self.zones[number].free(page);
        match self.blocks.remove(&page) {
            Some((zone, order, _)) => assert_eq!((number, freed), (zone, Ok(order))),
            None => assert!(
                matches!(
                    freed,
                    Err(ZoneError::FreeAlready { .. }
                        | ZoneError::NoBlock { .. }
                        | ZoneError::Elsewhere { .. })
                ),
                "{page}: {freed:?}"
            ),
        }
    }

    fn hand_over(&mut self, from: usize) {
        let Some((chunk, is_used)) = self.zones[from].take_chunk() else { return };
        let pages = chunk * CHUNK_PAGES..(chunk + 1) * CHUNK_PAGES;
        assert!(self.blocks.range(pages.clone()).next().is_none(), "it was free");
        assert!(!overlaps(&self.away, pages.start, pages.end), "and none of it was away");
        for page in pages {
            let at = page as usize;
            assert!(is_used || self.memory.content[at] == NOBODY && !self.memory.mapped[at]);
            (self.memory.content[at], self.memory.mapped[at], self.memory.touched[at]) =
                (NOBODY, false, false);
        }
        self.zones[1 - from].add_chunk(chunk).expect("it is nobody's");
    }

    fn take_away(&mut self, number: usize, look: Look, surplus: u64, most: Most) {
        let zone = &mut self.zones[number];
        let before = zone.idle_pages();
        let taken = zone.take_away(look, surplus, most);
        let sum: u64 = taken.iter().map(|away| away.idle).sum();
        assert_eq!(zone.idle_pages(), before - sum);
        assert!(sum <= surplus.min(most.pages) && taken.len() <= most.blocks && taken.is_sorted());
        for &away in &taken {
            let end = away.page + (1 << away.order);
            assert!(away.order == 9 || look != Look::Chunks && away.order < 9, "{away:?} by {look:?}");
            assert!(!overlaps(&self.away, away.page, end), "it is away once");
            let used = self.blocks.range(..end).next_back();
            assert!(
                used.is_none_or(|(&page, block)| page + (1 << block.1) <= away.page),
                "{away:?} is in use"
            );
            let touched = (away.page..end).filter(|&page| self.memory.touched[page as usize]).count();
            assert_eq!(away.idle, touched as u64);
            self.away.push((number, away));
        }
    }

    fn put_back(&mut self, which: usize, is_given_back: bool) {
        let (number, away) = self.away.swap_remove(which);
        if is_given_back {
            for page in away.page..away.page + (1 << away.order) {
                let at = page as usize;
                (self.memory.content[at], self.memory.mapped[at], self.memory.touched[at]) =
                    (NOBODY, false, false);
            }
        }
        let (free, given_back) = (self.zones[number].free_pages(), self.zones[number].given_back_pages());
        self.zones[number].put_back(&away, is_given_back);
        let now = given_back + if is_given_back { away.idle } else { 0 };
        assert_eq!((self.zones[number].free_pages(), self.zones[number].given_back_pages()), (free, now));
    }

    /// Idle is what may be there, and is neither in use nor away.
    fn check_idle(&self) {
        let mut idle = [0; 2];
        let mut busy = vec![false; self.memory.touched.len()];
        let used = self.blocks.iter().map(|(&page, block)| (page, block.1));
        for (page, order) in used.chain(self.away.iter().map(|(_, away)| (away.page, away.order))) {
            busy[page as usize..(page + (1 << order)) as usize].fill(true);
        }
        for (page, (&touched, busy)) in (0..).zip(self.memory.touched.iter().zip(busy)) {
            idle[usize::from(!self.zones[0].has(page))] += u64::from(touched && !busy);
        }
        assert_eq!([self.zones[0].idle_pages(), self.zones[1].idle_pages()], idle);
    }

    /// Gives back all that is idle.
    fn give_back_everything(&mut self) {
        while !self.away.is_empty() {
            self.put_back(0, true);
        }
        for number in 0..2 {
            let most = Most { pages: u64::MAX, blocks: usize::MAX };
            // All chunks that are whole, and nothing else.
            self.take_away(number, Look::Chunks, u64::MAX, most);
            while !self.away.is_empty() {
                self.put_back(0, true);
            }
            let idle = self.zones[number].idle_pages();
            self.take_away(number, Look::Chunks, u64::MAX, most);
            assert_eq!((self.away.len(), self.zones[number].idle_pages()), (0, idle));
            self.take_away(number, Look::Everything, idle, most);
            assert_eq!(self.zones[number].idle_pages(), 0, "nothing else is idle");
            while !self.away.is_empty() {
                self.put_back(0, true);
            }
        }
        self.check_idle();
    }

    fn check(&self) {
        for (number, zone) in self.zones.iter().enumerate() {
            let used: u64 =
                self.blocks.values().filter(|block| block.0 == number).map(|block| 1 << block.1).sum();
            assert_eq!(zone.own_pages(), zone.free_pages() + used, "no page is lost in zone {number}");
        }
    }
}

fn overlaps(away: &[(usize, Away)], from: Page, to: Page) -> bool {
    away.iter().any(|(_, away)| away.page < to && from < away.page + (1 << away.order))
}

fn play(steps: Vec<Step>) {
    let mut world = World::new();
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Alloc(want) => drop(world.alloc(number % 2, want)),
            Step::Free(which, beside) => {
                if !world.blocks.is_empty() {
                    let page =
                        *world.blocks.keys().nth(which.index(world.blocks.len())).expect("there are so many");
                    world.free(page + beside);
                }
            }
            Step::FreePage(page) => world.free(page),
            Step::CoolDown => drop(world.zones[number % 2].cool_down()),
            Step::Move(to_first) => world.hand_over(usize::from(to_first)),
            Step::TakeAway(look, surplus, most) => world.take_away(number % 2, look, surplus, most),
            Step::PutBack(which, is_given_back) => {
                if !world.away.is_empty() {
                    world.put_back(which.index(world.away.len()), is_given_back);
                }
            }
        }
        world.check();
        if number % 8 == 0 {
            world.check_idle();
        }
    }
    world.give_back_everything();
    // All of it can be given back, and is one again.
    let blocks: Vec<Page> = world.blocks.keys().copied().collect();
    blocks.into_iter().for_each(|page| world.free(page));
    let mut chunks: Vec<u32> = world
        .zones
        .iter_mut()
        .flat_map(|zone| std::iter::from_fn(|| zone.take_chunk()).collect::<Vec<_>>())
        .map(|taken| taken.0)
        .collect();
    chunks.sort_unstable();
    assert_eq!(chunks, (0..CHUNKS).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

    #[test]
    fn blocks_do_not_overlap_and_nothing_is_lost(steps in prop::collection::vec(step(), 0..if cfg!(miri) { 40 } else { 400 })) {
        play(steps);
    }
}

/// Many steps of one world, in which zones fill up and empty again: a million, or as many as `REGROW_STEPS` says (`make soak`: fifty millions).
#[test]
fn a_million_steps() {
    let steps = std::env::var("REGROW_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000u64);
    let mut world = World::new();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut in_use: Vec<Page> = Vec::new();
    for number in 0..steps {
        let is_filling = number / 20_000 % 2 == 0;
        if next(100) < if is_filling { 60 } else { 40 } {
            let order = u8::try_from(next(12).saturating_sub(next(12))).expect("a small number");
            let owner = u32::try_from(next(3) + 1).expect("a small number");
            let want = Want { order, owner, mapped: next(2) == 0, zeroed: next(8) == 0 };
            in_use.extend(world.alloc(usize::from(next(2) == 0), want));
        } else if !in_use.is_empty() {
            let at = usize::try_from(next(in_use.len() as u64)).expect("it was a length");
            world.free(in_use.swap_remove(at));
        }
        if number % 100 == 0 {
            let look =
                [Look::Chunks, Look::All, Look::Everything][usize::try_from(next(3)).expect("below 3")];
            let most = Most { pages: next(1000) + 1, blocks: 16 };
            world.take_away(usize::from(next(2) == 0), look, next(2000), most);
        }
        if next(20) == 0 && !world.away.is_empty() {
            world.put_back(0, next(5) > 0);
        }
        if number % 1000 == 0 {
            world.hand_over(usize::from(next(2) == 0));
            world.check();
            world.check_idle();
        }
    }
}
