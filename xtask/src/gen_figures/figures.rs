//! The table of figures that most benchmarks have.

use serde_json::Value;

use super::table::{Markdown, number};
use super::trace::point;

/// Figures beside what is asked of them. Those of the points of traces have a table of their own.
pub(super) fn figures(results: &Value) -> Option<Markdown> {
    let mut table = Markdown::new(&["what", "measured", "asked", "reached"]);
    for figure in results.as_array()? {
        let name = figure["name"].as_str()?;
        if point(name).is_some() {
            continue;
        }
        let reached = match figure["holds"].as_bool() {
            None => "",
            Some(true) => "yes",
            Some(false) => "no",
        };
        let asked = figure["asked"].as_f64().map_or_else(String::new, number);
        let measured = format!("{} {}", number(figure["measured"].as_f64()?), figure["unit"].as_str()?);
        table.row([name.to_owned(), measured, asked, reached.to_owned()]);
    }
    Some(table)
}
