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
//! The site of a row is the one in the column `site`. In a trace without that column, parent program and parent arguments stand for it.

use std::collections::HashMap;

use regrow_pool::trace::Creation;
use regrow_sites::site::{Frame, ImageId, Script, Site};
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
    let (learned, asked) = cases.split_at(cases.len() / 2);
    let mut model = Model::default();
    events(learned).iter().for_each(|event| model.observe(event));
    let mut simple = Simple::default();
    learned.iter().for_each(|case| simple.learn(case));
    let error = |predict: &dyn Fn(&Case) -> f64| {
        let ratio = |case: &Case| (predict(case).max(1.0) / actual(case)).ln().abs();
        error_of(asked.iter().map(ratio).collect())
    };
    let with_child = |case: &Case| Site { child: Some(case.child), ..case.site };
    Errors {
        is_cpu,
        rows: asked.len(),
        mean_of_all: error(&|_| mean(&simple.all)),
        parent_image: error(&|case| simple.median(&simple.of_parent, case.site.image)),
        child_image: error(&|case| simple.median(&simple.of_child, case.child)),
        at_creation: error(&|case| median_of(&model, &case.site, None)),
        at_exec: error(&|case| median_of(&model, &with_child(case), None)),
        at_exec_with_arguments: error(&|case| median_of(&model, &with_child(case), Some(case.arguments))),
    }
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
        script: maker
            .filter(|_| creation.site.is_none())
            .map(|maker| Script { file: maker.argv_hash, line: 0 }),
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

/// What happened to these processes, in order.
fn events(cases: &[Case]) -> Vec<Event> {
    let mut events: Vec<(u64, Event)> = Vec::new();
    for case in cases {
        let (time_us, process) = (case.start_us, case.key);
        events.push((time_us, Event::Created { time_us, process, parent: case.parent, site: case.site }));
        events.push((time_us, Event::Executed { time_us, process, image: case.child }));
        events.push((time_us, Event::Arguments { process, arguments: case.arguments }));
        events.push((case.end_us, Event::Ended { time_us: case.end_us, process, usage: case.usage }));
    }
    events.sort_by_key(|&(time_us, _)| time_us);
    events.into_iter().map(|(_, event)| event).collect()
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

    fn recorded(name: &str) -> Errors {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(name);
        let errors = errors(&trace::read(File::open(&path).unwrap()).unwrap());
        println!("{name}: {errors:#?}");
        errors
    }

    #[test]
    fn the_model_errs_less_than_the_simple_predictors_on_the_recorded_traces() {
        for name in ["make-1000.csv", "git-1000.csv", "python-1000.csv", "web-1000.csv"] {
            let errors = recorded(name);
            let at_exec = errors.at_exec_with_arguments.median;
            assert!(errors.rows >= 490, "{name}");
            assert!(at_exec <= errors.child_image.median, "{name}");
        }
    }

    #[test]
    fn given() {
        for name in std::env::var("TRACES").unwrap_or_default().split_whitespace() {
            let path = Path::new(name);
            let errors = errors(&trace::read(File::open(path).unwrap()).unwrap());
            println!("{name}: {errors:?}");
        }
    }
}
