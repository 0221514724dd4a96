//! Which charts there are of a replay.
//!
//! | chart | x | y | as in Tabata and Taniguchi |
//! |---|---|---|---|
//! | `TRACE-time-by-creations` | creations | time spent, at the most processes alive | figure 14 |
//! | `TRACE-memory-by-creations` | creations | memory kept, likewise | figure 13 |
//! | `TRACE-time-by-existing` | processes alive | time spent at the end | figure 12 |
//! | `TRACE-memory-by-existing` | processes alive | memory kept at the end | figure 11 |
//! | `TRACE-front` | mean memory kept | time spent | |

use regrow_pool::sim::SimPoint;

use super::chart::{Chart, Legend, Scale, Series};
use crate::replay::live::LiveProcesses;
use crate::replay::result::{PolicyRun, ReplayMode, ReplayResult, mib};

/// The charts of a replay, those without a point left out.
pub(super) fn charts(replay: &ReplayResult) -> Vec<Chart> {
    let most = replay.runs.iter().map(|run| run.existing).max().unwrap_or(LiveProcesses::Recorded);
    let alive = match most {
        LiveProcesses::Exactly(existing) => format!("{existing} processes alive"),
        LiveProcesses::Recorded => "processes alive as recorded".to_owned(),
    };
    let (spent, kept) = ("time spent, ms", "memory kept, MiB");
    let lines = [
        (
            "time-by-creations",
            alive.clone(),
            "creations",
            spent,
            by_creations(replay, most, |point| point.time_us / 1000.0),
        ),
        (
            "memory-by-creations",
            alive,
            "creations",
            kept,
            by_creations(replay, most, |point| mib(point.kept_bytes)),
        ),
        (
            "time-by-existing",
            "at the end".to_owned(),
            "processes alive",
            spent,
            by_policy(replay, |run| Some((existing(run)?, run.report.end().time_us / 1000.0))),
        ),
        (
            "memory-by-existing",
            "at the end".to_owned(),
            "processes alive",
            kept,
            by_policy(replay, |run| Some((existing(run)?, mib(run.report.end().kept_bytes)))),
        ),
    ];
    let front = by_policy(replay, |run| {
        Some((mib(run.report.end().mean_kept_bytes), run.report.end().time_us / 1000.0))
    });
    let front = ("front", "time against memory".to_owned(), "mean memory kept, MiB", spent, front);
    let lines = lines.into_iter().map(|chart| (chart, true));
    let all = lines.chain([(front, false)]).map(|((end, title, x, y, series), lines)| Chart {
        name: format!("{}-{end}", replay.trace),
        title: format!("{}: {y} {title}", replay.trace),
        x,
        y,
        series,
        lines,
        marks: Vec::new(),
        scale: Scale::Linear,
        legend: Legend::Right,
    });
    all.filter(|chart| chart.series.iter().any(|(_, points)| !points.is_empty())).collect()
}

/// The runs that are drawn: the real ones, or the simulated ones where there is no real one.
fn drawn(replay: &ReplayResult) -> impl Iterator<Item = &PolicyRun> {
    let real = replay.runs.iter().any(|run| run.mode == ReplayMode::Real);
    replay.runs.iter().filter(move |run| !real || run.mode == ReplayMode::Real)
}

/// For each policy the points of its run with this many processes.
fn by_creations(replay: &ReplayResult, existing: LiveProcesses, value: fn(&SimPoint) -> f64) -> Vec<Series> {
    let runs = drawn(replay).filter(|run| run.existing == existing);
    let points = |run: &PolicyRun| {
        run.report.points.iter().map(|point| (count(point.creations), value(point))).collect::<Vec<_>>()
    };
    runs.map(|run| (run.report.policy.clone(), points(run))).collect()
}

/// For each policy a point for each of its runs.
fn by_policy(replay: &ReplayResult, point: fn(&PolicyRun) -> Option<(f64, f64)>) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for run in drawn(replay) {
        let Some(value) = point(run) else { continue };
        match series.iter_mut().find(|(policy, _)| *policy == run.report.policy) {
            Some((_, points)) => points.push(value),
            None => series.push((run.report.policy.clone(), vec![value])),
        }
    }
    series
}

fn existing(run: &PolicyRun) -> Option<f64> {
    match run.existing {
        LiveProcesses::Exactly(existing) => Some(count(existing)),
        LiveProcesses::Recorded => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn count(number: usize) -> f64 {
    number as f64
}
