//! Tables of the memory service: what is asked, the paper's tables 1 and 2, and figures 6 and 7 in numbers.

use super::table::{Markdown, number};
use serde_json::Value;

/// How rows begin that have tables of their own.
const APART: [&str; 4] = ["table 1, ", "table 2", "figure ", "simulator"];
/// What is measured of an operation.
const PARTS: [&str; 5] = ["messages", "useful", "total", "processors", "overhead"];
/// What figures 6 and 7 have, and who gives blocks.
const WHAT: [&str; 6] = ["4 KiB", "64 KiB", "2 MiB", "lattice-Boltzmann", "bzip2", "chess"];
const SIDES: [&str; 6] = ["Linux", "no server", "1 server", "2 servers", "4 servers", "8 servers"];
const MODES: [(u8, &str); 2] = [(6, "immediate"), (7, "delayed")];
/// The row that says how far the simulator is off.
const VERDICT: &str = "simulator against measured, farthest of ";

/// Rows that no other table has.
pub(super) fn asked(results: &Value) -> Option<Markdown> {
    let is_apart =
        |name: &str| APART.iter().any(|start| name.starts_with(start)) && !name.starts_with(VERDICT);
    let rows: Vec<Value> = results
        .as_array()?
        .iter()
        .filter(|row| row["name"].as_str().is_some_and(|name| !is_apart(name)))
        .cloned()
        .collect();
    super::figures::figures(&Value::Array(rows))
}

/// Table 1: an operation in each row.
pub(super) fn operations(results: &Value) -> Option<Markdown> {
    let mut table =
        Markdown::new(&["operation", "messages", "useful ns", "total ns", "processors ns", "overhead %"]);
    let mut last = "";
    for name in names(results)? {
        let Some((operation, _)) = name.strip_prefix("table 1, ").and_then(|name| name.rsplit_once(": "))
        else {
            continue;
        };
        if operation == last {
            continue;
        }
        last = operation;
        let cells = PARTS.iter().map(|part| {
            let value = measured(results, &format!("table 1, {operation}: {part}"))?;
            Some(number(if *part == "messages" { value } else { value.round() }))
        });
        table.row([operation.to_owned()].into_iter().chain(cells.collect::<Option<Vec<_>>>()?));
    }
    (!last.is_empty()).then_some(table)
}

/// Table 2: a policy in each row.
pub(super) fn balance(results: &Value) -> Option<Markdown> {
    let mut table = Markdown::new(&[
        "policy",
        "a zone is out of memory, % of the time",
        "asked",
        "overloaded, % of the time",
    ]);
    for row in results.as_array()? {
        let name = row["name"].as_str()?;
        let Some(policy) =
            name.strip_prefix("table 2, ").and_then(|name| name.strip_suffix(": a zone is out of memory"))
        else {
            continue;
        };
        let overloaded = results.as_array()?.iter().find(|other| {
            other["name"]
                .as_str()
                .is_some_and(|other| other.starts_with(&format!("table 2, {policy}: overloaded")))
        });
        let sign = if policy == "round robin" { "≥" } else { "≤" };
        let asked =
            row["asked"].as_f64().map_or_else(String::new, |asked| format!("{sign} {}", number(asked)));
        table.row([
            policy.to_owned(),
            number(row["measured"].as_f64()?),
            asked,
            number(overloaded?["measured"].as_f64()?),
        ]);
    }
    Some(table)
}

/// What surrounds table 2: other numbers of programs, and chunks that move.
pub(super) fn balance_beside(results: &Value) -> Option<Markdown> {
    let mut table = Markdown::new(&["programs, policy", "out of memory %", "overloaded or waiting %"]);
    for name in names(results)? {
        let Some(setting) =
            name.strip_prefix("table 2, ").and_then(|name| name.strip_suffix(": out of memory"))
        else {
            continue;
        };
        let of = |part: &str| measured(results, &format!("table 2, {setting}: {part}"));
        let other =
            of("overloaded").map(number).or_else(|| Some(format!("{} (waiting)", number(of("waiting")?))));
        table.row([setting.to_owned(), number(of("out of memory")?), other?]);
    }
    Some(table)
}

