//! What a profile makes of events: told in order or not, twice, not at all, and far too many.

use super::*;
use regrow_sites::Frame;

const MAKE: ImageId = ImageId(1);
const GCC: ImageId = ImageId(2);
const CC1: ImageId = ImageId(3);

fn key(pid: u32, created_us: u64) -> ProcessKey {
    ProcessKey { pid, created_us }
}

fn site(image: ImageId, offset: u64) -> Site {
    Site { image, frames: [Some(Frame { module: image, offset }), None, None], script: None, child: None }
}

fn created(process: ProcessKey, parent: ProcessKey, site: Site) -> Event {
    Event::Created { time_us: process.created_us, process, parent, site }
}

fn executed(process: ProcessKey, time_us: u64, image: ImageId) -> Event {
    Event::Executed { time_us, process, image }
}

fn ended(process: ProcessKey, time_us: u64, cpu_us: u64) -> Event {
    let usage =
        Usage { cpu_us, life_us: time_us - process.created_us, peak_kib: 100, startup_us: Some(cpu_us / 2) };
    Event::Ended { time_us, process, usage }
}

/// A command, three processes of a site of it, and one that one of them creates.
fn events() -> Vec<Event> {
    let make = key(10, 5);
    let mut events = vec![executed(make, 10, MAKE)];
    for number in 0..3 {
        let gcc = key(20 + number, 100 + u64::from(number));
        events.push(created(gcc, make, site(MAKE, 0x40)));
        events.push(executed(gcc, 200, GCC));
        if number == 2 {
            let cc1 = key(30, 300);
            events.extend([
                created(cc1, gcc, site(GCC, 0x80)),
                executed(cc1, 310, CC1),
                ended(cc1, 900, 500),
            ]);
        }
        events.push(ended(gcc, 1000, 40));
    }
    events.push(ended(make, 2000, 7));
    events
}

fn profile(events: impl IntoIterator<Item = Event>) -> Profile {
    let mut profile = Profile::new();
    events.into_iter().for_each(|event| profile.take(event));
    profile.finish();
    profile
}

/// All that a profile says, in a form that can be compared.
fn told(profile: &Profile) -> Vec<String> {
    let mut rows: Vec<String> = profile
        .sites()
        .map(|(_, key, totals)| {
            let Totals { count, alive, starts, children, cpu, life, startup, peak_kib, .. } = totals;
            let sums = (cpu.sum_us(), life.sum_us(), startup.sum_us(), startup.count());
            format!(
                "{:?} {:?} {count} {alive} {starts} {children} {sums:?} {peak_kib}",
                key.site.image, key.programs
            )
        })
        .collect();
    rows.sort();
    rows
}

fn depth(profile: &Profile, mut node: NodeId) -> usize {
    let mut depth = 0;
    while node != NodeId::ORIGIN {
        node = profile.nodes()[node.index()].parent;
        depth += 1;
    }
    depth
}

#[test]
fn processes_are_counted_at_their_sites_and_in_the_tree() {
    let profile = profile(events());
    let rows: Vec<(SiteKey, Totals)> =
        profile.sites().map(|(_, key, totals)| (*key, totals.clone())).collect();
    assert_eq!(rows.len(), 2);
    let (key, gcc) = &rows[0];
    assert_eq!((key.site, key.programs.first, key.programs.last), (site(MAKE, 0x40), Some(GCC), None));
    assert_eq!((gcc.count, gcc.alive, gcc.starts, gcc.children), (3, 0, 3, 1));
    assert_eq!((gcc.cpu.sum_us(), gcc.life.sum_us(), gcc.startup.sum_us()), (120, 900 + 899 + 898, 60));
    assert!((gcc.startup_share().unwrap() - 60.0 / 2697.0).abs() < 1e-9);
    assert!((gcc.life.quantile_us(0.5).unwrap() / 899.0 - 1.0).abs() < 0.011);
    let (key, cc1) = &rows[1];
    assert_eq!((key.programs.first, cc1.count, cc1.cpu.sum_us()), (Some(CC1), 1, 500));
    let counted: Vec<(u64, u64, usize)> = (profile.nodes().iter().enumerate())
        .filter(|(_, node)| node.totals.count > 0)
        .map(|(index, node)| {
            (node.totals.count, node.totals.cpu_us, depth(&profile, node.parent) + usize::from(index > 0))
        })
        .collect();
    assert_eq!(counted, [(1, 7, 1), (3, 120, 2), (1, 500, 3)]);
    assert_eq!(
        *profile.counts(),
        Counts { created: 4, found: 1, executed: 5, ended: 5, ..Counts::default() }
    );
    assert_eq!(profile.span_us(), 1990);
}

