//! Keeps what benchmarks measured: `keep-results FIGURES RESULTS PLOTS`.
//!
//! ```text
//!   FIGURES/daemon.json  ──> machine, date ──> RESULTS/daemon.json      each file of a benchmark that is there
//!   RESULTS/trace.json   ──> plots of the replay ──> PLOTS/*.svg, *.png
//!   RESULTS/memory.json  ──> figures 6 and 7 of the memory service, likewise
//! ```
//!
//! `make results` calls it. `cargo xtask gen` writes README and evaluation from the results.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use regrow_bench::figure::Figure;
use regrow_bench::plot::draw;
use regrow_bench::plot::error::PlotError;
use regrow_bench::replay::result::ReplayResult;
use regrow_bench::results::{ResultsError, ResultsFile};

/// The benchmarks whose files are lists of figures.
const FIGURES: [&str; 10] = [
    "celery",
    "daemon",
    "ladder",
    "memory",
    "pool",
    "python",
    "python-interpreters",
    "python-suites",
    "sites",
    "web",
];
/// The others. What they write is their own.
const OTHERS: [&str; 3] = ["programs", "resources", "pages"];
/// The replay of the first experiment, of which there are plots.
const TRACE: &str = "trace";
/// The memory service, of which figures 6 and 7 are plots.
const MEMORY: &str = "memory";

/// Why results are not kept.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("usage: keep-results FIGURES RESULTS PLOTS")]
    Usage,
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error(transparent)]
    Plot(#[from] PlotError),
}

fn main() -> ExitCode {
    match keep() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("keep-results: {error}");
            ExitCode::FAILURE
        }
    }
}

fn keep() -> Result<(), KeepError> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [figures, results, plots] = args.as_slice() else { return Err(KeepError::Usage) };
    for name in FIGURES.into_iter().chain(OTHERS).chain([TRACE]) {
        let path = figures.join(format!("{name}.json"));
        if !path.exists() {
            println!("left as it is: {name}");
            continue;
        }
        let file = ResultsFile::of_figures(&path)?;
        if FIGURES.contains(&name) {
            file.figures::<Vec<Figure>>()?;
        }
        println!("kept: {}", file.write(results)?.display());
    }
    draw_trace(&results.join(format!("{TRACE}.json")), plots)?;
    draw_memory(&results.join(format!("{MEMORY}.json")), plots)
}

fn draw_memory(results: &Path, plots: &Path) -> Result<(), KeepError> {
    if results.exists() {
        let figures: Vec<Figure> = ResultsFile::read(results)?.figures()?;
        draw::make_folder(plots)?;
        let sheets = draw::draw_scaling(plots, &figures)?;
        println!("drawn: {sheets} sheets of {MEMORY} in {}", plots.display());
    }
    Ok(())
}

fn draw_trace(results: &Path, plots: &Path) -> Result<(), KeepError> {
    if results.exists() {
        let replay: ReplayResult = ResultsFile::read(results)?.figures()?;
        draw::make_folder(plots)?;
        draw::draw(plots, &replay)?;
        println!("drawn: {}", plots.display());
    }
    Ok(())
}
