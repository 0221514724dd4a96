//! How well the model of creation sites predicts: it learns from the first half of what happened, and is asked about the second.
//!
//! ```text
//!   first half   ──Created, Executed, Arguments, Ended──> Model
//!   second half  ──site──> Model ──> predicted        error: | ln (predicted / actual) |
//! ```
//!
//! What is predicted is the processor time of each process that was created in the second half: at its creation, when what it executes is not
//! known, and at its first exec. Beside the model stand what the simplest predictors say that have seen the same half: the mean of all, the median
//! of the parent's program, and the median of the child's program. And the floor: what one would err who knew beforehand the median of the same
//! call at the same site in the second half itself.

mod of_trace;

use std::collections::HashMap;
use std::hash::Hash;

use regrow_sites::{Arguments, Event, ImageId, Model, ProcessKey, Site};
use serde::Serialize;

pub use of_trace::events_of;

/// The errors of one predictor over the second half.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Error {
    /// The median of |ln (predicted / actual)|.
    pub median: f64,
    /// Its mean.
    pub mean: f64,
}

/// The errors of all predictors.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Errors {
    /// Processes that were predicted at their creation, and at their exec.
    pub created: usize,
    /// The same at their exec.
    pub executed: usize,
    /// The mean of all.
    pub mean_of_all: Error,
    /// The median of the parent's program.
    pub parent_image: Error,
    /// The model at the creation, when what the child executes is not known.
    pub at_creation: Error,
    /// The median of the child's program.
    pub child_image: Error,
    /// The model at the exec, when that is known.
    pub at_exec: Error,
    /// The model at the exec, when the arguments are known too.
    pub at_exec_with_arguments: Error,
    /// The median of the same call at the same site in the second half, in hindsight, of those that are there twice at least.
    pub floor: Error,
}

/// A process that was created, and has ended.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// With what was known of its parent at that time.
    site: Site,
    /// What it executed first.
    child: Option<ImageId>,
    arguments: Option<Arguments>,
    executions: u32,
    cpu_us: Option<u64>,
    /// Created in the second half.
    is_asked: bool,
    /// Ended in the first one.
    is_learned: bool,
}

/// The errors for what has happened. Half of the creations are learned from.
#[must_use]
pub fn errors(events: &[Event]) -> Errors {
    let creations = events.iter().filter(|event| matches!(event, Event::Created { .. })).count();
    let mut seen = 0;
    let middle = events.iter().position(|event| {
        seen += usize::from(matches!(event, Event::Created { .. }));
        seen > creations / 2
    });
    let middle = middle.unwrap_or(events.len());
    let cases = cases(events, middle);
    let mut model = Model::default();
    events[..middle].iter().for_each(|event| model.observe(event));
    let mut simple = Simple::default();
    cases.iter().filter(|case| case.is_learned).for_each(|case| simple.learn(case));
    compare(&model, &simple, &cases)
}

fn compare(model: &Model, simple: &Simple, cases: &[Case]) -> Errors {
    let asked: Vec<&Case> = cases.iter().filter(|case| case.is_asked && case.cpu_us.is_some()).collect();
    let executed: Vec<&Case> = asked.iter().copied().filter(|case| case.child.is_some()).collect();
    let error = |of: &[&Case], predict: &dyn Fn(&Case) -> f64| {
        error_of(of.iter().map(|case| (predict(case).max(1.0) / actual(case)).ln().abs()).collect())
    };
    let with_child = |case: &Case| Site { child: case.child, ..case.site };
    Errors {
        created: asked.len(),
        executed: executed.len(),
        mean_of_all: error(&asked, &|_| mean(&simple.all)),
        parent_image: error(&asked, &|case| simple.median(&simple.of_parent, &case.site.image)),
        at_creation: error(&asked, &|case| median_of(model, &case.site, None)),
        child_image: error(&executed, &|case| simple.median(&simple.of_child, &case.child)),
        at_exec: error(&executed, &|case| median_of(model, &with_child(case), None)),
        at_exec_with_arguments: error(&executed, &|case| median_of(model, &with_child(case), case.arguments)),
        floor: floor(&executed),
    }
}