#[test]
fn the_order_in_which_it_is_told_changes_nothing() {
    let expected = told(&profile(events()));
    let mut seed = 1_u64;
    for _ in 0..200 {
        let mut turned: Vec<(u64, Event)> = Vec::new();
        for event in events() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            turned.push((seed >> 33, event));
        }
        turned.sort_by_key(|(place, _)| *place);
        let turned: Vec<Event> = turned.into_iter().map(|(_, event)| event).collect();
        assert_eq!(told(&profile(turned.clone())), expected, "{turned:?}");
    }
    assert_eq!(told(&profile(events().into_iter().rev())), expected);
}

#[test]
fn what_is_told_twice_counts_once() {
    let profile = profile(events().into_iter().flat_map(|event| [event.clone(), event]));
    assert_eq!(told(&profile), told(&self::profile(events())));
    let Counts { repeated, unknown_ends, .. } = *profile.counts();
    assert_eq!((repeated, unknown_ends), (4 + 5, 5));
}

#[test]
fn what_is_not_told_is_missing_and_nothing_else() {
    for left_out in 0..events().len() {
        let mut events = events();
        events.remove(left_out);
        let profile = profile(events);
        let count: u64 = profile.sites().map(|(_, _, totals)| totals.count).sum();
        let in_tree: u64 = profile.nodes().iter().map(|node| node.totals.count).sum();
        let Counts { created, found, .. } = *profile.counts();
        assert_eq!((count, in_tree), (created, created + found), "without event {left_out}");
    }
}

#[test]
fn a_process_that_is_told_of_before_its_creation_moves_to_its_site() {
    let (make, gcc) = (key(10, 5), key(20, 100));
    let mut profile = Profile::new();
    profile.take(executed(make, 10, MAKE));
    profile.take(executed(gcc, 200, GCC));
    // Much later than what is held.
    profile.pass(10_000_000);
    assert_eq!(profile.counts().found, 2);
    profile.take(created(gcc, make, site(MAKE, 0x40)));
    profile.take(ended(gcc, 1000, 40));
    profile.finish();
    let rows: Vec<_> =
        profile.sites().map(|(_, key, totals)| (key.programs.first, totals.count, totals.starts)).collect();
    assert_eq!(rows, [(Some(GCC), 1, 1)]);
    assert_eq!((profile.counts().found, profile.counts().created), (1, 1));
}

#[test]
fn programs_one_after_the_other_are_one_process() {
    let (make, child) = (key(10, 5), key(20, 100));
    let exec = |time_us, image| executed(child, time_us, image);
    let profile = profile([
        executed(make, 10, MAKE),
        created(child, make, site(MAKE, 1)),
        exec(110, GCC),
        exec(120, CC1),
        exec(130, GCC),
        exec(140, CC1),
        ended(child, 500, 9),
    ]);
    let rows: Vec<_> =
        profile.sites().map(|(_, key, totals)| (key.programs, totals.count, totals.starts)).collect();
    let programs = Programs { first: Some(GCC), last: Some(CC1), has_others: true };
    assert_eq!(rows, [(programs, 1, 4)]);
}

#[test]
fn a_number_that_is_used_again_ends_the_process_before() {
    let make = key(10, 5);
    let profile = profile([
        executed(make, 10, MAKE),
        created(key(20, 100), make, site(MAKE, 1)),
        created(key(20, 500_000), make, site(MAKE, 1)),
        ended(key(20, 500_000), 600_000, 9),
    ]);
    let rows: Vec<_> =
        profile.sites().map(|(_, _, totals)| (totals.count, totals.alive, totals.cpu.sum_us())).collect();
    assert_eq!(rows, [(2, 0, 9)]);
    assert_eq!((profile.counts().lost_ends, profile.alive()), (1, 1));
}

