//! Each policy, event by event.

use std::time::Duration;

use regrow_pool::inventory::BodyStatus;
use regrow_pool::policy::{AdaptiveSettings, Frequency, PolicyChoice, PoolSettings};
use regrow_pool::{
    Action, BodyId, Done, Event, Facts, Inventory, KeptId, Planner, ProcessId, ProgramId, RegionPlace,
    Source, Why,
};

const KIB: u64 = 1024;
const SHELL_BYTES: u64 = 8 * KIB;
const A: ProgramId = ProgramId::new(1);
const B: ProgramId = ProgramId::new(2);

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// A program of table 1: text 96, data 20 and stack 64 KiB, tables of 8 KiB.
fn facts() -> Facts {
    Facts {
        image_bytes: 0,
        body_bytes: 8 * KIB,
        regions: vec![96 * KIB, 20 * KIB, 64 * KIB],
        saves: Duration::from_micros(300),
        saves_over_image: Duration::from_micros(200),
    }
}

const BODY_BYTES: u64 = (8 + 96 + 20 + 64) * KIB;

/// A pool and the numbers of its processes.
struct Bench {
    pool: Planner,
    next: u64,
}

impl Bench {
    fn new(policy: PolicyChoice, budget_bytes: u64) -> Bench {
        let mut pool = Planner::new(Inventory::new(budget_bytes, SHELL_BYTES), policy.build());
        for program in [A, B] {
            pool.handle(Duration::ZERO, &Event::Known { program, facts: facts() }).unwrap();
        }
        Bench { pool, next: 0 }
    }

    fn tell(&mut self, at: u64, event: &Event) -> Vec<Action> {
        let done = self.pool.handle(ms(at), event).unwrap();
        self.pool.inventory().audit().unwrap();
        done.into_iter().map(|done: Done| done.action).collect()
    }

    /// Creates a process of a program from what is there.
    fn create(&mut self, at: u64, program: ProgramId) -> (ProcessId, Vec<Action>) {
        self.next += 1;
        let process = ProcessId::new(self.next);
        let inventory = self.pool.inventory();
        let from = match inventory.ready_body(program) {
            Some(body) => Source::Body(body),
            None => Source::Made {
                image: inventory.has_image(program),
                shell: inventory.ready_shell(),
                regions: inventory.ready_regions(&facts().regions),
                body: None,
            },
        };
        let waited = Duration::ZERO;
        let created = Event::Created { process, program, parent: None, site: None, waited, from };
        (process, self.tell(at, &created))
    }

    fn end(&mut self, at: u64, process: ProcessId) -> Vec<Action> {
        self.tell(at, &Event::Exited { process, offer: Some(facts()) })
    }

    /// Reports everything that is in the making or being put back as ready.
    fn ready(&mut self, at: u64) {
        let inventory = self.pool.inventory();
        let waits = |status: BodyStatus| matches!(status, BodyStatus::Adding | BodyStatus::Resetting);
        let bodies =
            inventory.bodies().filter(|(_, body)| waits(body.status)).map(|(id, _)| KeptId::Body(id));
        let shells = inventory.shells().filter(|(_, shell)| !shell.ready).map(|(id, _)| KeptId::Shell(id));
        let regions =
            inventory.regions().filter(|(_, region)| !region.ready).map(|(id, _)| KeptId::Region(id));
        let all: Vec<KeptId> = bodies.chain(shells).chain(regions).collect();
        for kept in all {
            self.tell(at, &Event::Ready(kept));
        }
    }

    fn kept(&self) -> (usize, usize, usize) {
        let inventory = self.pool.inventory();
        let bodies = inventory.bodies().filter(|(_, body)| body.is_kept()).count();
        (bodies, inventory.shells().len(), inventory.regions().len())
    }

    /// One process of each of these programs, one after the other, a millisecond each.
    fn one_by_one(&mut self, from: u64, programs: &[ProgramId]) {
        for (step, &program) in programs.iter().enumerate() {
            let at = from + step as u64;
            let (process, _) = self.create(at, program);
            self.end(at, process);
            self.ready(at);
        }
    }
}

