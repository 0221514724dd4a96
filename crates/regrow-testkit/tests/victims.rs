//! Every victim passes in every flavour: at each snapshot point in production settings and in verify mode, with each kernel
//! feature that Regrow can do without taken away, and with recycling off, which proves the suite itself.
//!
//! One part of it: `REGROW_VICTIM=text` keeps the cases whose names contain the text (`=text` those of this name),
//! `REGROW_FLAVOUR=text` the flavours, `REGROW_RUNS=n` sets how often each case runs, `REGROW_LONG=1` has all builds of the
//! victims run in all flavours, and more often. The victims must be built (`make victims`).
//!
//! The test is a program without the usual frame of tests, because its workers are the same program.

use std::process::ExitCode;

use regrow_testkit::summary::{self, Extent};
use regrow_testkit::victims::{
    Flavour, Fleet, Job, Manifest, VictimsError, built_victims_dir, project_victims_dir, run_worker,
};

/// The least share of the runs that must not have fallen back to exec: a suite that did would prove nothing.
const LEAST_RECYCLED_PERCENT: usize = 95;
/// How many workers there are: the test is meant for two processors.
const WORKERS: usize = 2;

/// Whether a name is one that a variable asks for.
fn wanted(variable: &str, name: &str) -> bool {
    match std::env::var(variable) {
        Err(_) => true,
        Ok(text) => text.strip_prefix('=').map_or_else(|| name.contains(&text), |exact| name == exact),
    }
}

fn runs(flavour: Flavour, extent: Extent) -> usize {
    let asked = std::env::var("REGROW_RUNS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| flavour.runs(extent))
}

fn jobs(manifest: &Manifest) -> Vec<Job> {
    let is_root = rustix::process::getuid().is_root();
    let extent = summary::extent();
    let mut jobs = Vec::new();
    for flavour in Flavour::all().into_iter().filter(|flavour| wanted("REGROW_FLAVOUR", &flavour.to_string()))
    {
        let runs = runs(flavour, extent);
        if runs == 0 {
            continue;
        }
        let is_any_build = !flavour.takes_one_build(extent);
        let cases = manifest.cases.iter().filter(|case| wanted("REGROW_VICTIM", &case.name));
        let cases = cases.filter(|case| is_any_build || case.is_first_build);
        let cases = cases.filter(|case| (is_root || !case.root_only) && flavour.takes(case).is_ok());
        jobs.extend(cases.map(|case| Job { flavour: flavour.to_string(), case: case.name.clone(), runs }));
    }
    jobs
}

fn run() -> Result<ExitCode, VictimsError> {
    let manifest = Manifest::load(&project_victims_dir(), &built_victims_dir())?;
    if run_worker(&manifest)?.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    let jobs = jobs(&manifest);
    let is_empty = jobs.is_empty();
    let tally = Fleet { workers: WORKERS }.run(jobs)?;
    print!("{tally}");
    let added = summary::add(&tally.sum());
    added.unwrap_or_else(|error| println!("the summary cannot be written: {error}"));
    let (runs, kept) = tally.recycled();
    let enough = kept * 100 >= runs * LEAST_RECYCLED_PERCENT;
    if !enough {
        println!("FAILED: less than {LEAST_RECYCLED_PERCENT} % of the runs were recycled");
    }
    if is_empty {
        println!("FAILED: no victim is asked for");
    }
    Ok(if enough && !is_empty && tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        println!("FAILED: {error}");
        ExitCode::FAILURE
    })
}
