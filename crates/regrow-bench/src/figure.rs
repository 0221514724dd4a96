//! A figure: what a benchmark measured, beside what is asked of it. The drivers in `bench/` write the same shape.

use serde::{Deserialize, Serialize};

use crate::samples::rounded;
use crate::table::{Alignment, TextTable, output_width};

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    name: String,
    measured: f64,
    /// What is asked; `None` where nothing is.
    asked: Option<f64>,
    unit: String,
    /// Whether it is as asked; `None` where nothing is asked.
    holds: Option<bool>,
    /// Whether it should be at most what is asked.
    #[serde(skip)]
    at_most: bool,
}

impl Figure {
    /// A figure that should be at least so large.
    pub fn at_least(name: &str, measured: f64, asked: f64, unit: &str) -> Figure {
        let holds = measured >= asked;
        Figure { asked: Some(asked), holds: Some(holds), ..Figure::told(name, measured, unit) }
    }

    /// A figure that should be at most so large.
    pub fn at_most(name: &str, measured: f64, asked: f64, unit: &str) -> Figure {
        let holds = measured <= asked;
        Figure { asked: Some(asked), holds: Some(holds), at_most: true, ..Figure::told(name, measured, unit) }
    }

    /// What was measured.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How much it is.
    #[must_use]
    pub fn measured(&self) -> f64 {
        self.measured
    }

    /// Whether it is as asked; `None` where nothing is.
    #[must_use]
    pub fn holds(&self) -> Option<bool> {
        self.holds
    }

    /// A figure of which nothing is asked.
    pub fn told(name: &str, measured: f64, unit: &str) -> Figure {
        let (name, measured) = (name.to_owned(), rounded(measured));
        Figure { name, measured, asked: None, unit: unit.to_owned(), holds: None, at_most: false }
    }
}

/// The figures as a table.
#[must_use]
pub fn describe(figures: &[Figure]) -> String {
    let columns = [
        ("figure", Alignment::Text),
        ("measured", Alignment::Right),
        ("asked", Alignment::Right),
        ("unit", Alignment::Left),
        ("holds", Alignment::Left),
    ];
    let mut table = TextTable::new(&columns);
    for figure in figures {
        let sign = if figure.at_most { "<=" } else { ">=" };
        let asked = figure.asked.map_or(String::new(), |asked| format!("{sign} {asked}"));
        let holds = match figure.holds {
            None => "",
            Some(true) => "yes",
            Some(false) => "no",
        };
        let measured = format!("{:.2}", figure.measured);
        table.row([figure.name.clone(), measured, asked, figure.unit.clone(), holds.to_owned()]);
    }
    table.render(output_width())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_holds_when_it_is_as_asked() {
        assert_eq!(Figure::at_least("a", 8.0, 8.0, "times").holds, Some(true));
        assert_eq!(Figure::at_least("a", 7.9, 8.0, "times").holds, Some(false));
        assert_eq!(Figure::at_most("a", 8.0, 8.0, "times").holds, Some(true));
        assert_eq!(Figure::at_most("a", 8.1, 8.0, "times").holds, Some(false));
        assert_eq!(Figure::told("a", 8.1, "times").holds, None);
        assert!(describe(&[Figure::at_most("a", 8.1, 8.0, "%")]).contains("<= 8"));
    }
}
