//! What a creation costs more where the preloaded library tells of it.
//!
//! A turn with the library and one without it go by in pairs, in the order A B B A; every creation must be told. The difference is that of a pair, and of
//! all differences the median is the figure. Beside it stands what a library costs in which there is nothing: its mappings alone, which a fork copies.

use std::fs::File;

use regrow_sites::Event;

use super::creator::{self, Creator, TIMED, WARM, WAYS};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;
use crate::watched::watch;

/// How many pairs of turns.
const PAIRS: usize = 16;
/// What a creation may cost more, in microseconds.
const ASKED_US: f64 = 2.0;

/// Measures each way to create.
pub(super) fn measure(creator: &Creator) -> Result<Vec<Figure>, BenchError> {
    let folder = tempfile::tempdir().map_err(BenchError::system("a temporary folder cannot be made"))?;
    let output = folder.path().join("output");
    let mut figures = Vec::new();
    for (name, way) in WAYS {
        let (mut without, mut more, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            let first = if pair % 2 == 0 { Some(creator.turn(way)?) } else { None };
            let with = watched(creator, way, &output)?;
            let plain = first.map_or_else(|| creator.turn(way), Ok)?;
            without.push(plain);
            more.push(with - plain);
            empty.push(creator.turn_with_empty_library(way)? - plain);
        }
        let title = |what: &str| format!("preloaded library, {name}: {what}");
        figures.push(Figure::at_most(&title("more for each creation"), median(more), ASKED_US, "µs"));
        figures.push(Figure::told(
            &title("more with a library in which there is nothing"),
            median(empty),
            "µs",
        ));
        figures.push(Figure::told(&title("without it"), median(without), "µs"));
    }
    Ok(figures)
}

/// A turn of which everything is told.
fn watched(creator: &Creator, way: &str, output: &std::path::Path) -> Result<f64, BenchError> {
    let file = File::create(output).map_err(creator::failed())?;
    let mut command = creator.command(way);
    let watched = watch(command.stdout(file))?;
    let own = std::process::id();
    let is_child = |event: &&Event| matches!(event, Event::Created { parent, site, .. } if parent.pid != own && site.frames[0].is_some());
    let told = watched.events.iter().filter(is_child).count() as u64;
    if told != WARM + TIMED || watched.lost() > 0 {
        let what = format!(
            "{told} of {} creations were told with a place; {} words lost",
            WARM + TIMED,
            watched.lost()
        );
        return Err(BenchError::WrongRun {
            program: format!("a process that creates others by {way}"),
            what,
        });
    }
    creator::read(&std::fs::read(output).map_err(creator::failed())?, way)
}
