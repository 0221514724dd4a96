//! Whole traces through every policy.

mod common;

use regrow_pool::policy::PolicyChoice;
use regrow_pool::sim::{Costs, Existing, Setup, SimReport, choice, run, run_with};
use regrow_pool::trace::Creation;

const EXISTING: [Existing; 5] = [
    Existing::Exactly(1),
    Existing::Exactly(5),
    Existing::Exactly(10),
    Existing::Exactly(20),
    Existing::Recorded,
];

/// A budget that nothing reaches, and ones that all do.
const BUDGETS_MIB: [u64; 3] = [1024, 8, 2];

fn generated() -> Vec<(&'static str, Vec<Creation>)> {
    vec![
        ("web", common::web(1000, 1)),
        ("make", common::make(1000, 2)),
        ("noise", common::noise(1000, 60, 3)),
    ]
}

/// The traces of the repository.
fn recorded() -> Vec<(String, Vec<Creation>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let traces = files.filter(|file| file.extension().is_some_and(|end| end == "csv")).map(|file| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let trace = regrow_pool::trace::read(std::fs::File::open(&file).unwrap());
        (name, trace.unwrap_or_else(|error| panic!("{}: {error}", file.display())))
    });
    let mut traces: Vec<_> = traces.collect();
    traces.sort_by(|left, right| left.0.cmp(&right.0));
    traces
}

fn reports(setup: &Setup<'_>) -> Vec<SimReport> {
    let report = |name| run(setup, choice(name, setup.costs).unwrap()).unwrap();
    PolicyChoice::NAMES.into_iter().map(report).collect()
}

/// Every trace, with every number of processes and every budget.
fn all(mut hold: impl FnMut(&str, &Setup<'_>, &[SimReport])) {
    let costs = Costs::linux();
    for (name, trace) in generated() {
        for existing in EXISTING {
            for mib in BUDGETS_MIB {
                let setup = Setup { existing, budget_bytes: mib << 20, ..Setup::new(&trace, &costs) };
                hold(&format!("{name}, {existing:?}, {mib} MiB"), &setup, &reports(&setup));
            }
        }
    }
}

/// Whether somebody else takes no more time and holds no more memory, and either time less by more than a fiftieth, or
/// memory less by more than one part in `parts`. Far below its budget `adaptive` pays memory for time that it may save.
fn is_dominated(report: &SimReport, by: &SimReport, parts: u64) -> bool {
    let (own, other) = (report.end(), by.end());
    let is_no_worse = other.time_us <= own.time_us && other.mean_kept_bytes <= own.mean_kept_bytes;
    let is_better = other.time_us < own.time_us * 0.98
        || other.mean_kept_bytes < own.mean_kept_bytes - own.mean_kept_bytes / parts;
    report.policy != by.policy && is_no_worse && is_better
}

#[test]
fn no_policy_goes_over_its_budget_and_all_create_every_process() {
    all(|name, setup, reports| {
        for report in reports {
            let (end, policy) = (report.end(), &report.policy);
            assert!(report.most_kept_bytes <= setup.budget_bytes, "{name}, {policy}");
            let ways = end.in_body + end.with_image + end.in_shell + end.from_nothing;
            assert_eq!((end.creations, ways), (setup.trace.len(), setup.trace.len()), "{name}, {policy}");
            assert_eq!(report.points.len(), 10, "{name}, {policy}");
            let times = report.points.windows(2).all(|pair| pair[0].time_us < pair[1].time_us);
            assert!(times, "{name}, {policy}");
        }
        assert_eq!(
            (reports[0].most_kept_bytes, reports[0].end().from_nothing),
            (0, 1000),
            "none keeps nothing"
        );
    });
}

#[test]
fn adaptive_is_on_the_front_of_time_and_memory() {
    all(|name, setup, reports| {
        let Some((adaptive, others)) = reports.split_last() else { panic!("no reports") };
        assert_eq!(adaptive.policy, "adaptive");
        if setup.budget_bytes >= 1 << 30 {
            for other in others {
                let (own, other_us) = (adaptive.end().time_us, other.end().time_us);
                if name.starts_with("noise") {
                    // There is nothing to learn: one body more for whatever has come thrice, as `pool` has it, is best.
                    assert!(own < other_us * 1.3, "{name}: {own} against {other_us} of {}", other.policy);
                    continue;
                }
                // Another policy may be quicker by a hair, as with the first process of each program.
                assert!(own < other_us * 1.02, "{name}: {own} against {other_us} of {}", other.policy);
                assert!(!is_dominated(adaptive, other, 5), "{name}: {}", other.policy);
            }
        }
        // Where not half of it fits, it still saves time, and is not far from the best.
        let best = others.iter().map(|other| other.end().time_us).fold(f64::MAX, f64::min);
        let limit = if setup.budget_bytes > 8 << 20 { 1.6 } else { 2.5 };
        assert!(adaptive.end().time_us < best * limit, "{name}: {} of {best}", adaptive.end().time_us);
        assert!(adaptive.end().time_us < reports[0].end().time_us, "{name}");
    });
}

#[test]
fn adaptive_serves_a_web_server_from_ready_bodies() {
    let costs = Costs::linux();
    let trace = common::web(1000, 7);
    for existing in EXISTING {
        let setup = Setup { existing, budget_bytes: 64 << 20, ..Setup::new(&trace, &costs) };
        let report = run(&setup, choice("adaptive", &costs).unwrap()).unwrap();
        assert!(report.end().in_body >= 900, "{existing:?}: {:?}", report.end());
    }
}

#[test]
fn adaptive_is_on_the_front_of_every_recorded_trace() {
    let costs = Costs::linux();
    let traces = recorded();
    let names: Vec<&str> = traces.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["git-1000", "make-1000", "python-1000", "web-1000"]);
    for (name, trace) in &traces {
        assert_eq!(trace.len(), 1000, "{name}");
        for existing in EXISTING {
            let setup = Setup { existing, budget_bytes: 1 << 30, ..Setup::new(trace, &costs) };
            let reports = reports(&setup);
            let Some((adaptive, others)) = reports.split_last() else { panic!("no reports") };
            for report in &reports {
                let (policy, end) = (&report.policy, report.end());
                println!(
                    "{name}, {existing:?}: {policy} {:.1} ms {} KiB, {} in a body, {} forked, {} in a shell, {} by exec",
                    end.time_us / 1e3,
                    end.mean_kept_bytes >> 10,
                    end.in_body,
                    end.with_image,
                    end.in_shell,
                    end.from_nothing
                );
            }
            for other in others {
                assert!(!is_dominated(adaptive, other, 8), "{name}, {existing:?}: {}", other.policy);
            }
            let (own, best) =
                (adaptive.end(), others.iter().map(|other| other.end().time_us).fold(f64::MAX, f64::min));
            assert!(own.time_us < best * 1.02, "{name}, {existing:?}: {} of {best}", own.time_us);
            // Four of five are not the first of their program, even where most programs are short of breath.
            assert!(
                own.in_body >= if name == "web-1000" { 900 } else { 800 },
                "{name}, {existing:?}: {own:?}"
            );
        }
    }
}

