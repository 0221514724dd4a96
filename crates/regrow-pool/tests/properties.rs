//! Whatever happens, in whatever order: no policy asks for an impossible action, none exceeds its budget, none touches what
//! is in use, and the same events give the same actions.

use std::time::Duration;

use proptest::prelude::*;
use regrow_pool::inventory::BodyStatus;
use regrow_pool::policy::{AdaptiveSettings, Frequency, PolicyChoice, PoolSettings};
use regrow_pool::{
    Action, BodyId, Done, Event, Facts, Inventory, KeptId, Planner, ProcessId, ProgramId, RegionId,
    RegionPlace, ShellId, Source,
};

const KIB: u64 = 1024;
const PROGRAMS: u32 = 6;

/// Something that happens. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    Create { program: u32, waited: bool },
    End { which: usize, offered: bool },
    Ready { which: usize },
    Lose { which: usize },
    Wait { us: u64 },
    Pressure,
    Budget { bytes: u64 },
    Learn { program: u32, kib: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..PROGRAMS, any::<bool>()).prop_map(|(program, waited)| Step::Create { program, waited }),
        8 => (any::<usize>(), prop::bool::weighted(0.9)).prop_map(|(which, offered)| Step::End { which, offered }),
        8 => any::<usize>().prop_map(|which| Step::Ready { which }),
        1 => any::<usize>().prop_map(|which| Step::Lose { which }),
        4 => prop_oneof![1..1000_u64, 1..100_000_000_u64].prop_map(|us| Step::Wait { us }),
        1 => Just(Step::Pressure),
        1 => (0..3000 * KIB).prop_map(|bytes| Step::Budget { bytes }),
        1 => (0..PROGRAMS, 0..300_u64).prop_map(|(program, kib)| Step::Learn { program, kib }),
    ]
}

fn choice() -> impl Strategy<Value = PolicyChoice> {
    let frequency = (1..20_usize, 0..4_u32, 1..10_u32)
        .prop_map(|(window, at_least, review_every)| Frequency { window, at_least, review_every });
    let times =
        (0..40_u64, 0..40_u64).prop_map(|(t1, t2)| (Duration::from_millis(t1), Duration::from_millis(t2)));
    let pool = (times, 0..4_usize, 0..6_usize, frequency.clone(), 0..102_u8).prop_map(
        |((t1, t2), h1, h2, frequency, follows_percent)| PoolSettings {
            t1,
            t2,
            h1,
            h2,
            frequency,
            named: vec![ProgramId::new(1), ProgramId::new(4)],
            follows_percent,
            again: u32::from(follows_percent) / 10,
            ..PoolSettings::default()
        },
    );
    let adaptive = (0..100_u64, 0..1000_u64, 0..100_u8, 1..5000_u64, 0..101_u8).prop_map(
        |(shell_us, region_saves_ns_per_kib, follows_percent, rest_ms, tight_percent)| AdaptiveSettings {
            shell_saves: Duration::from_micros(shell_us),
            region_saves_ns_per_kib,
            fault_ns_per_kib: region_saves_ns_per_kib / 2,
            follows_percent,
            rest: Duration::from_millis(rest_ms),
            least: Duration::from_millis(rest_ms / 7),
            ample_least: Duration::from_millis(rest_ms / 3),
            pause: Duration::from_millis(rest_ms),
            tight_percent,
            resets_beside: usize::from(tight_percent % 4),
        },
    );
    prop_oneof![
        Just(PolicyChoice::None),
        frequency.clone().prop_map(PolicyChoice::Recycle),
        frequency.prop_map(PolicyChoice::RecycleOne),
        pool.prop_map(PolicyChoice::Pool),
        adaptive.prop_map(PolicyChoice::AdaptiveWith),
    ]
}

fn facts(program: u32, kib: u64) -> Facts {
    let size = u64::from(program) * 20 + kib;
    Facts {
        image_bytes: size * KIB,
        body_bytes: 16 * KIB,
        regions: vec![(size / 16 * 16 + 8) * KIB, 64 * KIB],
        saves: Duration::from_micros(300 + size),
        saves_over_image: Duration::from_micros(200),
    }
}