fn recycle_one(at_least: u32) -> PolicyChoice {
    PolicyChoice::RecycleOne(Frequency { window: 10, at_least, review_every: 10 })
}

#[test]
fn none_keeps_nothing() {
    let mut bench = Bench::new(PolicyChoice::None, u64::MAX);
    let (process, _) = bench.create(1, A);
    assert_eq!(bench.end(2, process), [Action::Drop(KeptId::Body(BodyId::new(1)))]);
    assert_eq!((bench.kept(), bench.pool.inventory().kept_bytes()), ((0, 0, 0), 0));
}

#[test]
fn recycle_keeps_a_body_for_each_process_that_there_was_at_a_time() {
    let mut bench = Bench::new("recycle".parse().unwrap(), u64::MAX);
    let processes: Vec<ProcessId> = (0..3).map(|_| bench.create(1, A).0).collect();
    processes.into_iter().for_each(|process| drop(bench.end(2, process)));
    bench.ready(2);
    assert_eq!((bench.kept(), bench.pool.inventory().kept_bytes()), ((3, 0, 0), 3 * BODY_BYTES));
    assert_eq!(bench.pool.why(KeptId::Body(BodyId::new(1))), Some(Why::EveryBody));
    bench.create(3, A);
    assert_eq!(bench.kept(), (2, 0, 0), "one of them is in use");
}

#[test]
fn recycle_one_breaks_the_second_body_up() {
    // Figure 6 of Tabata and Taniguchi: two at a time, of which the first to end is kept as it is.
    let mut bench = Bench::new(recycle_one(1), u64::MAX);
    let (first, _) = bench.create(1, A);
    let (second, _) = bench.create(1, A);
    assert_eq!(bench.end(2, first), [Action::Keep(BodyId::new(1))]);
    assert_eq!(bench.end(2, second), [Action::BreakUp(BodyId::new(2))]);
    assert_eq!(bench.kept(), (1, 1, 3));
    assert_eq!(bench.pool.inventory().kept_bytes(), BODY_BYTES + SHELL_BYTES + (96 + 20 + 64) * KIB);
    assert_eq!(bench.pool.why(KeptId::Body(BodyId::new(1))), Some(Why::RunsOften { runs: 2, of: 2 }));
    // The next process of another program takes the shell and the regions that fit.
    let (other, _) = bench.create(3, B);
    assert_eq!(bench.kept(), (1, 0, 0));
    assert_eq!(bench.end(4, other), [Action::Keep(BodyId::new(7))]);
}

#[test]
fn recycle_one_follows_how_often_a_program_runs() {
    let mut bench = Bench::new(recycle_one(3), u64::MAX);
    bench.one_by_one(1, &[A, A]);
    assert_eq!(bench.kept().0, 0, "two of the last ten are not often");
    bench.one_by_one(3, &[A]);
    assert_eq!(bench.kept().0, 1);
    // Ten of another program bring a review: A has become seldom.
    bench.one_by_one(4, &[B; 17]);
    let inventory = bench.pool.inventory();
    assert_eq!((inventory.kept_of(A), inventory.kept_of(B)), (0, 1));
}

fn pool(settings: PoolSettings) -> PolicyChoice {
    PolicyChoice::Pool(PoolSettings { follows_percent: 101, again: u32::MAX, ..settings })
}

