//! The numbered fault points: each is reached, and each ends in exec or in another body.

use std::time::{Duration, Instant};

use regrow::{Creation, Pool, Reports};
use regrow_engine::fault::{self, FaultPoint};

use crate::scene::{END_LIMIT, Scene, run_right, scene, with_pool};

/// How many runs each point sees.
const RUNS: usize = 8;

/// What a fault does to runs.
#[derive(Clone, Copy)]
enum Effect {
    /// Every run is started by exec, for this reason.
    Exec(&'static str),
    /// Runs are recycled; bodies are given up, for this reason.
    GivenUp(&'static str),
    /// Runs are recycled as if nothing were.
    Nothing,
    /// Some runs are started by exec for this reason; others are recycled.
    Some(&'static str),
}

fn effect(point: FaultPoint, verify: bool) -> Effect {
    match point {
        // In verify mode the next process is armed when it is wanted.
        fault::ARMING_FAILS | fault::ARMED_DIES if verify => Effect::Some("body_broken"),
        fault::RESET_FAILS | fault::ARMING_FAILS => Effect::GivenUp("fault"),
        fault::KEEPER_DIES_IN_RESET => Effect::GivenUp("keeper_died"),
        fault::ARMED_DIES => Effect::GivenUp("clone"),
        fault::ORDER_REFUSED => Effect::Exec("unsupported_request"),
        fault::TRACE_FAILS | fault::FORK_FAILS | fault::SEED_KILLED => Effect::Exec("image_failed"),
        fault::AGENT_MEMFD_FAILS | fault::NO_MEMORY => Effect::Exec("no_memory"),
        fault::SEND_FAILS => Effect::Exec("fault_injected"),
        fault::KEEPER_KILLED_BEFORE_ORDER | fault::KEEPER_KILLED_AFTER_ORDER => {
            Effect::GivenUp("keeper_died")
        }
        fault::ARMED_KILLED_BEFORE_ORDER => Effect::Some("body_broken"),
        fault::WATCH_FAILS => Effect::Nothing,
        other => panic!("nobody says what fault point {other} does"),
    }
}

pub(crate) fn scenes() -> Vec<Scene> {
    let both = |verify: bool| {
        let ending = if verify { "-verified" } else { "" };
        fault::ALL.iter().map(move |&(point, name)| {
            scene(&format!("point-{}-{name}{ending}", point.number()), move || {
                let pool = Pool::builder().verify(verify).fault(point).build();
                with_pool(pool, |pool| play(pool, point, verify));
            })
        })
    };
    both(false).chain(both(true)).collect()
}

/// What a pool reports, after a body that its keeper is to give up was given up: that may take a moment.
fn reports_with(pool: &Pool, effect: Effect) -> Reports {
    let started = Instant::now();
    loop {
        let reports = pool.reports();
        match effect {
            Effect::GivenUp(reason) if !reports.given_up.contains_key(reason) => {
                assert!(started.elapsed() < END_LIMIT, "{reason} was not reported: {reports:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
            _ => return reports,
        }
    }
}

fn play(pool: &Pool, point: FaultPoint, verify: bool) {
    // A point that keeps the image from being made says so to each run.
    let mut command = pool.command("sh");
    let _ = pool.prepare(command.arg("-c"));
    let creations: Vec<Creation> = (0..RUNS).map(|run| run_right(pool, &format!("run-{run}"))).collect();
    let (stats, reports) = (pool.stats(), reports_with(pool, effect(point, verify)));
    assert_eq!(stats.total(), RUNS as u64);
    assert!(reports.differences.is_empty(), "{reports:?}");
    let execs = |reason: &str| stats.fallbacks.get(reason).copied().unwrap_or(0);
    let seen = format!("{creations:?} {reports:?}");
    match effect(point, verify) {
        Effect::Exec(reason) => assert_eq!(execs(reason), RUNS as u64, "{seen}"),
        Effect::GivenUp(_) => assert!(stats.exec < RUNS as u64 / 2, "{seen}"),
        Effect::Nothing => assert_eq!((stats.exec, reports.given_up.len()), (0, 0), "{seen}"),
        Effect::Some(reason) => assert!(execs(reason) > 0, "{seen}"),
    }
}