/// What is left to err where the same call at the same site takes another time.
fn floor(executed: &[&Case]) -> Error {
    let mut calls: HashMap<(Site, Option<ImageId>, Option<Arguments>), Vec<f64>> = HashMap::new();
    for case in executed {
        calls.entry((case.site, case.child, case.arguments)).or_default().push(actual(case));
    }
    let of_call = |times: Vec<f64>| {
        let middle = median(times.clone());
        times.into_iter().map(move |time| (middle / time).ln().abs())
    };
    error_of(calls.into_values().filter(|times| times.len() > 1).flat_map(of_call).collect())
}

/// All processes that were created, those of the second half with the site that a model of the living completes.
fn cases(events: &[Event], middle: usize) -> Vec<Case> {
    let mut alive = Model::default();
    let mut cases: Vec<Case> = Vec::new();
    let mut numbers: HashMap<ProcessKey, usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        let is_learned = at < middle;
        match event {
            Event::Created { process, parent, site, .. } => {
                numbers.insert(*process, cases.len());
                cases.push(Case {
                    site: alive.completed(*parent, site),
                    child: None,
                    arguments: None,
                    executions: 0,
                    cpu_us: None,
                    is_asked: !is_learned,
                    is_learned: false,
                });
            }
            Event::Executed { process, .. }
            | Event::Arguments { process, .. }
            | Event::Ended { process, .. } => {
                if let Some(case) = numbers.get(process).and_then(|&number| cases.get_mut(number)) {
                    case.take(event, is_learned);
                }
            }
            Event::Named { .. } | Event::Outlived { .. } | Event::Symbol { .. } => {}
        }
        alive.observe(event);
    }
    cases
}

impl Case {
    fn take(&mut self, event: &Event, is_learned: bool) {
        match event {
            Event::Executed { image, .. } => {
                self.executions += 1;
                self.child = self.child.or(Some(*image));
            }
            Event::Arguments { arguments, .. } if self.executions == 1 => self.arguments = Some(*arguments),
            Event::Ended { usage, .. } => {
                (self.cpu_us, self.is_learned) = (Some(usage.cpu_us), is_learned);
            }
            _ => {}
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of at most hours")]
fn median_of(model: &Model, site: &Site, arguments: Option<Arguments>) -> f64 {
    model.predict_call(site, arguments).cpu_us.quantile(0.5) as f64
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of at most hours")]
fn actual(case: &Case) -> f64 {
    case.cpu_us.unwrap_or(0).max(1) as f64
}

/// The simplest predictors.
#[derive(Default)]
struct Simple {
    all: Vec<f64>,
    of_parent: HashMap<ImageId, Vec<f64>>,
    of_child: HashMap<Option<ImageId>, Vec<f64>>,
}

impl Simple {
    fn learn(&mut self, case: &Case) {
        let actual = actual(case);
        self.all.push(actual);
        self.of_parent.entry(case.site.image).or_default().push(actual);
        self.of_child.entry(case.child).or_default().push(actual);
    }

    /// The median of a program, or of all where it was not seen.
    fn median<K: Hash + Eq>(&self, of: &HashMap<K, Vec<f64>>, program: &K) -> f64 {
        median(of.get(program).unwrap_or(&self.all).clone())
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

    use regrow_pool::trace::{self, Creation};

    use super::*;

    fn recorded(path: &Path) -> Errors {
        let errors = errors(&events_of(&trace::read(File::open(path).unwrap()).unwrap()));
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
            assert!(errors.executed >= 490, "{name}");
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
        let with = errors(&events_of(&rows));
        assert!(with.at_creation.mean < 0.1, "{with:?}");
        rows.iter_mut().for_each(|row| row.site = None);
        assert!(errors(&events_of(&rows)).at_creation.mean > 1.0);
    }
}