/// Runs steps through a pool, and checks the promises after each turn.
struct Driver {
    pool: Planner,
    at: Duration,
    processes: u64,
    done: Vec<Done>,
}

impl Driver {
    fn new(choice: PolicyChoice, budget_bytes: u64, regions: bool) -> Driver {
        let inventory = Inventory::new(budget_bytes, 8 * KIB);
        let inventory = if regions { inventory } else { inventory.without_regions() };
        let pool = Planner::new(inventory, choice.build());
        let mut driver = Driver { pool, at: Duration::ZERO, processes: 0, done: Vec::new() };
        // The pool learns of one program later.
        for program in 0..PROGRAMS - 1 {
            driver.tell(&Event::Known {
                program: ProgramId::new(u64::from(program)),
                facts: facts(program, 0),
            });
        }
        driver
    }

    fn tell(&mut self, event: &Event) {
        let in_use = |inventory: &Inventory| -> Vec<(BodyId, BodyStatus)> {
            let used = inventory.bodies().filter(|(_, body)| matches!(body.status, BodyStatus::InUse(_)));
            used.map(|(id, body)| (id, body.status)).collect()
        };
        let before = in_use(self.pool.inventory());
        let done = self.pool.handle(self.at, event).unwrap_or_else(|error| panic!("{event:?}: {error}"));
        let inventory = self.pool.inventory();
        inventory.audit().unwrap();
        assert!(inventory.kept_bytes() <= inventory.budget_bytes(), "{event:?}");
        assert!(inventory.bodies().all(|(_, body)| body.status != BodyStatus::Left), "{event:?}");
        let after = in_use(inventory);
        let gone = before.iter().filter(|used| !after.contains(used)).count();
        let may_go = usize::from(matches!(event, Event::Exited { .. } | Event::Lost(_)));
        assert!(gone <= may_go, "{event:?} took away what was in use");
        for (kept, _) in all_kept(inventory) {
            assert!(self.pool.why(kept).is_some(), "{kept} has no reason");
        }
        if *event == Event::Pressure {
            assert_eq!(inventory.kept_bytes(), 0);
        }
        self.done.extend(done);
    }

    fn step(&mut self, step: &Step) {
        let inventory = self.pool.inventory();
        match step {
            Step::Create { program, waited } => {
                let program = ProgramId::new(u64::from(*program));
                if let Some(facts) = inventory.facts(program) {
                    let from = match inventory.ready_body(program) {
                        Some(body) => Source::Body(body),
                        None => Source::Made {
                            image: inventory.has_image(program),
                            shell: inventory.ready_shell(),
                            regions: inventory.ready_regions(&facts.regions),
                            body: None,
                        },
                    };
                    let parent = inventory.processes().next().map(|(id, _)| id);
                    self.processes += 1;
                    let (process, site) = (ProcessId::new(self.processes), waited.then_some(7));
                    let waited = Duration::from_micros(u64::from(*waited));
                    self.tell(&Event::Created { process, program, parent, site, waited, from });
                }
            }
            Step::End { which, offered } => {
                let processes: Vec<_> =
                    inventory.processes().map(|(id, process)| (id, process.program)).collect();
                if let Some(&(process, program)) = pick(&processes, *which) {
                    let offer = offered.then(|| inventory.facts(program).cloned().unwrap());
                    self.tell(&Event::Exited { process, offer });
                }
            }
            Step::Ready { which } => {
                let waiting: Vec<KeptId> = all_kept(inventory)
                    .into_iter()
                    .filter(|(_, ready)| !ready)
                    .map(|(kept, _)| kept)
                    .collect();
                if let Some(&kept) = pick(&waiting, *which) {
                    self.tell(&Event::Ready(kept));
                }
            }
            Step::Lose { which } => {
                let mut all: Vec<KeptId> = all_kept(inventory).into_iter().map(|(kept, _)| kept).collect();
                all.extend(inventory.bodies().map(|(id, _)| KeptId::Body(id)));
                if let Some(&kept) = pick(&all, *which) {
                    self.tell(&Event::Lost(kept));
                }
            }
            Step::Wait { us } => self.wait(Duration::from_micros(*us)),
            Step::Pressure => self.tell(&Event::Pressure),
            Step::Budget { bytes } => self.tell(&Event::Budget { bytes: *bytes }),
            Step::Learn { program, kib } => {
                self.tell(&Event::Known {
                    program: ProgramId::new(u64::from(*program)),
                    facts: facts(*program, *kib),
                });
            }
        }
    }

