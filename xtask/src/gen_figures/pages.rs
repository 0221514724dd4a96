//! Tables of a web server's pages: how long they take, and what the gateway holds meanwhile.

use super::table::{Markdown, number};
use serde_json::Value;

/// The policies of the gateway.
const POLICIES: [&str; 4] = ["basic", "recycle", "pool", "adaptive"];
/// Linux as it is.
const OTHERS: [&str; 2] = ["Apache + mod_cgid", "nginx + fcgiwrap"];

/// The times and the page faults of each way to get a page.
pub(super) fn times(pages: &Value) -> Option<Markdown> {
    let mut table = Markdown::new(&[
        "",
        "first request ms",
        "second",
        "20th",
        "10 × 10 ms",
        "100 one by one ms",
        "page faults of 10 × 10",
        "static 10 × 10 ms",
        "its page faults",
    ]);
    for way in POLICIES.into_iter().chain(OTHERS) {
        let page = pages.get(way)?;
        let firsts = page["first_ms"].as_array()?;
        let request = |index: usize| {
            let times = firsts.iter().map(|start| start.get(index).and_then(Value::as_f64));
            times.collect::<Option<Vec<_>>>().and_then(median).map(tenths)
        };
        let last = firsts.first()?.as_array()?.len().checked_sub(1)?;
        let times = |key: &str| median(numbers(&page[key])?).map(tenths);
        let faults = |key: &str| numbers(&page[key]).map(|faults| number(faults.iter().sum()));
        table.row([
            way.to_owned(),
            request(0)?,
            request(1)?,
            request(last)?,
            times("parallel_ms")?,
            times("one_by_one_ms")?,
            faults("page_faults")?,
            times("static_ms")?,
            faults("static_faults")?,
        ]);
    }
    Some(table)
}

/// What the gateway's processes hold.
pub(super) fn memory(pages: &Value) -> Option<Markdown> {
    let mut table =
        Markdown::new(&["", "before MiB", "most", "after 10 × 10", "after all", "at the end of the look"]);
    for policy in POLICIES {
        let page = pages.get(policy)?;
        let looks: Vec<Vec<f64>> = page["memory"].as_array()?.iter().map(numbers).collect::<Option<_>>()?;
        let looks: Vec<(f64, f64)> =
            looks.iter().map(|look| Some((*look.first()?, *look.get(1)?))).collect::<Option<_>>()?;
        let held_at =
            |second: f64| looks.iter().take_while(|(at, _)| *at <= second).last().map(|(_, mib)| *mib);
        let marks = numbers(&page["marks"])?;
        let most = looks.iter().map(|(_, mib)| *mib).fold(0.0, f64::max);
        let values =
            [held_at(0.0)?, most, held_at(*marks.first()?)?, held_at(*marks.get(1)?)?, looks.last()?.1];
        table.row([policy.to_owned()].into_iter().chain(values.map(tenths)));
    }
    Some(table)
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}

/// The middle of the values; of an even number of them, the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(*values.get(low)?, *values.get(high)?))
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn pages() -> Value {
        let page = json!({
            "first_ms": [[3.0, 2.0, 1.0], [5.0, 4.0, 1.5], [4.0, 3.0, 1.2]], "parallel_ms": [70.0, 90.0],
            "one_by_one_ms": [80.0], "static_ms": [7.0], "page_faults": [3685], "static_faults": [0],
            "memory": [[-0.1, 8.0], [0.5, 19.0], [1.0, 17.0], [5.0, 0.4]], "marks": [0.6, 1.1]
        });
        let ways = POLICIES.into_iter().chain(OTHERS);
        Value::Object(ways.map(|way| (way.to_owned(), page.clone())).collect::<Map<_, _>>())
    }

    #[test]
    fn times_are_medians_and_faults_are_sums() {
        let text = times(&pages()).unwrap().text();
        let row = "| nginx + fcgiwrap | 4.0 | 3.0 | 1.2 | 80.0 | 80.0 | 3,685 | 7.0 | 0 |";
        assert_eq!(text.lines().last(), Some(row));
    }

    #[test]
    fn memory_is_what_was_seen_last() {
        let text = memory(&pages()).unwrap().text();
        assert_eq!(text.lines().last(), Some("| adaptive | 8.0 | 19.0 | 19.0 | 17.0 | 0.4 |"));
        assert!(memory(&json!({})).is_none());
    }
}