#[test]
fn pool_gives_back_by_t1_and_t2_and_never_a_shell() {
    let settings = PoolSettings { t1: ms(30), t2: ms(20), h1: 0, h2: 0, ..PoolSettings::default() };
    let mut bench = Bench::new(pool(settings), u64::MAX);
    bench.one_by_one(1, &[A]);
    assert_eq!(bench.pool.next_tick(), Some(ms(20)));
    assert_eq!(bench.tell(20, &Event::Tick), [], "used since the last time");
    assert_eq!(bench.pool.next_tick(), Some(ms(40)));
    // The compound rule: the shell and the regions up to 64 KiB stay; the large one waits for T1, which is due too.
    let actions = bench.tell(40, &Event::Tick);
    assert!(matches!(actions[..], [Action::BreakUp(_), Action::Drop(KeptId::Region(_))]), "{actions:?}");
    assert_eq!(bench.kept(), (0, 1, 2));
    let bytes: Vec<u64> = bench.pool.inventory().regions().map(|(_, region)| region.bytes).collect();
    assert_eq!(bytes, [20 * KIB, 64 * KIB]);
    assert_eq!(bench.pool.next_tick(), None, "what is left is never given back");
    assert_eq!(bench.tell(10_000, &Event::Tick), []);
    assert_eq!(bench.kept(), (0, 1, 2));
}

#[test]
fn pool_fills_up_to_h1_and_h2() {
    let settings = PoolSettings { h1: 2, h2: 3, t1: ms(0), t2: ms(0), ..PoolSettings::default() };
    let mut bench = Bench::new(pool(settings), u64::MAX);
    assert_eq!(bench.kept(), (0, 2, 0), "no size was asked for yet");
    bench.ready(1);
    let (_, actions) = bench.create(1, A);
    let small = [
        Action::Prefault { place: RegionPlace::Pool, bytes: 64 * KIB },
        Action::Prefault { place: RegionPlace::Pool, bytes: 20 * KIB },
    ];
    assert_eq!(actions[0], Action::AddShell, "the process took one");
    assert_eq!(actions.len(), 4);
    assert!(small.iter().all(|action| actions.contains(action)), "{actions:?}");
    let all_small = bench.pool.inventory().regions().all(|(_, region)| region.bytes <= 64 * KIB);
    assert!(all_small && bench.kept() == (0, 2, 3));
    let shell = bench.pool.inventory().shells().next().map(|(id, _)| id).unwrap();
    assert_eq!(bench.pool.why(KeptId::Shell(shell)), Some(Why::Minimum { least: 2 }));
}

#[test]
fn pool_adds_bodies_of_named_programs_and_of_those_that_come_next() {
    let settings = PoolSettings {
        named: vec![A],
        h1: 0,
        h2: 0,
        t1: ms(0),
        t2: ms(50),
        follows_percent: 50,
        again: u32::MAX,
        ..PoolSettings::default()
    };
    let mut bench = Bench::new(PolicyChoice::Pool(settings), u64::MAX);
    assert_eq!(bench.pool.inventory().kept_of(A), 1);
    let (named, _) = bench.pool.inventory().bodies_of(A).next().unwrap();
    assert_eq!(bench.pool.why(KeptId::Body(named)), Some(Why::Named));
    bench.ready(1);
    let pages = bench.pool.inventory().body(named).map(|body| body.regions.len());
    assert_eq!(pages, Some(3), "its pages are mapped before it is asked for");
    assert_eq!(bench.tell(100, &Event::Tick), [], "it waits for its first process");
    bench.one_by_one(110, &[A, B, A, B, A, B]);
    // B was not used for two intervals, A is used: B comes next.
    bench.tell(160, &Event::Tick);
    bench.tell(215, &Event::Tick);
    assert_eq!(bench.pool.inventory().kept_of(B), 0);
    let (_, actions) = bench.create(216, A);
    assert_eq!(actions, [Action::AddBody(B)]);
}

