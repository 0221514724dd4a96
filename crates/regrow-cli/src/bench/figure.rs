//! A figure that was measured, and what was asked of it.

use serde::Serialize;

use super::samples::rounded;
use crate::table::{Kind, Table, output_width};

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figure {
    name: String,
    measured: f64,
    /// `None` where nothing was asked.
    asked: Option<f64>,
    unit: &'static str,
    /// Whether it is as asked, or nothing was asked.
    holds: bool,
    /// Whether it is to be at most what was asked.
    #[serde(skip)]
    at_most: bool,
}

impl Figure {
    /// One that is to be at least so large.
    pub(super) fn at_least(name: &str, measured: f64, asked: f64, unit: &'static str) -> Figure {
        let holds = measured >= asked;
        Figure { asked: Some(asked), holds, ..Figure::told(name, measured, unit) }
    }

    /// One that is to be at most so large.
    pub(super) fn at_most(name: &str, measured: f64, asked: f64, unit: &'static str) -> Figure {
        let holds = measured <= asked;
        Figure { asked: Some(asked), holds, at_most: true, ..Figure::told(name, measured, unit) }
    }

    /// One of which nothing was asked.
    pub(super) fn told(name: &str, measured: f64, unit: &'static str) -> Figure {
        let (name, measured) = (name.to_owned(), rounded(measured));
        Figure { name, measured, asked: None, unit, holds: true, at_most: false }
    }
}

/// The figures as a table.
pub(super) fn describe(figures: &[Figure]) -> String {
    let columns = [
        ("figure", Kind::Text),
        ("measured", Kind::Right),
        ("asked", Kind::Right),
        ("unit", Kind::Left),
        ("holds", Kind::Left),
    ];
    let mut table = Table::new(&columns);
    for figure in figures {
        let sign = if figure.at_most { "<=" } else { ">=" };
        let asked = figure.asked.map_or(String::new(), |asked| format!("{sign} {asked}"));
        let holds = match (figure.asked, figure.holds) {
            (None, _) => "",
            (Some(_), true) => "yes",
            (Some(_), false) => "no",
        };
        let measured = format!("{:.2}", figure.measured);
        table.row([figure.name.clone(), measured, asked, figure.unit.to_owned(), holds.to_owned()]);
    }
    table.render(output_width())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_holds_when_it_is_as_asked() {
        assert!(Figure::at_least("a", 8.0, 8.0, "times").holds);
        assert!(!Figure::at_least("a", 7.9, 8.0, "times").holds);
        assert!(Figure::at_most("a", 8.0, 8.0, "times").holds);
        assert!(!Figure::at_most("a", 8.1, 8.0, "times").holds);
        assert!(describe(&[Figure::at_most("a", 8.1, 8.0, "%")]).contains("<= 8"));
    }
}