/// Points of figures 6 and 7: what is measured with one and two processors, and what is simulated with more.
pub(super) fn scaling(results: &Value) -> Option<Markdown> {
    let mut table = Markdown::new(&[
        "blocks or runs a second",
        "1 processor, measured",
        "simulated",
        "2, measured",
        "simulated",
        "32, simulated",
        "128, simulated",
    ]);
    for what in WHAT {
        for (figure, mode) in MODES {
            for side in SIDES {
                let of = |processors: u32, kind: &str| {
                    let plural = if processors == 1 { "processor" } else { "processors" };
                    let name = format!("figure {figure}, {what}, {side}, {processors} {plural}: {kind}");
                    measured(results, &name).map_or_else(String::new, short)
                };
                let cells = [
                    of(1, "measured"),
                    of(1, "simulated"),
                    of(2, "measured"),
                    of(2, "simulated"),
                    of(32, "simulated"),
                    of(128, "simulated"),
                ];
                // Linux has one way alone.
                let is_again = side == "Linux" && figure != MODES[0].0;
                if !is_again && cells.iter().any(|cell| !cell.is_empty()) {
                    let mode = if side == "Linux" { String::new() } else { format!(", {mode}") };
                    table.row([format!("{what}{mode}, {side}")].into_iter().chain(cells));
                }
            }
        }
    }
    Some(table)
}

/// Servers and clients of which there are more than processors.
pub(super) fn servers(results: &Value) -> Option<Markdown> {
    let clients = ["1 client", "2 clients", "4 clients", "8 clients"];
    let mut table = Markdown::new(&[&["blocks a second"], clients.as_slice()].concat());
    let mut last = String::new();
    for name in names(results)? {
        let Some((place, _)) = name.strip_suffix(": measured").and_then(|name| name.rsplit_once(", ")) else {
            continue;
        };
        let Some((figure, rest)) = place.strip_prefix("figure ").and_then(|place| place.split_once(" on "))
        else {
            continue;
        };
        let (_, of) = rest.split_once(", ")?;
        if !WHAT[..3].iter().any(|size| of.starts_with(&format!("{size}, "))) {
            continue;
        }
        let mode = MODES.iter().find(|(number, _)| number.to_string() == figure)?.1;
        let row = if of.ends_with(", Linux") { of.to_owned() } else { format!("{of}, {mode}") };
        if row == last || table.has(&row) {
            continue;
        }
        let cells = clients.map(|clients| {
            measured(results, &format!("{place}, {clients}: measured")).map_or_else(String::new, short)
        });
        table.row([row.clone()].into_iter().chain(cells));
        last = row;
    }
    (!last.is_empty()).then_some(table)
}

/// The paper's sentence on the most of both sides.
pub(super) fn most(results: &Value) -> Option<Markdown> {
    let mut table = Markdown::new(&[
        "the most above the most by Linux, %",
        "immediate, 4 servers, 32 processors",
        "128",
        "no server, 32",
        "128",
        "delayed, 4 servers, 32 processors",
        "128",
        "no server, 32",
        "128",
    ]);
    for what in &WHAT[..5] {
        let mut cells = vec![(*what).to_owned()];
        for (figure, _) in MODES {
            for side in ["4 servers", "no server"] {
                for processors in [32, 128] {
                    let name = format!(
                        "figure {figure}, {what}, to {processors} processors: the most by {side} above the most by Linux, simulated"
                    );
                    cells.push(number(measured(results, &name)?.round()));
                }
            }
        }
        table.row(cells);
    }
    Some(table)
}

