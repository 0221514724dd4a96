//! The ledger alone: bodies and processes are numbers, and what is seen of them stands in a table.

use std::collections::BTreeMap;

use regrow_pool::policy::PolicyChoice;

use super::*;
use crate::ids::ResourceId;

const PROGRAM: ProgramId = ProgramId::new(1);
const IMAGE: ImageId = ImageId::new(1);
const OF: BodyOf = BodyOf { image: IMAGE, program: PROGRAM };
const BUDGET_BYTES: u64 = 64 << 20;

fn facts() -> Facts {
    Facts {
        image_bytes: 1 << 20,
        body_bytes: 256 << 10,
        regions: Vec::new(),
        saves: Duration::from_micros(600),
        saves_over_image: Duration::from_micros(150),
    }
}

/// What is seen of bodies; all processes whose number stands in `over` have been waited for.
#[derive(Default)]
struct Scene {
    bodies: BTreeMap<BodyId, Seen>,
    over: Vec<ProcessId>,
}

impl Eyes for Scene {
    fn body(&self, body: BodyId) -> Seen {
        self.bodies.get(&body).copied().unwrap_or(Seen::Gone)
    }

    fn is_over(&self, process: ProcessId) -> bool {
        self.over.contains(&process)
    }

    fn facts(&self, body: BodyId) -> Option<Facts> {
        (self.body(body) != Seen::Gone).then(facts)
    }
}

/// A ledger whose policy keeps every body, and that knows the program.
fn ledger() -> Ledger {
    let choice: PolicyChoice = "recycle".parse().expect("a policy");
    let mut ledger = Ledger::new(choice.build(), BUDGET_BYTES, true, 0);
    ledger.program_known(PROGRAM, facts());
    ledger
}

/// The same with a body that was made of the first run and is armed.
fn ledger_with_body(scene: &mut Scene) -> (Ledger, BodyId) {
    let mut ledger = ledger();
    let body = ledger.run_without_image(elsewhere(PROGRAM)).expect("it keeps every body");
    assert!(ledger.is_wanted(body));
    assert!(ledger.body_made(body, OF));
    scene.bodies.insert(body, Seen::Armed);
    (ledger, body)
}

fn run(process: u64, body: BodyId, forked: bool) -> RunInBody {
    RunInBody {
        process: ProcessId::new(process),
        body,
        of: OF,
        forked,
        waited: Duration::ZERO,
        single_use: false,
        site: None,
    }
}

/// The first run, in no body.
fn elsewhere(program: ProgramId) -> RunElsewhere {
    RunElsewhere { process: ProcessId::new(1), program, site: None }
}

fn status(ledger: &Ledger, body: BodyId) -> Option<BodyStatus> {
    ledger.planner().inventory().body(body).map(|body| body.status)
}

fn audit(ledger: &Ledger) {
    ledger.planner().inventory().audit().expect("the inventory agrees with itself");
}

#[test]
fn a_run_is_told_with_its_own_time_and_its_end_when_it_is_seen() {
    let mut scene = Scene::default();
    let (mut ledger, body) = ledger_with_body(&mut scene);
    ledger.set_time(Duration::from_millis(1));
    assert!(!ledger.run_started(run(2, body, false)), "one run is no reason to look at everything");
    scene.bodies.insert(body, Seen::Running);
    ledger.set_time(Duration::from_millis(4));
    ledger.look_at_all(&scene);
    assert_eq!(status(&ledger, body), Some(BodyStatus::InUse(ProcessId::new(2))));
    let started = ledger.planner().inventory().body(body).map(|body| body.used);
    assert_eq!(started, Some(Duration::from_millis(1)));
    scene.over.push(ProcessId::new(2));
    ledger.look_at(IMAGE, &scene);
    assert_eq!(status(&ledger, body), Some(BodyStatus::Resetting));
    scene.bodies.insert(body, Seen::Armed);
    ledger.look_at(IMAGE, &scene);
    assert_eq!(status(&ledger, body), Some(BodyStatus::Idle));
    assert_eq!(ledger.take_decisions(), []);
    audit(&ledger);
}

#[test]
fn a_run_that_nobody_waits_for_ends_when_its_keeper_says_so() {
    let mut scene = Scene::default();
    let (mut ledger, body) = ledger_with_body(&mut scene);
    ledger.run_started(run(2, body, false));
    scene.bodies.insert(body, Seen::PuttingBack);
    ledger.look_at_all(&scene);
    assert_eq!(status(&ledger, body), Some(BodyStatus::Resetting));
}

#[test]
fn the_next_run_in_a_body_ends_the_one_before() {
    let mut scene = Scene::default();
    let (mut ledger, body) = ledger_with_body(&mut scene);
    ledger.run_started(run(2, body, false));
    ledger.run_started(run(3, body, false));
    scene.bodies.insert(body, Seen::Running);
    ledger.look_at_all(&scene);
    assert_eq!(status(&ledger, body), Some(BodyStatus::InUse(ProcessId::new(3))));
    assert_eq!(ledger.planner().inventory().alive(PROGRAM), 1);
    audit(&ledger);
}

#[test]
fn a_body_that_was_forked_for_a_run_is_kept_under_its_own_id() {
    let mut scene = Scene::default();
    let (mut ledger, _) = ledger_with_body(&mut scene);
    let forked = ledger.reserve_body();
    ledger.run_started(run(2, forked, true));
    scene.bodies.insert(forked, Seen::Running);
    ledger.look_at_all(&scene);
    assert_eq!(status(&ledger, forked), None, "the planner has not decided about it");
    scene.over.push(ProcessId::new(2));
    scene.bodies.insert(forked, Seen::Armed);
    ledger.look_at_all(&scene);
    assert_eq!(status(&ledger, forked), Some(BodyStatus::Idle));
    audit(&ledger);
}

