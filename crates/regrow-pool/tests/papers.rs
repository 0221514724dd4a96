//! The papers' figures, computed anew: Taniguchi, Yamauchi and Tamura (2020), 4.2 and 4.3.

use std::time::Duration;

use regrow_pool::policy::{Frequency, PolicyChoice, PoolSettings};
use regrow_pool::sim::{Costs, Existing, ProgramCosts, Setup, SimReport, Sizes, run};
use regrow_pool::trace::Creation;
use regrow_pool::{Facts, ProgramId};

/// 4.3: fifty programs whose text, data and BSS are each 4, 8, … 200 KiB large, each started once.
fn fifty(costs: &mut Costs) -> Vec<Creation> {
    let program = |index: u64| {
        let kib = 4 * (index + 1);
        let sizes = Sizes { image_kib: kib, copied_kib: kib, zeroed_kib: kib };
        let name = format!("p{kib}");
        costs.programs.insert(name.clone(), ProgramCosts { sizes, ..ProgramCosts::default() });
        Creation {
            program: name,
            argv_hash: 0,
            parent: 0,
            start_us: index,
            end_us: index,
            ..Creation::default()
        }
    };
    (0..50).map(program).collect()
}

fn fifty_with(policy: PolicyChoice, announced: bool) -> SimReport {
    let mut costs = Costs::tender();
    let trace = fifty(&mut costs);
    let setup = Setup { announced, existing: Existing::Exactly(1), every: 5, ..Setup::new(&trace, &costs) };
    run(&setup, policy).unwrap()
}

fn pool(interval: Duration) -> PolicyChoice {
    PolicyChoice::Pool(PoolSettings {
        t1: interval,
        t2: interval,
        h1: 0,
        h2: 0,
        named: (0..50).map(ProgramId::new).collect(),
        again: u32::MAX,
        follows_percent: 101,
        ..PoolSettings::default()
    })
}

/// Within a tenth of what the paper measured.
#[track_caller]
fn close(simulated_us: f64, paper_ms: f64) {
    let ratio = simulated_us / 1000.0 / paper_ms;
    assert!((0.9..1.1).contains(&ratio), "{:.2} ms, the paper has {paper_ms} ms", simulated_us / 1000.0);
}

#[test]
fn what_a_ready_sh_saves_is_as_in_4_2() {
    let costs = Costs::tender();
    let sh = Sizes { image_kib: 836, copied_kib: 20, zeroed_kib: 20 };
    let facts: Facts = costs.facts("sh", &sh);
    assert_eq!(facts.saves.as_nanos(), 352_030);
    // Table 1, (f): text, data, BSS and stack.
    assert_eq!(facts.region_bytes(), (836 + 20 + 20 + 64) * 1024);
}

#[test]
fn fifty_programs_without_recycling_take_as_long_as_in_figure_8() {
    let report = fifty_with(PolicyChoice::None, false);
    assert_eq!(report.end().from_nothing, 50);
    close(report.end().time_us, 12.48);
    assert_eq!(report.most_kept_bytes, 0);
}

#[test]
fn fifty_programs_recycle_the_parts_of_one_another() {
    // No program runs often, so that each is broken up for the next: its shell and its stack fit.
    let often = Frequency { at_least: 2, ..Frequency::default() };
    let report = fifty_with(PolicyChoice::Recycle(often), false);
    assert_eq!((report.end().in_shell, report.end().from_nothing), (49, 1));
    close(report.end().time_us, 7.89);
    let growing = report.points.windows(2).all(|pair| pair[0].kept_bytes < pair[1].kept_bytes);
    assert!(growing, "nothing is given back: {:?}", report.points);
}

#[test]
fn fifty_programs_from_a_pool_that_gives_nothing_back() {
    let report = fifty_with(pool(Duration::ZERO), true);
    assert_eq!(report.end().in_body, 50);
    close(report.end().time_us, 2.84);
    let first = report.points.first().unwrap();
    assert!(first.kept_bytes > 15 << 20, "all are there from the first: {first:?}");
}

#[test]
fn fifty_programs_from_a_pool_that_gives_back() {
    let report = fifty_with(pool(Duration::from_millis(2)), true);
    assert_eq!(report.end().in_body, 50, "what was named waits for its first process");
    let (whole, given_back) = (report.end().time_us, fifty_with(pool(Duration::ZERO), true).end().time_us);
    assert!(whole > given_back, "giving back costs something on the only processor");
    // 65 % less than without recycling, 45 % less than with it.
    let none = fifty_with(PolicyChoice::None, false).end().time_us;
    assert!(whole < none * 0.35 * 1.1, "{whole} of {none}");
    let (first, end) = (report.points[0], report.end());
    assert!(end.kept_bytes < first.kept_bytes, "{first:?} {end:?}");
}
