//! How well the model of creation sites predicts a trace: it learns from the first half, and is asked about the second.
//!
//! ```text
//!   first half   ──Created, Executed, Arguments, Ended──> Model
//!   second half  ──site──> Model ──> predicted        error: | ln (predicted / actual) |
//! ```
//!
//! What is predicted is the processor time of a row, or its life in a trace without processor times. Beside the model stand what the simplest
//! predictors say that have seen the same half: the mean of all, the median of the parent's program, and the median of the child's program.
//!
//! The site of a row is the one in the column `site`. In a trace without that column, the parent's program and arguments stand for it, with the
//! number of the creation among those of its parent.

use std::collections::HashMap;

use regrow_pool::trace::Creation;
use regrow_sites::site::{Frame, ImageId, Site};
use regrow_sites::{Arguments, Event, Model, ProcessKey, Usage};
use serde::Serialize;

/// The errors of one predictor over the second half.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Error {
    /// The median of |ln (predicted / actual)|.
    pub median: f64,
    /// Its mean.
    pub mean: f64,
}

/// The errors of all predictors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Errors {
    /// Whether processor times were predicted; else lives.
    pub is_cpu: bool,
    /// Rows that were predicted.
    pub rows: usize,
    /// The mean of all.
    pub mean_of_all: Error,
    /// The median of the parent's program.
    pub parent_image: Error,
    /// The median of the child's program.
    pub child_image: Error,
    /// The model at the creation, when what the child executes is not known.
    pub at_creation: Error,
    /// The model at the exec, when that is known.
    pub at_exec: Error,
    /// The model at the exec, when the arguments are known too.
    pub at_exec_with_arguments: Error,
}

/// A row as the model is told of it.
struct Case {
    site: Site,
    child: ImageId,
    arguments: Arguments,
    key: ProcessKey,
    parent: ProcessKey,
    usage: Usage,
    start_us: u64,
    end_us: u64,
}

/// The errors for a trace.
#[must_use]
pub fn errors(trace: &[Creation]) -> Errors {
    let is_cpu = trace.iter().any(|row| row.cpu_us.is_some());
    let cases: Vec<Case> = (0..trace.len()).filter_map(|row| case(trace, row, is_cpu)).collect();
    let sites = sites(&cases);
    let (learned, asked) = cases.split_at(cases.len() / 2);
    let half_us = asked.first().map_or(0, |case| case.start_us);
    let mut model = Model::default();
    for (time_us, _, events) in steps(learned) {
        // What ends later is not known when the second half begins.
        events.iter().filter(|_| time_us <= half_us).for_each(|event| model.observe(event));
    }
    let mut simple = Simple::default();
    learned.iter().filter(|case| case.end_us <= half_us).for_each(|case| simple.learn(case));
    let asked: Vec<(&Case, Site)> = asked.iter().zip(sites.into_iter().skip(learned.len())).collect();
    let error = |predict: &dyn Fn(&Case, &Site) -> f64| {
        let ratio = |(case, site): &(&Case, Site)| (predict(case, site).max(1.0) / actual(case)).ln().abs();
        error_of(asked.iter().map(ratio).collect())
    };
    let with_child = |case: &Case, site: &Site| Site { child: Some(case.child), ..*site };
    Errors {
        is_cpu,
        rows: asked.len(),
        mean_of_all: error(&|_, _| mean(&simple.all)),
        parent_image: error(&|case, _| simple.median(&simple.of_parent, case.site.image)),
        child_image: error(&|case, _| simple.median(&simple.of_child, case.child)),
        at_creation: error(&|_, site| median_of(&model, site, None)),
        at_exec: error(&|case, site| median_of(&model, &with_child(case, site), None)),
        at_exec_with_arguments: error(&|case, site| {
            median_of(&model, &with_child(case, site), Some(case.arguments))
        }),
    }
}

