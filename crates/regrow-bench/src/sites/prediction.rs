//! How well processor times are predicted, on what real programs do: see [`crate::predict`].
//!
//! The comparison is with the program alone: at a creation with the parent's, which is the paper's "per image", and at an exec with the child's.

use regrow_sites::Event;

use super::workloads::{Workloads, by_kernel, by_library};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::predict::{Errors, errors};

/// The least processes that a workload is to have predicted.
const LEAST: usize = 60;
/// What is asked: how much less the error is, in percent.
const ASKED: f64 = 30.0;
/// Pages that the browser loads, each for so many seconds.
const PAGES: [&str; 12] = [
    "page", "script", "video", "script", "page", "video", "page", "script", "video", "video", "page",
    "script",
];
const PAGE_SECONDS: u32 = 2;

/// Watches each workload, and predicts the second half of it.
pub(super) fn measure(workloads: &Workloads) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    let watched = [
        ("make", by_library("make", &mut workloads.make())?.0),
        ("git", by_library("git", &mut workloads.git())?.0),
        ("Python", by_library("Python", &mut workloads.python())?.0),
        ("browser", by_kernel("browser", &mut workloads.browser(PAGE_SECONDS, &PAGES))?),
    ];
    for (name, events) in watched {
        figures.extend(predicted(name, &events)?);
    }
    Ok(figures)
}

fn predicted(name: &str, events: &[Event]) -> Result<Vec<Figure>, BenchError> {
    let errors = errors(events);
    if errors.executed < LEAST {
        let what = format!("{} processes were predicted, not {LEAST}", errors.executed);
        return Err(BenchError::WrongRun { program: name.to_owned(), what });
    }
    let Errors { parent_image, at_creation, child_image, at_exec, at_exec_with_arguments, floor, .. } =
        errors;
    let title = |what: &str| format!("prediction, {name}: {what}");
    let less = |error: f64, than: f64| (1.0 - error / than) * 100.0;
    let best = at_exec.median.min(at_exec_with_arguments.median);
    Ok(vec![
        Figure::told(&title("processes that were predicted"), count(errors.executed), "processes"),
        Figure::told(&title("error at creation by the parent's program"), parent_image.median, "|ln|"),
        Figure::told(&title("error at creation by the site"), at_creation.median, "|ln|"),
        Figure::at_least(
            &title("less error at creation"),
            less(at_creation.median, parent_image.median),
            ASKED,
            "%",
        ),
        Figure::told(&title("error at exec by the child's program"), child_image.median, "|ln|"),
        Figure::told(&title("error at exec by the site"), at_exec.median, "|ln|"),
        Figure::told(
            &title("error at exec by the site and arguments"),
            at_exec_with_arguments.median,
            "|ln|",
        ),
        Figure::told(&title("error of the same call there, in hindsight"), floor.median, "|ln|"),
        Figure::at_least(&title("less error at exec"), less(best, child_image.median), ASKED, "%"),
        Figure::told(&title("less error at exec, the floor"), less(floor.median, child_image.median), "%"),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn count(number: usize) -> f64 {
    number as f64
}
