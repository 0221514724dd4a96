//! The paper's figures 6 and 7 as sheets: a chart for each size of blocks and each program.
//!
//! | sheet | requests |
//! |---|---|
//! | `memory-figure-6` | immediate |
//! | `memory-figure-7` | delayed |
//!
//! Lines are simulated, with a server on a processor of its own; what stands out is measured.

use super::chart::{Chart, ChartSheet, Legend, Scale};
use crate::figure::Figure;
use crate::memory::scaling::ScalingPoint;

const FIGURES: [(u8, &str); 2] = [(6, "immediate"), (7, "delayed")];
const SIDES: [&str; 6] = ["Linux", "no server", "1 server", "2 servers", "4 servers", "8 servers"];
const WHAT: [(&str, &str); 6] = [
    ("4 KiB", "(a) 4 KiB"),
    ("64 KiB", "(b) 64 KiB"),
    ("2 MiB", "(c) 2 MiB"),
    ("lattice-Boltzmann", "(d) lattice"),
    ("bzip2", "(e) bzip2"),
    ("chess", "(f) chess"),
];
const COLUMNS: usize = 3;

/// The sheets of these figures; none where there is no point.
pub(super) fn sheets(figures: &[Figure]) -> Vec<ChartSheet> {
    let points: Vec<(ScalingPoint, f64)> = figures
        .iter()
        .filter_map(|figure| Some((ScalingPoint::of_name(figure.name())?, figure.measured())))
        .collect();
    let sheet = |(figure, mode): (u8, &str)| ChartSheet {
        name: format!("memory-figure-{figure}"),
        columns: COLUMNS,
        charts: WHAT.iter().filter_map(|&(what, title)| chart(&points, figure, what, title, mode)).collect(),
    };
    FIGURES.into_iter().map(sheet).filter(|sheet| !sheet.charts.is_empty()).collect()
}

fn chart(points: &[(ScalingPoint, f64)], figure: u8, what: &str, title: &str, mode: &str) -> Option<Chart> {
    let of = |side: &str, is_simulated: bool| -> Vec<(f64, f64)> {
        let is_it = |point: &ScalingPoint| {
            (point.figure, point.is_simulated) == (figure, is_simulated)
                && (point.what == what)
                && point.side == side
        };
        let own = points.iter().filter(|(point, rate)| is_it(point) && *rate > 0.0);
        own.map(|(point, rate)| (f64::from(point.processors), *rate)).collect()
    };
    let series = SIDES.map(|side| (side.to_owned(), of(side, true))).to_vec();
    series.iter().any(|(_, points)| !points.is_empty()).then(|| Chart {
        name: what.to_owned(),
        title: format!("{title}, {mode}"),
        x: "processors in all",
        y: if ["lattice-Boltzmann", "bzip2", "chess"].contains(&what) {
            "runs a second"
        } else {
            "blocks a second"
        },
        series,
        lines: true,
        marks: SIDES.map(|side| of(side, false)).to_vec(),
        scale: Scale::Powers,
        legend: if what == WHAT[0].0 { Legend::Left } else { Legend::Nowhere },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_come_into_the_chart_of_their_figure_and_size() {
        let figures = [
            Figure::told("figure 6, 4 KiB, Linux, 2 processors: measured", 50_000.0, "1/s"),
            Figure::told("figure 6, 4 KiB, Linux, 1 processor: simulated", 150_000.0, "1/s"),
            Figure::told("figure 6, 4 KiB, Linux, 2 processors: simulated", 60_000.0, "1/s"),
            Figure::told("figure 7, chess, no server, 1 processor: simulated", 1.5, "1/s"),
            Figure::told("table 1, something: total", 7.0, "ns"),
        ];
        let sheets = sheets(&figures);
        assert_eq!(
            sheets.iter().map(|sheet| sheet.name.as_str()).collect::<Vec<_>>(),
            ["memory-figure-6", "memory-figure-7"]
        );
        let chart = &sheets[0].charts[0];
        assert_eq!(
            (chart.series[0].1.as_slice(), chart.marks[0].as_slice()),
            ([(1.0, 150_000.0), (2.0, 60_000.0)].as_slice(), [(2.0, 50_000.0)].as_slice())
        );
        assert_eq!((sheets[1].charts.len(), sheets[1].charts[0].series[1].1.len()), (1, 1));
        assert!(super::sheets(&figures[4..]).is_empty());
    }
}