#[test]
fn many_runs_or_an_old_one_are_a_reason_to_look() {
    let mut scene = Scene::default();
    let (mut ledger, body) = ledger_with_body(&mut scene);
    let due: Vec<bool> =
        (0..MAX_UNTOLD as u64).map(|n| ledger.run_started(run(2 + n, body, false))).collect();
    assert_eq!(due.iter().position(|&due| due), Some(MAX_UNTOLD - 1));
    ledger.tell_runs(&scene);
    assert_eq!(ledger.untold_due(), None);
    ledger.run_started(run(100, body, false));
    ledger.set_time(UNTOLD_WAIT);
    assert!(ledger.run_started(run(101, body, false)));
}

#[test]
fn a_body_that_is_gone_ends_its_run_and_is_lost() {
    let mut scene = Scene::default();
    let (mut ledger, body) = ledger_with_body(&mut scene);
    ledger.run_started(run(2, body, false));
    ledger.tell_runs(&scene);
    scene.bodies.clear();
    ledger.look_at_all(&scene);
    assert_eq!((status(&ledger, body), ledger.planner().inventory().alive(PROGRAM)), (None, 0));
    assert!(ledger.is_unused(PROGRAM));
    audit(&ledger);
}

#[test]
fn an_idle_body_that_is_gone_is_lost() {
    let mut scene = Scene::default();
    let (mut ledger, body) = ledger_with_body(&mut scene);
    scene.bodies.clear();
    ledger.look_at_all(&scene);
    assert_eq!(status(&ledger, body), None);
    assert_eq!(ledger.take_decisions(), [], "nothing is left to drop");
}

#[test]
fn an_image_takes_its_bodies_and_untold_runs_along() {
    let mut scene = Scene::default();
    let (mut ledger, body) = ledger_with_body(&mut scene);
    ledger.run_started(run(2, body, false));
    ledger.tell_runs(&scene);
    ledger.run_started(run(3, body, false));
    ledger.image_is_gone(IMAGE);
    assert!(ledger.untold_due().is_none() && ledger.is_unused(PROGRAM));
    audit(&ledger);
}

#[test]
fn nobody_looks_at_a_body_that_is_lent() {
    let mut scene = Scene::default();
    let (mut ledger, body) = ledger_with_body(&mut scene);
    ledger.body_is_lent(body);
    scene.bodies.clear();
    ledger.look_at_all(&scene);
    assert_eq!(status(&ledger, body), Some(BodyStatus::Idle));
    ledger.body_came_back(body, &scene);
    assert_eq!(status(&ledger, body), None, "it did not outlive the work");
}

#[test]
fn what_the_policy_gives_back_is_to_be_dropped() {
    let mut scene = Scene::default();
    let (mut ledger, body) = ledger_with_body(&mut scene);
    ledger.memory_is_short();
    assert_eq!(ledger.take_decisions(), [Decision::DropBody { body }]);
    assert_eq!(ledger.take_decisions(), []);
    assert!(!ledger.is_wanted(body));
}

#[test]
fn a_body_or_shell_that_is_not_wanted_any_more_is_refused() {
    let mut ledger = ledger();
    let body = ledger.run_without_image(elsewhere(PROGRAM)).expect("it keeps every body");
    ledger.set_budget(0);
    assert_eq!(ledger.take_decisions(), [Decision::DropBody { body }]);
    assert!(!ledger.body_made(body, OF));
    assert!(!ledger.shell_made(ShellId::new(7)));
    ledger.shell_is_gone(ShellId::new(7));
    audit(&ledger);
}

#[test]
fn a_second_body_of_a_program_is_broken_up_into_a_shell() {
    let choice: PolicyChoice = "recycle-one".parse().expect("a policy");
    let mut ledger = Ledger::new(choice.build(), BUDGET_BYTES, true, 0);
    ledger.program_known(PROGRAM, facts());
    let mut scene = Scene::default();
    let mut bodies = Vec::new();
    for process in 1..=20 {
        let body = ledger.reserve_body();
        bodies.push(body);
        scene.bodies.insert(body, Seen::Running);
        ledger.run_started(run(process, body, true));
    }
    ledger.look_at_all(&scene);
    scene.over = (1..=20).map(ProcessId::new).collect();
    ledger.look_at_all(&scene);
    let decisions = ledger.take_decisions();
    let broken_up = decisions.iter().filter(|decision| matches!(decision, Decision::BreakUp { .. })).count();
    assert!(broken_up > 0, "{decisions:?}");
    assert_eq!(ledger.planner().inventory().shells().len(), broken_up);
    assert_eq!(ledger.planner().inventory().kept_of(PROGRAM), 1);
    audit(&ledger);
}

#[test]
fn a_planner_that_does_not_agree_has_everything_begun_anew() {
    let mut ledger = ledger();
    ledger.run_crowded_out(elsewhere(ProgramId::new(99)));
    assert_eq!(ledger.take_decisions(), [Decision::BeginAnew]);
    ledger.memory_is_short();
    assert_eq!(ledger.take_decisions(), [], "it decides nothing more");
}

#[test]
fn ids_of_a_ledger_that_was_begun_anew_are_other_ones() {
    let choice: PolicyChoice = "recycle".parse().expect("a policy");
    let mut before = Ledger::new(choice.clone().build(), BUDGET_BYTES, true, 0);
    let mut after = Ledger::new(choice.build(), BUDGET_BYTES, true, 1);
    let (old, new) = (before.reserve_body(), after.reserve_body());
    assert_eq!(old.number(), new.number());
    assert_ne!(old, new);
    assert!(!after.body_made(old, OF));
}