    /// Lets time pass, with the ticks that are wanted.
    fn wait(&mut self, time: Duration) {
        let until = self.at + time;
        for _ in 0..200 {
            let Some(tick) = self.pool.next_tick().filter(|&tick| tick <= until) else { break };
            self.at = tick.max(self.at + Duration::from_micros(1));
            self.tell(&Event::Tick);
        }
        self.at = self.at.max(until);
        self.tell(&Event::Tick);
    }
}

fn pick<T>(from: &[T], which: usize) -> Option<&T> {
    from.get(which.checked_rem(from.len())?)
}

/// All that is kept, and whether it is ready.
fn all_kept(inventory: &Inventory) -> Vec<(KeptId, bool)> {
    let bodies = inventory.bodies().filter(|(_, body)| body.is_kept());
    let bodies = bodies.map(|(id, body)| (KeptId::Body(id), body.status == BodyStatus::Idle));
    let shells = inventory.shells().map(|(id, shell)| (KeptId::Shell(id), shell.ready));
    let regions = inventory.regions().map(|(id, region)| (KeptId::Region(id), region.ready));
    bodies.chain(shells).chain(regions).collect()
}

/// Any action on anything, there or not.
fn action() -> impl Strategy<Value = Action> {
    let kept = (0..3, 0..40_u64).prop_map(|(kind, id)| match kind {
        0 => KeptId::Body(BodyId::new(id)),
        1 => KeptId::Shell(ShellId::new(id)),
        _ => KeptId::Region(RegionId::new(id)),
    });
    let place =
        prop_oneof![Just(RegionPlace::Pool), (0..40_u64).prop_map(|id| RegionPlace::Body(BodyId::new(id)))];
    prop_oneof![
        (0..40_u64).prop_map(|id| Action::Keep(BodyId::new(id))),
        (0..40_u64).prop_map(|id| Action::BreakUp(BodyId::new(id))),
        kept.prop_map(Action::Drop),
        Just(Action::AddShell),
        (0..PROGRAMS + 1).prop_map(|program| Action::AddBody(ProgramId::new(u64::from(program)))),
        (place, 0..100 * KIB).prop_map(|(place, bytes)| Action::Prefault { place, bytes }),
        (0..40_u64).prop_map(|id| Action::Trim(BodyId::new(id))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_policy_breaks_a_promise(
        choice in choice(),
        budget_bytes in prop_oneof![0..3000 * KIB, Just(u64::MAX)],
        regions in any::<bool>(),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut driver = Driver::new(choice, budget_bytes, regions);
        steps.iter().for_each(|step| driver.step(step));
    }

    #[test]
    fn the_same_events_give_the_same_actions(
        choice in choice(),
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let run = || {
            let mut driver = Driver::new(choice.clone(), 2000 * KIB, true);
            steps.iter().for_each(|step| driver.step(step));
            driver.done
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn an_illegal_action_changes_nothing(
        steps in prop::collection::vec(step(), 0..60),
        actions in prop::collection::vec(action(), 1..60),
    ) {
        let mut driver = Driver::new(PolicyChoice::RecycleOne(Frequency::ANY), 1000 * KIB, true);
        steps.iter().for_each(|step| driver.step(step));
        let mut inventory = driver.pool.inventory().clone();
        for action in actions {
            let before = format!("{inventory:?}");
            let used = |inventory: &Inventory| inventory.bodies().filter(|(_, body)| matches!(body.status, BodyStatus::InUse(_))).count();
            let in_use = used(&inventory);
            if inventory.apply(action).is_err() {
                prop_assert_eq!(&before, &format!("{inventory:?}"));
            }
            prop_assert_eq!(used(&inventory), in_use);
            prop_assert!(inventory.kept_bytes() <= inventory.budget_bytes());
            prop_assert_eq!(inventory.audit(), Ok(()));
        }
    }
}
