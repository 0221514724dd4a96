//! The paper's tables 1 to 3: the average running time of processes by the program and the place in it that created them, in Chromium, in a build, and
//! in LibreOffice.

use regrow_profile::report::Order;
use regrow_profile::savings::Basis;
use regrow_profile::{Profile, Report, Savings, Symbols};
use regrow_sites::Event;

use super::workloads::{Workloads, by_kernel, by_library};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::watched::Scripts;

/// How many sites a table has of each run, those with most processor time.
const SITES: usize = 8;
/// For how long a page is open.
const PAGE_SECONDS: u32 = 5;
/// Programs that only begin what is looked at.
const DRIVERS: [&str; 3] = ["regrow", "bash", "timeout"];
/// The fewest sites with a place that a run is to have.
const LEAST: usize = 3;

/// Rows of all three.
pub(super) fn measure(workloads: &Workloads) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for kind in ["page", "script", "video"] {
        let events = by_kernel("chromium", &mut workloads.browser(PAGE_SECONDS, &[kind]))?;
        figures.extend(table(&format!("table 1, Chromium, {kind}"), events, Scripts::new())?);
    }
    let events = by_kernel("make", &mut workloads.make())?;
    figures.extend(table("table 2, zlib's configure and make", events, Scripts::new())?);
    let (events, scripts) = by_library("make", &mut workloads.make())?;
    figures.extend(table("table 2, zlib's configure and make, by lines of scripts", events, scripts)?);
    for kind in ["calc", "draw", "writer"] {
        let events = by_kernel("soffice", &mut workloads.office(kind))?;
        figures.extend(table(&format!("table 3, LibreOffice, {kind}"), events, Scripts::new())?);
    }
    Ok(figures)
}

/// The sites of a run with most processor time: how often, and for how long on average.
fn table(name: &str, events: Vec<Event>, scripts: Scripts) -> Result<Vec<Figure>, BenchError> {
    let mut profile = Profile::new();
    events.into_iter().for_each(|event| profile.take(event));
    scripts.into_iter().for_each(|(hash, name)| profile.name_script(hash, name));
    profile.finish();
    let basis = Basis { base_us: 0.0, from: String::new(), smallest_start_us: None };
    let savings = Savings::new(basis, |_| Default::default());
    let report = Report::new(name, &profile, &mut Symbols::default(), &savings, Order::Cpu);
    let program_of = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let with_place = report.sites.iter().filter(|site| {
        !site.place.is_empty() && site.cpu.is_some() && !DRIVERS.contains(&program_of(&site.parent).as_str())
    });
    let mut figures = Vec::new();
    for site in with_place.take(SITES) {
        let Some(cpu) = site.cpu else { continue };
        let title = format!(
            "{name}: {} in {} → {}, {} times",
            site.place,
            program_of(&site.parent),
            site.child,
            site.count
        );
        figures.push(Figure::told(&title, cpu.mean_us / 1000.0, "ms"));
    }
    if figures.len() < LEAST {
        let what = format!("{} sites have a place, not {LEAST}", figures.len());
        return Err(BenchError::WrongRun { program: name.to_owned(), what });
    }
    Ok(figures)
}
