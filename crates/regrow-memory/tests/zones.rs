//! Zones against a model: blocks do not overlap, nothing is lost, and no client sees what another one has written.

use std::collections::BTreeMap;

use proptest::prelude::*;
use regrow_memory::ZoneError;
use regrow_memory::request::{NOBODY, Owner, Want};
use regrow_memory::units::{CHUNK_PAGES, Page};
use regrow_memory::zone::Zone;

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
}

fn step() -> impl Strategy<Value = Step> {
    let want = (0u8..12, 1u32..4, any::<bool>(), any::<bool>())
        .prop_map(|(order, owner, mapped, zeroed)| Want { order, owner, mapped, zeroed });
    let small = (0u8..3, 1u32..4, any::<bool>(), any::<bool>())
        .prop_map(|(order, owner, mapped, zeroed)| Want { order, owner, mapped, zeroed });
    prop_oneof![
        6 => small.prop_map(Step::Alloc),
        2 => want.prop_map(Step::Alloc),
        8 => (any::<prop::sample::Index>(), prop_oneof![9 => Just(0u32), 1 => 1u32..64]).prop_map(|(which, beside)| Step::Free(which, beside)),
        1 => prop_oneof![0..CHUNKS * CHUNK_PAGES + 10, Just(u32::MAX)].prop_map(Step::FreePage),
        1 => Just(Step::CoolDown),
        1 => any::<bool>().prop_map(Step::Move),
    ]
}

/// What the memory holds and whether it is mapped, as whoever holds the range would have it.
struct Memory {
    /// Who has written to each page last.
    content: Vec<Owner>,
    mapped: Vec<bool>,
}

struct World {
    zones: [Zone; 2],
    memory: Memory,
    /// First pages of the blocks in use: zone, order, client.
    blocks: BTreeMap<Page, (usize, u8, Owner)>,
}

impl World {
    fn new() -> World {
        let mut zones = [Zone::default(), Zone::default()];
        for chunk in 0..CHUNKS {
            zones[usize::from(chunk >= CHUNKS / 2)].add_chunk(chunk).expect("a new chunk");
        }
        let pages = (CHUNKS * CHUNK_PAGES) as usize;
        let memory = Memory { content: vec![NOBODY; pages], mapped: vec![false; pages] };
        World { zones, memory, blocks: BTreeMap::new() }
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
                for page in grant.page..end {
                    assert!(zone.has(page));
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
                // What is hot was joined: there is no block of this order.
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
        for page in pages {
            let at = page as usize;
            assert!(is_used || self.memory.content[at] == NOBODY && !self.memory.mapped[at]);
            (self.memory.content[at], self.memory.mapped[at]) = (NOBODY, false);
        }
        self.zones[1 - from].add_chunk(chunk).expect("it is nobody's");
    }

    fn check(&self) {
        for (number, zone) in self.zones.iter().enumerate() {
            let used: u64 =
                self.blocks.values().filter(|block| block.0 == number).map(|block| 1 << block.1).sum();
            assert_eq!(zone.own_pages(), zone.free_pages() + used, "no page is lost in zone {number}");
        }
    }
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
        }
        world.check();
    }
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
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn blocks_do_not_overlap_and_nothing_is_lost(steps in prop::collection::vec(step(), 0..400)) {
        play(steps);
    }
}

/// Many steps of one world, in which zones fill up and empty again.
#[test]
fn a_million_steps() {
    let mut world = World::new();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut in_use: Vec<Page> = Vec::new();
    for number in 0u64..1_000_000 {
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
        if number % 1000 == 0 {
            world.hand_over(usize::from(next(2) == 0));
            world.check();
        }
    }
}
