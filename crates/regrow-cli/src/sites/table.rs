//! The table of sites, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use regrow_bench::table::{Alignment, TextTable};
use regrow_profile::Report;
use regrow_profile::report::SiteRow;
use regrow_profile::text::{file_name, plain, time};

/// Stands for what is not known.
const UNKNOWN: &str = "-";

/// The headings.
pub(super) const COLUMNS: [&str; 10] = [
    "created at",
    "in",
    "child",
    "count",
    "cpu\nmean",
    "\np99",
    "life\nmean",
    "\np99",
    "start-\nup",
    "saved\nabout",
];

/// The cells of a row.
pub(super) fn cells(site: &SiteRow) -> [String; COLUMNS.len()] {
    let known = |micros: Option<f64>| micros.map_or(UNKNOWN.to_owned(), time);
    [
        place(site),
        parent(site),
        site.child.clone(),
        site.count.to_string(),
        known(site.cpu.map(|cpu| cpu.mean_us)),
        known(site.cpu.map(|cpu| cpu.p99_us)),
        known(site.life.map(|life| life.mean_us)),
        known(site.life.map(|life| life.p99_us)),
        site.startup_share.map_or(UNKNOWN.to_owned(), |share| format!("{:.0} %", 100.0 * share)),
        match (&site.saved.refused, site.saved.total_us) {
            (Some(_), 0.0) => UNKNOWN.to_owned(),
            (_, total_us) => time(total_us),
        },
    ]
}

/// Where in its parent, and in which function.
fn place(site: &SiteRow) -> String {
    match &site.function {
        Some(function) if site.script.is_none() && !site.place.starts_with(function.as_str()) => {
            format!("{} {}", site.place, plain(function))
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
    let alignments = [Alignment::Name; 3].into_iter().chain([Alignment::Right; COLUMNS.len() - 3]);
    let columns: Vec<(&str, Alignment)> = COLUMNS.into_iter().zip(alignments).collect();
    let mut table = TextTable::new(&columns);
    for site in report.sites.iter().take(limit) {
        table.row(cells(site));
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
