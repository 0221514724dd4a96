//! The table of sites, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use regrow_bench::table::{Alignment, TextTable};
use regrow_profile::Report;
use regrow_profile::report::SiteRow;
use regrow_profile::savings::SavedFrom;
use regrow_profile::text::{file_name, plain, short_function, time};

/// Stands for what is not known.
const UNKNOWN: &str = "-";

/// A column: its heading, that in one line, and the width that a figure needs; `None`: a name, which takes what is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct SiteColumn {
    heading: &'static str,
    pub(super) title: &'static str,
    pub(super) width: Option<u16>,
    pub(super) cell: fn(&SiteRow) -> String,
    /// It is left out where there is little room.
    is_more: bool,
}

const fn name(heading: &'static str, cell: fn(&SiteRow) -> String) -> SiteColumn {
    SiteColumn { heading, title: heading, width: None, cell, is_more: false }
}

const fn figure(heading: &'static str, title: &'static str, cell: fn(&SiteRow) -> String) -> SiteColumn {
    SiteColumn { heading, title, width: Some(9), cell, is_more: false }
}

const fn more(heading: &'static str, title: &'static str, cell: fn(&SiteRow) -> String) -> SiteColumn {
    SiteColumn { is_more: true, ..figure(heading, title, cell) }
}

/// The columns.
const COLUMNS: [SiteColumn; 10] = [
    name("created at", place),
    name("in", parent),
    name("child", |site| site.child.clone()),
    figure("count", "count", |site| site.count.to_string()),
    figure("cpu\nmean", "cpu mean", |site| known(site.cpu.map(|cpu| cpu.mean_us))),
    more("cpu\np99", "cpu p99", |site| known(site.cpu.map(|cpu| cpu.p99_us))),
    figure("life\nmean", "life mean", |site| known(site.life.map(|life| life.mean_us))),
    more("life\np99", "life p99", |site| known(site.life.map(|life| life.p99_us))),
    more("start-\nup", "start-up", startup),
    figure("saved\nabout", "saved", saved),
];
/// Narrower terminals show fewer columns.
const WIDTH_OF_ALL: usize = 110;

/// The columns for a width.
pub(super) fn columns(width: usize) -> Vec<SiteColumn> {
    COLUMNS.into_iter().filter(|column| width >= WIDTH_OF_ALL || !column.is_more).collect()
}

fn known(micros: Option<f64>) -> String {
    micros.map_or(UNKNOWN.to_owned(), time)
}

fn startup(site: &SiteRow) -> String {
    site.startup_share.map_or(UNKNOWN.to_owned(), |share| format!("{:.0} %", 100.0 * share))
}

fn saved(site: &SiteRow) -> String {
    if site.saved.from == SavedFrom::Nothing { UNKNOWN.to_owned() } else { time(site.saved.total_us) }
}

/// Where in its parent, and in which function.
fn place(site: &SiteRow) -> String {
    match &site.function {
        Some(function) if site.script.is_none() && !site.place.starts_with(&short_function(function)) => {
            format!("{} {}", site.place, plain(&short_function(function)))
        }
        _ if site.place.is_empty() => UNKNOWN.to_owned(),
        _ => site.place.clone(),
    }
}

/// The parent's program, and what it called of the C library.
fn parent(site: &SiteRow) -> String {
    let program = if site.parent.is_empty() { "?".to_owned() } else { plain(file_name(&site.parent)) };
    site.through.as_ref().map_or(program.clone(), |through| format!("{program}, {}", plain(through)))
}

/// The table, what it leaves out, and what the figures are.
pub(super) fn table(report: &Report, limit: usize, width: usize) -> String {
    let mut text = String::from("\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} processes at {} sites in {}; {} of processor time; recycled starts would have saved about {}",
        report.counts.created,
        report.sites.len(),
        time(micros(report.span_us)),
        time(micros(report.nodes.iter().map(|node| node.cpu_us).fold(0, u64::saturating_add))),
        time(report.saved_us),
    );
    if report.sites.is_empty() {
        return text;
    }
    let columns = columns(width);
    let alignment = |column: &SiteColumn| column.width.map_or(Alignment::Name, |_| Alignment::Right);
    let headings: Vec<_> = columns.iter().map(|column| (column.heading, alignment(column))).collect();
    let mut table = TextTable::new(&headings);
    for site in report.sites.iter().take(limit) {
        table.row(columns.iter().map(|column| (column.cell)(site)));
    }
    let _ = write!(text, "\n{}", table.render(width));
    if report.sites.len() > limit {
        let (rest, count) =
            (report.sites.len() - limit, report.sites.iter().skip(limit).map(|site| site.count).sum::<u64>());
        let _ = writeln!(text, "… and {rest} sites with {count} processes (--limit)");
    }
    text + &notes(report)
}

#[allow(clippy::cast_precision_loss, reason = "times are shown with three digits")]
fn micros(us: u64) -> f64 {
    us as f64
}

/// What the estimate is made of, what is not recycled, and what is missing.
fn notes(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\nsaved: an estimate. A recycled start is quicker by {} ({}), and by as much as the program's own start-up is longer than the quickest one's here.",
        time(report.basis.base_us),
        plain(&report.basis.from),
    );
    let mut refused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for site in report.sites.iter().filter(|site| !site.programs.is_empty()) {
        if let Some(why) = &site.saved.refused {
            let names = refused.entry(why).or_default();
            if !names.contains(&site.child.as_str()) {
                names.push(&site.child);
            }
        }
    }
    for (why, names) in refused {
        let _ = writeln!(text, "not recycled: {}: {}", names.join(", "), plain(why));
    }
    let counts = &report.counts;
    let missing = [
        (counts.alive, "processes still live; their time is not counted"),
        (counts.lost_ends, "processes whose end was not told"),
        (counts.unknown_ends, "ends of processes that nothing was told of before"),
        (counts.left_out, "processes left out: too many lived at a time"),
    ];
    for (count, what) in missing.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "not complete: {count} {what}");
    }
    text
}

#[cfg(test)]
mod tests;