#[test]
fn pool_keeps_as_many_bodies_as_were_needed_at_once() {
    let settings = PoolSettings {
        h1: 0,
        h2: 0,
        t1: ms(0),
        t2: ms(50),
        follows_percent: 101,
        again: 2,
        ..PoolSettings::default()
    };
    let mut bench = Bench::new(PolicyChoice::Pool(settings), u64::MAX);
    // The first two have no image to be made from, and say nothing of how many bodies are needed.
    let four: Vec<ProcessId> = (0..4).map(|_| bench.create(1, A).0).collect();
    four.into_iter().for_each(|process| drop(bench.end(2, process)));
    bench.ready(3);
    assert_eq!(bench.pool.inventory().kept_of(A), 3, "a third and a fourth had found none ready");
    bench.tell(55, &Event::Tick);
    bench.tell(110, &Event::Tick);
    assert_eq!(bench.pool.inventory().kept_of(A), 0, "none was used in an interval");
    bench.one_by_one(111, &[A, A]);
    assert_eq!(bench.pool.inventory().kept_of(A), 1, "one at a time needs no second");
}

#[test]
fn every_policy_gives_everything_back_under_pressure_and_keeps_to_a_lower_budget() {
    for name in PolicyChoice::NAMES {
        let mut bench = Bench::new(name.parse().unwrap(), 4 * BODY_BYTES);
        let processes: Vec<ProcessId> =
            [A, B, A, B, A, B].map(|program| bench.create(1, program).0).into_iter().collect();
        let (in_use, ended) = processes.split_at(2);
        ended.iter().for_each(|&process| drop(bench.end(2, process)));
        bench.ready(3);
        let kept = bench.pool.inventory().kept_bytes();
        assert!(kept <= 4 * BODY_BYTES && (kept > 0 || name == "none"), "{name}: {kept}");
        bench.tell(4, &Event::Budget { bytes: BODY_BYTES });
        assert!(bench.pool.inventory().kept_bytes() <= BODY_BYTES, "{name}");
        bench.tell(5, &Event::Pressure);
        assert_eq!(bench.pool.inventory().kept_bytes(), 0, "{name}");
        in_use.iter().for_each(|&process| drop(bench.end(6, process)));
    }
}

fn adaptive(settings: AdaptiveSettings) -> PolicyChoice {
    PolicyChoice::AdaptiveWith(settings)
}

