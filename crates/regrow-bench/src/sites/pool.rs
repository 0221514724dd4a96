//! What sites are worth to the pool: creations that `adaptive` serves from a ready body, with the sites of the recorded traces and without them. In the
//! simulator, with the table of costs, so that the two differ in nothing else.
//!
//! ```text
//!   first run     the pool has seen nothing before
//!   second run    the same work again, by the pool that has seen it once: what a daemon does that stays
//! ```

use std::ops::Sub;

use regrow_pool::policy::PolicyChoice;
use regrow_pool::sim::{self, Costs, Existing, Setup, SimPoint};
use regrow_pool::trace::{self, Creation};

use crate::error::BenchError;
use crate::figure::Figure;

/// The recorded traces.
const TRACES: [(&str, &str); 4] = [
    ("web", include_str!("../../../../traces/web-1000.csv")),
    ("make", include_str!("../../../../traces/make-1000.csv")),
    ("git", include_str!("../../../../traces/git-1000.csv")),
    ("python", include_str!("../../../../traces/python-1000.csv")),
];
/// How many processes live at a time.
const ALIVE: [usize; 4] = [1, 5, 10, 20];
/// How much memory the pool may keep: ample, and short.
const BUDGETS: [(&str, u64); 2] = [("ample memory", 1 << 30), ("16 MiB", 16 << 20)];
/// Between the two runs, in microseconds.
const PAUSE_US: u64 = 2_000_000;
/// What is asked: so many points more, or so large a share; and on the front at so many points.
const MORE_POINTS: f64 = 2.0;
const ENOUGH: f64 = 98.0;
const ASKED_POINTS: f64 = 16.0;
const ASKED_ON_FRONT: f64 = 14.0;

/// What a policy comes to in one of the two runs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Outcome {
    /// Creations in a ready body, in percent.
    served: f64,
    time_us: f64,
    kept_bytes: f64,
}

impl Outcome {
    /// Between two points of a simulation.
    fn between(from: &SimPoint, to: &SimPoint) -> Outcome {
        let part = |of: fn(&SimPoint) -> usize| count(of(to).sub(of(from)));
        let served = part(|point| point.in_body) / part(|point| point.creations).max(1.0) * 100.0;
        #[expect(clippy::cast_precision_loss, reason = "bytes of a pool")]
        let kept_bytes = to.mean_kept_bytes as f64;
        Outcome { served, time_us: to.time_us - from.time_us, kept_bytes }
    }

    /// Whether another one is quicker and keeps less.
    fn is_beaten_by(&self, other: &Outcome) -> bool {
        other.time_us < self.time_us && other.kept_bytes < self.kept_bytes
    }
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn count(number: usize) -> f64 {
    number as f64
}

/// Rows of all traces, and how many points are as asked.
pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (memory, budget_bytes) in BUDGETS {
        let (mut gains, mut fronts) = ([0.0; 2], [0.0; 2]);
        for (name, text) in TRACES {
            let once = trace::read(text.as_bytes()).map_err(|error| wrong(name, &error))?;
            let with = twice(&once);
            let without: Vec<Creation> =
                with.iter().map(|row| Creation { site: None, ..row.clone() }).collect();
            for alive in ALIVE {
                let run = |trace, policy| outcomes(name, trace, policy, alive, budget_bytes);
                let (seen, blind) = (run(&with, "adaptive")?, run(&without, "adaptive")?);
                let others = PolicyChoice::NAMES.iter().filter(|&&other| other != "adaptive");
                let others = others.map(|&other| run(&with, other)).collect::<Result<Vec<_>, _>>()?;
                for (number, what) in ["first run", "second run"].into_iter().enumerate() {
                    let more = seen[number].served - blind[number].served;
                    let is_beaten = others.iter().any(|other| seen[number].is_beaten_by(&other[number]));
                    gains[number] +=
                        f64::from(u8::from(more >= MORE_POINTS || seen[number].served >= ENOUGH));
                    fronts[number] += f64::from(u8::from(!is_beaten));
                    let title = format!("pool, {name}, {alive} alive, {memory}, {what}");
                    figures.push(Figure::told(
                        &format!("{title}: from a ready body, with sites"),
                        seen[number].served,
                        "%",
                    ));
                    figures.push(Figure::told(&format!("{title}: more than without sites"), more, "points"));
                }
            }
        }
        for (number, what) in ["first run", "second run"].into_iter().enumerate() {
            let title = |which: &str| format!("pool, {memory}, {what}: {which}");
            let enough = title("points of 16 with 2 points more, or 98 %");
            figures.push(Figure::at_least(&enough, gains[number], ASKED_POINTS, "points"));
            let front = title("points of 16 at which no other policy is quicker with less memory");
            figures.push(Figure::at_least(&front, fronts[number], ASKED_ON_FRONT, "points"));
        }
    }
    Ok(figures)
}

/// A trace, and the same once more a while after its end.
fn twice(once: &[Creation]) -> Vec<Creation> {
    let end_us = once.iter().map(|row| row.end_us.max(row.start_us)).max().unwrap_or(0) + PAUSE_US;
    let rows = u32::try_from(once.len()).unwrap_or(u32::MAX);
    let again = once.iter().map(|row| Creation {
        parent: if row.parent == 0 { 0 } else { row.parent + rows },
        start_us: row.start_us + end_us,
        end_us: row.end_us + end_us,
        ..row.clone()
    });
    once.iter().cloned().chain(again).collect()
}

/// The first and the second half of a trace by a policy.
fn outcomes(
    name: &str,
    trace: &[Creation],
    policy: &str,
    alive: usize,
    budget_bytes: u64,
) -> Result<[Outcome; 2], BenchError> {
    let costs = Costs::linux();
    let half = trace.len() / 2;
    let pauses = Some((half, std::time::Duration::from_micros(PAUSE_US)));
    let existing = Existing::Exactly(alive);
    let setup = Setup { existing, budget_bytes, every: half, pauses, ..Setup::new(trace, &costs) };
    let choice = sim::choice(policy, &costs).map_err(|error| wrong(name, &error))?;
    let report = sim::run(&setup, choice).map_err(|error| wrong(name, &error))?;
    let [middle, end] = report.points[..] else {
        return Err(BenchError::WrongRun {
            program: name.to_owned(),
            what: format!("{} points, not 2", report.points.len()),
        });
    };
    Ok([Outcome::between(&SimPoint::default(), &middle), Outcome::between(&middle, &end)])
}

fn wrong(name: &str, error: &dyn std::error::Error) -> BenchError {
    BenchError::WrongRun { program: format!("the trace {name}"), what: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_has_its_own_parents_and_times() -> Result<(), BenchError> {
        let once = trace::read(TRACES[2].1.as_bytes()).map_err(|error| wrong("git", &error))?;
        let both = twice(&once);
        assert_eq!(both.len(), 2 * once.len());
        assert!(both.iter().zip(1..).all(|(row, number)| row.parent < number));
        assert!(both.is_sorted_by_key(|row| row.start_us));
        let [first, second] = outcomes("git", &both, "adaptive", 5, 1 << 30)?;
        assert!(
            second.served > 0.0 && first.served > 0.0 && second.time_us < first.time_us,
            "{first:?} {second:?}"
        );
        Ok(())
    }
}