#[test]
fn nothing_overflows_and_times_need_not_make_sense() {
    let most = Usage { cpu_us: u64::MAX, life_us: u64::MAX, peak_kib: u64::MAX, startup_us: Some(u64::MAX) };
    let mut events = Vec::new();
    for pid in 0..3 {
        let process = key(pid, u64::MAX - u64::from(pid));
        events.push(Event::Created { time_us: 0, process, parent: process, site: site(MAKE, u64::MAX) });
        events.push(Event::Executed { time_us: u64::MAX, process, image: ImageId::UNKNOWN });
        events.push(Event::Ended { time_us: 1, process, usage: most });
    }
    let profile = profile(events);
    let totals: Vec<&Totals> = profile.sites().map(|(_, _, totals)| totals).collect();
    assert!(
        totals.iter().all(|totals| totals.startup_share().is_none_or(|share| (0.0..=1.0).contains(&share)))
    );
    assert_eq!(profile.span_us(), u64::MAX);
}

/// More than there is room for.
const MANY: u32 = 600_000;

#[test]
fn a_fork_bomb_from_very_many_places_has_bounded_memory() {
    let make = key(1, 0);
    let mut profile = Profile::new();
    profile.take(executed(make, 1, MAKE));
    let mut parent = make;
    for number in 0..MANY {
        let time_us = 10 + u64::from(number);
        let process = key(2 + number % 300_000, time_us);
        profile.take(created(process, parent, site(MAKE, u64::from(number))));
        if number % 3 == 0 {
            profile.take(executed(process, time_us + 1, ImageId(u64::from(number) + 5)));
            profile
                .take(Event::Named { image: ImageId(u64::from(number) + 5), path: format!("/bin/{number}") });
        }
        parent = if number % 2 == 0 { process } else { make };
    }
    profile.finish();
    assert!(profile.sites().count() <= MOST_SITES);
    assert!(profile.nodes().len() <= MOST_NODES);
    assert!(profile.alive() <= MOST_ALIVE && profile.images.len() <= MOST_NAMES);
    let count: u64 = profile.sites().map(|(_, _, totals)| totals.count).sum();
    let Counts { created, found, left_out, .. } = *profile.counts();
    assert_eq!(created, u64::from(MANY));
    assert_eq!(count + left_out, created, "{left_out}");
    let further =
        profile.sites().find(|(_, key, _)| **key == SiteKey::FURTHER).map(|(_, _, totals)| totals.count);
    assert!(further.is_some_and(|further| further > 400_000), "{further:?}");
    let in_tree: u64 = profile.nodes().iter().map(|node| node.totals.count).sum();
    assert_eq!(in_tree + left_out, created + found);
}

#[test]
fn quantiles_are_values_and_near_ones_of_many() {
    let totals = |lives: &[u64]| {
        let mut totals = Totals::default();
        for &life_us in lives {
            totals.enter(1);
            totals.end(&Usage { life_us, ..Usage::default() });
        }
        totals
    };
    let few = totals(&[1000, 10, 20]);
    let of_few = [0.0, 0.5, 0.99, 1.0].map(|share| few.life.quantile_us(share));
    assert_eq!(of_few, [Some(10.0), Some(20.0), Some(1000.0), Some(1000.0)]);
    assert_eq!(few.cpu.quantile_us(0.5), Some(0.0));
    assert_eq!(Totals::default().life.quantile_us(0.5), None);
    let lives: Vec<u64> = (1..=10_000).map(|number| number * number).collect();
    let many = totals(&lives);
    for (share, rank) in [(0.0, 0), (0.01, 99), (0.5, 4999), (0.99, 9899), (0.999, 9989), (1.0, 9999)] {
        let (value, expected) = (many.life.quantile_us(share).unwrap(), lives[rank] as f64);
        assert!((value / expected - 1.0).abs() < 0.011, "{share}: {value} is not {expected}");
    }
}