#[test]
fn adaptive_keeps_as_many_bodies_as_are_needed_at_a_time() {
    let settings = AdaptiveSettings {
        shell_saves: Duration::ZERO,
        least: ms(1000),
        ample_least: ms(1000),
        ..AdaptiveSettings::default()
    };
    let mut bench = Bench::new(adaptive(settings), u64::MAX);
    for round in 0..20 {
        let processes: Vec<ProcessId> = (0..3).map(|_| bench.create(round * 10, A).0).collect();
        processes.into_iter().for_each(|process| drop(bench.end(round * 10 + 1, process)));
        bench.ready(round * 10 + 1);
    }
    assert_eq!(bench.pool.inventory().kept_of(A), 3);
    let used_last = bench.pool.inventory().ready_body(A).unwrap();
    match bench.pool.why(KeptId::Body(used_last)) {
        Some(Why::Gap { at_a_time: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
    // Gaps of 10 ms, and no need for much longer than a second: the last of it goes.
    while let Some(tick) = bench.pool.next_tick() {
        bench.tell(u64::try_from(tick.as_millis()).unwrap() + 1, &Event::Tick);
    }
    assert_eq!(bench.kept(), (0, 0, 0));
    assert!(bench.pool.inventory().at() < ms(3000), "{:?}", bench.pool.inventory().at());
}

#[test]
fn adaptive_adds_what_comes_next() {
    let settings = AdaptiveSettings { least: ms(1), ..AdaptiveSettings::default() };
    let mut bench = Bench::new(adaptive(settings), u64::MAX);
    bench.one_by_one(0, &[A, B, A, B, A, B, A, B, A, B]);
    // B's body is lost; A comes, so that B is made again before it is asked for.
    let (lost, _) = bench.pool.inventory().bodies_of(B).next().unwrap();
    bench.tell(10, &Event::Lost(KeptId::Body(lost)));
    let kept_bytes = bench.pool.inventory().kept_bytes();
    let (_, actions) = bench.create(11, A);
    assert!(actions.contains(&Action::AddBody(B)), "{actions:?}");
    assert!(bench.pool.inventory().kept_bytes() < kept_bytes, "A's body is in use, B's has no pages yet");
}

#[test]
fn adaptive_keeps_what_saves_more_for_its_bytes() {
    // Room for two bodies and not for three; A runs every 2 ms, B every 20, a third program once.
    let settings = AdaptiveSettings { shell_saves: Duration::ZERO, ..AdaptiveSettings::default() };
    let mut bench = Bench::new(adaptive(settings), 2 * BODY_BYTES + KIB);
    for round in 0..20 {
        bench.one_by_one(round * 20, &[A, B]);
        for step in 1..10 {
            bench.one_by_one(round * 20 + step * 2, &[A]);
        }
    }
    let inventory = bench.pool.inventory();
    assert_eq!((inventory.kept_of(A), inventory.kept_of(B)), (1, 1));
    let third = ProgramId::new(3);
    bench.tell(400, &Event::Known { program: third, facts: facts() });
    bench.one_by_one(400, &[third]);
    bench.one_by_one(401, &[A]);
    let inventory = bench.pool.inventory();
    assert_eq!(inventory.kept_of(A), 1, "the one that is used most stays");
    assert!(inventory.kept_bytes() <= 2 * BODY_BYTES + KIB);
    bench.tell(402, &Event::Budget { bytes: BODY_BYTES });
    let inventory = bench.pool.inventory();
    assert!(inventory.kept_of(A) == 1 && inventory.kept_bytes() <= BODY_BYTES, "{:?}", bench.kept());
}

#[test]
fn adaptive_keeps_nothing_for_a_while_after_pressure() {
    let mut bench = Bench::new(PolicyChoice::Adaptive, u64::MAX);
    bench.one_by_one(0, &[A, A, A]);
    bench.tell(3, &Event::Pressure);
    bench.one_by_one(4, &[A, A]);
    assert_eq!(bench.kept(), (0, 0, 0));
    assert_eq!(bench.pool.next_tick(), Some(ms(2003)));
    bench.one_by_one(2004, &[A]);
    assert_eq!(bench.kept().0, 1);
}

#[test]
fn adaptive_gives_a_program_that_comes_every_ten_minutes_back_in_between() {
    const TEN: u64 = 600_000;
    let mut bench = Bench::new(PolicyChoice::Adaptive, u64::MAX);
    (0..12).for_each(|round| bench.one_by_one(round * TEN, &[A]));
    let last = 11 * TEN;
    bench.tell(last + 5000, &Event::Tick);
    assert_eq!(bench.pool.inventory().kept_of(A), 0);
    let tick = bench.pool.next_tick().unwrap();
    assert!(tick > ms(last + TEN / 2) && tick < ms(last + TEN), "{tick:?}");
    let at = u64::try_from(tick.as_millis()).unwrap() + 1;
    assert_eq!(bench.tell(at, &Event::Tick), [Action::AddBody(A)], "before it is asked for");
    let learned = bench.pool.learned().unwrap();
    assert_eq!((learned.t2.len(), learned.t2[0].0, learned.t2[0].3), (1, A, 1));
}

#[test]
fn reasons_are_told_in_words() {
    let why = Why::Gap {
        unused: ms(20),
        keep_alive: ms(1500),
        at_a_time: 2,
        saves_us_per_mib_hour: 12,
        from: regrow_pool::learn::Basis::Own,
    };
    assert_eq!(
        why.to_string(),
        "2 at a time needed 20.0ms ago, kept for 1.5s (from its gaps); saves 12.0µs per MiB and hour"
    );
    let follows = Why::Follows { cue: regrow_pool::learn::Cue::Program(A), percent: 75 };
    assert_eq!(follows.to_string(), "comes after program 1 in 75 of 100 cases");
    assert!("lru".parse::<PolicyChoice>().unwrap_err().to_string().contains("recycle-one"));
}
