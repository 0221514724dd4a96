//! Whatever happens, in whatever order: no policy asks for what cannot be, none goes over its budget, none touches what is
//! in use, and the same events give the same actions.

use std::time::Duration;

use proptest::prelude::*;
use regrow_pool::policy::{AdaptiveSettings, Choice, Frequency, PoolSettings};
use regrow_pool::state::Status;
use regrow_pool::{
    Action, BodyId, Done, Event, Facts, Kept, Place, Pool, ProcessId, ProgramId, RegionId, ShellId, Source,
    State,
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

fn choice() -> impl Strategy<Value = Choice> {
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
            named: vec![ProgramId(1), ProgramId(4)],
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
        Just(Choice::None),
        frequency.clone().prop_map(Choice::Recycle),
        frequency.prop_map(Choice::RecycleOne),
        pool.prop_map(Choice::Pool),
        adaptive.prop_map(Choice::AdaptiveWith),
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

/// Runs steps through a pool, and holds what is promised against each turn.
struct Driver {
    pool: Pool,
    at: Duration,
    processes: u64,
    done: Vec<Done>,
}

impl Driver {
    fn new(choice: Choice, budget_bytes: u64, regions: bool) -> Driver {
        let state = State::new(budget_bytes, 8 * KIB);
        let state = if regions { state } else { state.without_regions() };
        let pool = Pool::new(state, choice.build());
        let mut driver = Driver { pool, at: Duration::ZERO, processes: 0, done: Vec::new() };
        // One program is told of later.
        for program in 0..PROGRAMS - 1 {
            driver.tell(&Event::Known { program: ProgramId(program), facts: facts(program, 0) });
        }
        driver
    }

    fn tell(&mut self, event: &Event) {
        let in_use = |state: &State| -> Vec<(BodyId, Status)> {
            let used = state.bodies().filter(|(_, body)| matches!(body.status, Status::InUse(_)));
            used.map(|(id, body)| (id, body.status)).collect()
        };
        let before = in_use(self.pool.state());
        let done = self.pool.handle(self.at, event).unwrap_or_else(|error| panic!("{event:?}: {error}"));
        let state = self.pool.state();
        state.audit().unwrap();
        assert!(state.kept_bytes() <= state.budget_bytes(), "{event:?}");
        assert!(state.bodies().all(|(_, body)| body.status != Status::Left), "{event:?}");
        let after = in_use(state);
        let gone = before.iter().filter(|used| !after.contains(used)).count();
        let may_go = usize::from(matches!(event, Event::Exited { .. } | Event::Lost(_)));
        assert!(gone <= may_go, "{event:?} took away what was in use");
        for (kept, _) in all_kept(state) {
            assert!(self.pool.why(kept).is_some(), "{kept} has no reason");
        }
        if *event == Event::Pressure {
            assert_eq!(state.kept_bytes(), 0);
        }
        self.done.extend(done);
    }

    fn step(&mut self, step: &Step) {
        let state = self.pool.state();
        match step {
            Step::Create { program, waited } => {
                let program = ProgramId(*program);
                if let Some(facts) = state.facts(program) {
                    let from = match state.ready_body(program) {
                        Some(body) => Source::Body(body),
                        None => Source::Made {
                            image: state.has_image(program),
                            shell: state.ready_shell(),
                            regions: state.ready_regions(&facts.regions),
                        },
                    };
                    let parent = state.processes().next().map(|(id, _)| id);
                    self.processes += 1;
                    let (process, site) = (ProcessId(self.processes), waited.then_some(7));
                    let waited = Duration::from_micros(u64::from(*waited));
                    self.tell(&Event::Created { process, program, parent, site, waited, from });
                }
            }
            Step::End { which, offered } => {
                let processes: Vec<_> =
                    state.processes().map(|(id, process)| (id, process.program)).collect();
                if let Some(&(process, program)) = pick(&processes, *which) {
                    let offer = offered.then(|| state.facts(program).cloned().unwrap());
                    self.tell(&Event::Exited { process, offer });
                }
            }
            Step::Ready { which } => {
                let waiting: Vec<Kept> =
                    all_kept(state).into_iter().filter(|(_, ready)| !ready).map(|(kept, _)| kept).collect();
                if let Some(&kept) = pick(&waiting, *which) {
                    self.tell(&Event::Ready(kept));
                }
            }
            Step::Lose { which } => {
                let mut all: Vec<Kept> = all_kept(state).into_iter().map(|(kept, _)| kept).collect();
                all.extend(state.bodies().map(|(id, _)| Kept::Body(id)));
                if let Some(&kept) = pick(&all, *which) {
                    self.tell(&Event::Lost(kept));
                }
            }
            Step::Wait { us } => self.wait(Duration::from_micros(*us)),
            Step::Pressure => self.tell(&Event::Pressure),
            Step::Budget { bytes } => self.tell(&Event::Budget { bytes: *bytes }),
            Step::Learn { program, kib } => {
                self.tell(&Event::Known { program: ProgramId(*program), facts: facts(*program, *kib) });
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
fn all_kept(state: &State) -> Vec<(Kept, bool)> {
    let bodies = state.bodies().filter(|(_, body)| body.is_kept());
    let bodies = bodies.map(|(id, body)| (Kept::Body(id), body.status == Status::Idle));
    let shells = state.shells().map(|(id, shell)| (Kept::Shell(id), shell.ready));
    let regions = state.regions().map(|(id, region)| (Kept::Region(id), region.ready));
    bodies.chain(shells).chain(regions).collect()
}

/// Any action on anything, there or not.
fn action() -> impl Strategy<Value = Action> {
    let kept = (0..3, 0..40_u64).prop_map(|(kind, id)| match kind {
        0 => Kept::Body(BodyId(id)),
        1 => Kept::Shell(ShellId(id)),
        _ => Kept::Region(RegionId(id)),
    });
    let place = prop_oneof![Just(Place::Pool), (0..40_u64).prop_map(|id| Place::Body(BodyId(id)))];
    prop_oneof![
        (0..40_u64).prop_map(|id| Action::Keep(BodyId(id))),
        (0..40_u64).prop_map(|id| Action::BreakUp(BodyId(id))),
        kept.prop_map(Action::Drop),
        Just(Action::AddShell),
        (0..PROGRAMS + 1).prop_map(|program| Action::AddBody(ProgramId(program))),
        (place, 0..100 * KIB).prop_map(|(place, bytes)| Action::Prefault { place, bytes }),
        (0..40_u64).prop_map(|id| Action::Trim(BodyId(id))),
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
        let mut driver = Driver::new(Choice::RecycleOne(Frequency::ANY), 1000 * KIB, true);
        steps.iter().for_each(|step| driver.step(step));
        let mut state = driver.pool.state().clone();
        for action in actions {
            let before = format!("{state:?}");
            let used = |state: &State| state.bodies().filter(|(_, body)| matches!(body.status, Status::InUse(_))).count();
            let in_use = used(&state);
            if state.apply(action).is_err() {
                prop_assert_eq!(&before, &format!("{state:?}"));
            }
            prop_assert_eq!(used(&state), in_use);
            prop_assert!(state.kept_bytes() <= state.budget_bytes());
            prop_assert_eq!(state.audit(), Ok(()));
        }
    }
}
