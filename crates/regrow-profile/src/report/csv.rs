//! A report as CSV: a line for each site.

use std::io;

use super::{Quantity, Report, SiteRow};

/// The columns.
const COLUMNS: [&str; 26] = [
    "parent",
    "place",
    "file",
    "line",
    "function",
    "through",
    "script",
    "child",
    "program",
    "count",
    "alive",
    "starts",
    "children",
    "cpu_sum_us",
    "cpu_mean_us",
    "cpu_p50_us",
    "cpu_p99_us",
    "life_sum_us",
    "life_mean_us",
    "life_p50_us",
    "life_p99_us",
    "startup_mean_us",
    "startup_share",
    "peak_kib",
    "saved_us",
    "not_recycled",
];

impl Report {
    /// As CSV with a header. What is not known is empty.
    ///
    /// # Errors
    /// None that is known: it is written to memory.
    pub fn to_csv(&self) -> io::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(COLUMNS)?;
        for site in &self.sites {
            writer.write_record(fields(site))?;
        }
        writer.into_inner().map_err(csv::IntoInnerError::into_error)
    }
}

fn fields(site: &SiteRow) -> [String; COLUMNS.len()] {
    let own = site.frames.iter().find(|frame| !frame.is_in_libc);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let [cpu_sum, cpu_mean, cpu_p50, cpu_p99] = quantity(site.cpu);
    let [life_sum, life_mean, life_p50, life_p99] = quantity(site.life);
    let peak = if site.peak_kib > 0 { site.peak_kib.to_string() } else { String::new() };
    [
        site.parent.clone(),
        site.place.clone(),
        own.map(|frame| text(&frame.file)).unwrap_or_default(),
        own.and_then(|frame| frame.line).map(|line| line.to_string()).unwrap_or_default(),
        text(&site.function),
        text(&site.through),
        text(&site.script),
        site.child.clone(),
        site.programs.last().cloned().unwrap_or_default(),
        site.count.to_string(),
        site.alive.to_string(),
        site.starts.to_string(),
        site.children.to_string(),
        cpu_sum,
        cpu_mean,
        cpu_p50,
        cpu_p99,
        life_sum,
        life_mean,
        life_p50,
        life_p99,
        site.startup.map(|startup| tenths(startup.mean_us)).unwrap_or_default(),
        site.startup_share.map(|share| format!("{share:.4}")).unwrap_or_default(),
        peak,
        tenths(site.saved.total_us),
        text(&site.saved.refused),
    ]
}

fn quantity(quantity: Option<Quantity>) -> [String; 4] {
    let Some(Quantity { sum_us, mean_us, p50_us, p99_us }) = quantity else { return Default::default() };
    [sum_us.to_string(), tenths(mean_us), tenths(p50_us), tenths(p99_us)]
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}
