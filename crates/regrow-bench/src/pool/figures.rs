//! The figures of replayed traces.

use regrow_pool::policy::PolicyChoice;

use crate::figure::Figure;
use crate::replay::rounds::ReplayRounds;

/// How many processes stay alive, one replay for each.
pub(super) const ALIVE: [usize; 4] = [1, 5, 10, 20];
/// Totals of real processes differ with the load of the machine: a policy beats another by more than this.
const NOISE: f64 = 0.05;
/// How far simulated and real totals may be apart.
const MOST_OFF_PERCENT: f64 = 25.0;

/// How much less one is than another, in percent.
pub(super) fn percent_less(one: f64, other: f64) -> f64 {
    (1.0 - one / other.max(f64::MIN_POSITIVE)) * 100.0
}

/// The time and the memory of every policy with every number of processes.
pub(super) fn points(name: &str, rounds: &ReplayRounds) -> Vec<Figure> {
    let points = ALIVE.into_iter().flat_map(|alive| PolicyChoice::NAMES.map(|policy| (alive, policy)));
    let figures = points.filter_map(|(alive, policy)| {
        let point = rounds.real(policy, alive)?;
        let kib = f64::from(u32::try_from(point.mean_kept_bytes >> 10).unwrap_or(u32::MAX));
        Some([
            Figure::told(&format!("{name}, {alive} existing, {policy}: time"), point.time_us / 1e3, "ms"),
            Figure::told(&format!("{name}, {alive} existing, {policy}: mean memory"), kib / 1024.0, "MiB"),
        ])
    });
    figures.flatten().collect()
}

/// For every trace: at how many points another policy beats `adaptive`, and how far the simulator is off.
pub(super) fn of_trace(name: &str, rounds: &ReplayRounds) -> Vec<Figure> {
    let beaten = ALIVE.into_iter().filter(|&alive| is_beaten(rounds, alive)).count();
    let beaten = f64::from(u32::try_from(beaten).unwrap_or(u32::MAX));
    let points = ALIVE.into_iter().flat_map(|alive| PolicyChoice::NAMES.map(|policy| (alive, policy)));
    let off: Vec<f64> = points.map(|(alive, policy)| off_percent(rounds, policy, alive)).collect();
    let farthest = off.iter().copied().fold(0.0, f64::max);
    let within = off.iter().filter(|&&off| off <= MOST_OFF_PERCENT).count() * 100 / off.len().max(1);
    vec![
        Figure::at_most(
            &format!("{name}: numbers of processes at which another policy beats adaptive"),
            beaten,
            0.0,
            "of 4",
        ),
        Figure::at_most(
            &format!("{name}: simulated time against real, farthest of 20"),
            farthest,
            MOST_OFF_PERCENT,
            "%",
        ),
        Figure::told(
            &format!("{name}: simulated times within {MOST_OFF_PERCENT} % of the real ones"),
            f64::from(u32::try_from(within).unwrap_or(0)),
            "%",
        ),
    ]
}

/// Whether another policy takes less time than `adaptive` with no more memory, or less memory with no more time.
fn is_beaten(rounds: &ReplayRounds, alive: usize) -> bool {
    let Some(own) = rounds.real("adaptive", alive) else { return false };
    let others = PolicyChoice::NAMES.into_iter().filter(|name| *name != "adaptive");
    others.filter_map(|name| rounds.real(name, alive)).any(|other| {
        #[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
        let (own_bytes, other_bytes) = (own.mean_kept_bytes as f64, other.mean_kept_bytes as f64);
        other.time_us < own.time_us * (1.0 - NOISE) && other_bytes <= own_bytes
            || other.time_us <= own.time_us && other_bytes < own_bytes * (1.0 - NOISE)
    })
}

/// How far the simulated time is off the real one, in percent.
fn off_percent(rounds: &ReplayRounds, policy: &str, alive: usize) -> f64 {
    let pair = rounds.real(policy, alive).zip(rounds.simulated(policy, alive));
    pair.map_or(0.0, |(real, simulated)| (simulated.time_us / real.time_us - 1.0).abs() * 100.0)
}

/// What is asked of the policies on the web trace.
pub(super) fn of_web(rounds: &ReplayRounds) -> Vec<Figure> {
    let mut figures = Vec::new();
    for alive in ALIVE {
        let Some((none, pool)) = rounds.real("none", alive).zip(rounds.real("pool", alive)) else {
            continue;
        };
        let less = percent_less(pool.time_us, none.time_us);
        figures.push(Figure::at_least(
            &format!("web, {alive} existing: pool takes less time than none"),
            less,
            80.0,
            "%",
        ));
        if let Some(adaptive) = rounds.real("adaptive", alive) {
            let share = 100.0 * f64::from(u32::try_from(adaptive.in_body).unwrap_or(0))
                / f64::from(u32::try_from(adaptive.creations).unwrap_or(1));
            let name = format!("web, {alive} existing: adaptive serves from a ready body");
            figures.push(Figure::at_least(&name, share, 90.0, "%"));
        }
    }
    if let Some((one, all)) = rounds.real("recycle-one", 20).zip(rounds.real("recycle", 20)) {
        #[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
        let share = one.kept_bytes as f64 / (all.kept_bytes as f64).max(1.0) * 100.0;
        figures.push(Figure::at_most(
            "web, 20 existing: recycle-one holds of what recycle holds",
            share,
            50.0,
            "%",
        ));
        let slower = one.time_us / all.time_us;
        figures.push(Figure::at_most(
            "web, 20 existing: time of recycle-one against recycle",
            slower,
            1.0,
            "times",
        ));
    }
    figures
}