#[test]
fn the_same_trace_gives_the_same_actions() {
    let costs = Costs::linux();
    for (name, trace) in generated() {
        let setup =
            Setup { budget_bytes: 8 << 20, existing: Existing::Recorded, ..Setup::new(&trace, &costs) };
        for policy in PolicyChoice::NAMES {
            let actions = || {
                let mut all = Vec::new();
                let report = run_with(&setup, choice(policy, &costs).unwrap(), |at, event, pool, done| {
                    pool.inventory().audit().unwrap();
                    all.push(format!("{at:?} {event:?} {done:?}"));
                });
                (report.unwrap(), all)
            };
            let (first, second) = (actions(), actions());
            assert!(first == second, "{name}, {policy}");
            assert!(first.1.len() > 2 * trace.len(), "{name}, {policy}: {} events", first.1.len());
        }
    }
}

#[test]
fn one_body_holds_less_than_half_of_every_body_at_twenty_processes() {
    // What Tabata and Taniguchi measured at 20 existing processes is 54 % less.
    let costs = Costs::linux();
    for trace in [common::make(1000, 5), common::noise(1000, 60, 5)] {
        let setup = Setup { existing: Existing::Exactly(20), ..Setup::new(&trace, &costs) };
        let held = |name| run(&setup, choice(name, &costs).unwrap()).unwrap().end().mean_kept_bytes;
        let (every, one) = (held("recycle"), held("recycle-one"));
        assert!(one * 2 < every, "{one} of {every}");
    }
}

#[test]
fn an_empty_trace_is_no_error() {
    let costs = Costs::linux();
    let report = run(&Setup::new(&[], &costs), PolicyChoice::Adaptive).unwrap();
    assert_eq!((report.points.len(), report.end().creations), (0, 0));
}

#[test]
fn a_table_of_costs_is_stored_as_json() {
    for costs in [Costs::linux(), Costs::tender()] {
        let text = serde_json::to_string(&costs).unwrap();
        assert_eq!(serde_json::from_str::<Costs>(&text).unwrap(), costs);
    }
    let error = serde_json::from_str::<Costs>("{\"each\":1}").unwrap_err();
    assert!(error.to_string().contains("unknown field `each`"), "{error}");
}