/// The site of each case, with what a model of the processes that live knows of its parent at that time.
fn sites(cases: &[Case]) -> Vec<Site> {
    let mut alive = Model::default();
    let mut sites: Vec<Site> = cases.iter().map(|case| case.site).collect();
    for (_, created, events) in steps(cases) {
        if let Some(number) = created {
            sites[number] = alive.completed(cases[number].parent, &cases[number].site);
        }
        events.iter().for_each(|event| alive.observe(event));
    }
    sites
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of at most hours")]
fn median_of(model: &Model, site: &Site, arguments: Option<Arguments>) -> f64 {
    model.predict_call(site, arguments).cpu_us.quantile(0.5) as f64
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of at most hours")]
fn actual(case: &Case) -> f64 {
    case.usage.cpu_us.max(1) as f64
}

/// A row as a case; `None` when it has no time.
fn case(trace: &[Creation], row: usize, is_cpu: bool) -> Option<Case> {
    let creation = &trace[row];
    let maker = (creation.parent as usize).checked_sub(1).map(|parent| &trace[parent]);
    let life_us = creation.end_us.saturating_sub(creation.start_us);
    let cpu_us = if is_cpu { creation.cpu_us? } else { life_us };
    let key = |number: usize, start_us| ProcessKey {
        pid: u32::try_from(number).unwrap_or(0),
        created_us: start_us,
    };
    let site = Site {
        image: maker.map_or(ImageId::UNKNOWN, |maker| image(&maker.program)),
        frames: [creation.site.map(|offset| Frame { module: ImageId::UNKNOWN, offset }), None, None],
        script: None,
        child: None,
    };
    Some(Case {
        site,
        child: image(&creation.program),
        arguments: Arguments { magnitude: 0, class: low(creation.argv_hash) },
        key: key(row + 1, creation.start_us),
        parent: key(creation.parent as usize, maker.map_or(0, |maker| maker.start_us)),
        usage: Usage { cpu_us, life_us, peak_kib: creation.peak_kib.unwrap_or(0), startup_us: None },
        start_us: creation.start_us,
        end_us: creation.end_us,
    })
}

fn image(program: &str) -> ImageId {
    ImageId::of_build_id(program.as_bytes())
}

fn low(hash: u64) -> u32 {
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0)
}

/// What happens at a time: the number of the case that is created, and the events.
type Step = (u64, Option<usize>, Vec<Event>);

/// What happens to these processes, in order.
fn steps(cases: &[Case]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let (time_us, process) = (case.start_us, case.key);
        let begins = vec![
            Event::Created { time_us, process, parent: case.parent, site: case.site },
            Event::Executed { time_us, process, image: case.child },
            Event::Arguments { process, arguments: case.arguments },
        ];
        steps.push((time_us, Some(number), begins));
        let ends = Event::Ended { time_us: case.end_us, process, usage: case.usage };
        steps.push((case.end_us, None, vec![ends]));
    }
    steps.sort_by_key(|&(time_us, ..)| time_us);
    steps
}

/// The simplest predictors.
#[derive(Default)]
struct Simple {
    all: Vec<f64>,
    of_parent: HashMap<ImageId, Vec<f64>>,
    of_child: HashMap<ImageId, Vec<f64>>,
}

impl Simple {
    fn learn(&mut self, case: &Case) {
        let actual = actual(case);
        self.all.push(actual);
        self.of_parent.entry(case.site.image).or_default().push(actual);
        self.of_child.entry(case.child).or_default().push(actual);
    }

    /// The median of an image, or of all where it was not seen.
    fn median(&self, of: &HashMap<ImageId, Vec<f64>>, image: ImageId) -> f64 {
        median(of.get(&image).unwrap_or(&self.all).clone())
    }
}

fn error_of(ratios: Vec<f64>) -> Error {
    Error { mean: mean(&ratios), median: median(ratios) }
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use regrow_pool::trace;

    use super::*;

    fn recorded(path: &Path) -> Errors {
        let errors = errors(&trace::read(File::open(path).unwrap()).unwrap());
        println!("{}: {errors:#?}", path.display());
        errors
    }

    #[test]
    fn the_model_errs_less_than_the_simple_predictors_on_the_recorded_traces() {
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
        // How much of the error by the parent's program alone may be left.
        for (name, left) in [("make", 0.5), ("git", 0.7), ("python", 0.9), ("web", 0.9)] {
            let errors = recorded(&traces.join(format!("{name}-1000.csv")));
            let at_exec = errors.at_exec_with_arguments;
            assert!(errors.rows >= 490 && !errors.is_cpu, "{name}");
            assert!(at_exec.median <= left * errors.parent_image.median, "{name}");
            assert!(
                at_exec.mean < errors.parent_image.mean && at_exec.median < errors.child_image.median,
                "{name}"
            );
            assert!(at_exec.median < errors.mean_of_all.median, "{name}");
        }
        // Others that a person asks for: REGROW_TRACES="make.csv git.csv".
        let others = std::env::var("REGROW_TRACES").unwrap_or_default();
        for path in others.split_whitespace() {
            recorded(Path::new(path));
        }
    }

    #[test]
    fn a_site_in_the_trace_is_the_one_that_counts() {
        // One program creates from two places; only the column says from which.
        let mut rows = vec![Creation { program: "make".to_owned(), end_us: 1 << 40, ..Creation::default() }];
        for number in 0..100_u64 {
            let is_long = number * 7 % 3 == 0;
            rows.push(Creation {
                program: "sh".to_owned(),
                parent: 1,
                start_us: number * 1_000,
                end_us: number * 1_000 + 500,
                cpu_us: Some(if is_long { 90_000 } else { 300 }),
                site: Some(u64::from(is_long)),
                ..Creation::default()
            });
        }
        let with = errors(&rows);
        assert!(with.is_cpu && with.at_creation.mean < 0.1, "{with:?}");
        rows.iter_mut().for_each(|row| row.site = None);
        assert!(errors(&rows).at_creation.mean > 1.0);
    }
}