/// What the simulator is told, and how far it is off.
pub(super) fn simulator(results: &Value) -> Option<Markdown> {
    let mut table = Markdown::new(&["", "measured"]);
    for row in results.as_array()? {
        let Some(name) = row["name"].as_str()?.strip_prefix("simulator") else { continue };
        let name = name.trim_start_matches([',', ':', ' ']);
        table.row([
            name.to_owned(),
            format!("{} {}", number(row["measured"].as_f64()?), row["unit"].as_str()?),
        ]);
    }
    Some(table)
}

fn names(results: &Value) -> Option<impl Iterator<Item = &str>> {
    Some(results.as_array()?.iter().filter_map(|row| row["name"].as_str()))
}

fn measured(results: &Value, name: &str) -> Option<f64> {
    results.as_array()?.iter().find(|row| row["name"] == name)?["measured"].as_f64()
}

/// A rate: its first digits say enough.
fn short(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.2}") } else { number(rate.round()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(name: &str, measured: f64) -> Value {
        json!({"name": name, "measured": measured, "asked": null, "unit": "ns", "holds": null})
    }

    #[test]
    fn an_operation_has_a_row_and_what_is_elsewhere_is_not_repeated() {
        let mut rows: Vec<Value> = PARTS
            .iter()
            .map(|part| row(&format!("table 1, free of 1 page, by a slave: {part}"), 1.6))
            .collect();
        rows.push(row("4 KiB, one thread", 12.5));
        rows.push(row("simulator against measured, farthest of 9 points", 20.0));
        rows.push(row("simulator against measured, figure 6", 20.0));
        let results = Value::Array(rows);
        let text = operations(&results).unwrap().text();
        assert_eq!(text.lines().last(), Some("| free of 1 page, by a slave | 1.6 | 2 | 2 | 2 | 2 |"));
        assert_eq!(asked(&results).unwrap().text().lines().count(), 4);
        assert_eq!(simulator(&results).unwrap().text().lines().count(), 4);
        assert!(operations(&json!([])).is_none());
    }

    #[test]
    fn a_policy_has_both_shares() {
        let mut lbp = row("table 2, LBP (50 %): a zone is out of memory", 0.25);
        lbp["asked"] = json!(1.0);
        let results = json!([
            lbp,
            row("table 2, LBP (50 %): overloaded", 0.5),
            row("table 2, 27 programs, round robin: out of memory", 7.0),
            row("table 2, 27 programs, round robin: overloaded", 9.0),
        ]);
        assert_eq!(
            balance(&results).unwrap().text().lines().last(),
            Some("| LBP (50 %) | 0.25 | ≤ 1 | 0.5 |")
        );
        let text = balance_beside(&results).unwrap().text();
        assert_eq!(text.lines().last(), Some("| 27 programs, round robin | 7 | 9 |"));
    }

    #[test]
    fn points_stand_by_their_processors() {
        let results = json!([
            row("figure 6, 4 KiB, Linux, 1 processor: measured", 150_000.4),
            row("figure 7, 4 KiB, Linux, 1 processor: measured", 150_000.4),
            row("figure 7, chess, no server, 128 processors: simulated", 1.25),
            row("figure 6 on 2 processors, 4 KiB, Linux, 1 client: measured", 7.0),
            row("figure 7 on 2 processors, 4 KiB, Linux, 1 client: measured", 7.0),
            row("figure 6 on 2 processors, 4 KiB, 3 servers, 4 clients: measured", 9.0),
        ]);
        let text = scaling(&results).unwrap().text();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| 4 KiB, Linux | 150,000 |  |  |  |  |  |",
                "| chess, delayed, no server |  |  |  |  |  | 1.25 |"
            ]
        );
        let text = servers(&results).unwrap().text();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            ["| 4 KiB, Linux | 7.00 |  |  |  |", "| 4 KiB, 3 servers, immediate |  |  | 9.00 |  |"]
        );
    }
}
