//! What is drawn: a chart, and several of them on a sheet.

/// Named points.
pub(super) type Series = (String, Vec<(f64, f64)>);

/// One plot.
pub(super) struct Chart {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) series: Vec<Series>,
    /// Whether lines join the points.
    pub(super) lines: bool,
    /// Points that stand out, in the colour of the series of the same number.
    pub(super) marks: Vec<Vec<(f64, f64)>>,
    pub(super) scale: Scale,
    pub(super) legend: Legend,
}

/// How numbers lie on the axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From zero on, evenly.
    Linear,
    /// By powers of two, and upwards of ten. All numbers are above zero.
    Powers,
}

/// Where the names of the series stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Legend {
    Right,
    Left,
    Nowhere,
}

/// Charts side by side, in a file.
pub(super) struct ChartSheet {
    pub(super) name: String,
    pub(super) columns: usize,
    pub(super) charts: Vec<Chart>,
}
