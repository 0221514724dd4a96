//! Tables of replayed traces: time and memory of each policy.

use super::table::Markdown;
use serde_json::Value;

/// The policies, in the order of the tables.
const POLICIES: [&str; 5] = ["none", "recycle", "recycle-one", "pool", "adaptive"];
/// How many processes stay alive in the table of every hundred creations: the most.
const MOST_EXISTING: &str = "20";
/// The unit of memory, in bytes.
const MIB: f64 = 1_048_576.0;

/// Time and memory at the end, by the number of processes alive.
pub(super) fn by_existing(replay: &Value) -> Option<Markdown> {
    let runs = replay["runs"].as_array()?;
    let mut numbers: Vec<&str> = Vec::new();
    for run in runs {
        let existing = run["existing"].as_str()?;
        if !numbers.contains(&existing) {
            numbers.push(existing);
        }
    }
    let headings = ["existing".to_owned()].into_iter().chain(POLICIES.map(|name| format!("{name} ms")));
    let headings: Vec<String> =
        headings.chain(POLICIES[1..].iter().map(|name| format!("{name} MiB"))).collect();
    let mut table = Markdown::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for existing in numbers {
        let end = |policy: &str| points(runs, policy, existing)?.last();
        let times = POLICIES.iter().map(|policy| time(end(policy)?));
        let kept = POLICIES[1..].iter().map(|policy| memory(end(policy)?));
        let cells = times.chain(kept).collect::<Option<Vec<_>>>()?;
        table.row([existing.to_owned()].into_iter().chain(cells));
    }
    Some(table)
}

/// Time and memory every hundred creations, with most processes alive.
pub(super) fn by_creations(replay: &Value) -> Option<Markdown> {
    let runs = replay["runs"].as_array()?;
    let policies = ["recycle", "recycle-one"];
    let mut table =
        Markdown::new(&["creations", "recycle ms", "recycle-one ms", "recycle MiB", "recycle-one MiB"]);
    let [all, one] = policies.map(|policy| points(runs, policy, MOST_EXISTING));
    for (all, one) in all?.iter().zip(one?) {
        table.row([
            all["creations"].as_u64()?.to_string(),
            time(all)?,
            time(one)?,
            memory(all)?,
            memory(one)?,
        ]);
    }
    Some(table)
}

fn points<'a>(runs: &'a [Value], policy: &str, existing: &str) -> Option<&'a Vec<Value>> {
    let run = runs.iter().find(|run| run["policy"] == policy && run["existing"] == existing)?;
    run["points"].as_array()
}

fn time(point: &Value) -> Option<String> {
    Some(format!("{:.0}", point["time_us"].as_f64()? / 1000.0))
}

fn memory(point: &Value) -> Option<String> {
    Some(format!("{:.1}", point["kept_bytes"].as_f64()? / MIB))
}

/// A figure of one policy on one trace, by its name: `web-1000, 5 existing, pool: time`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TracePoint<'a> {
    /// The trace and the number of processes.
    place: &'a str,
    policy: &'a str,
    /// `time` or `mean memory`.
    what: &'a str,
}

/// The point that a figure is of; none for every other figure.
pub(super) fn point(name: &str) -> Option<TracePoint<'_>> {
    let (point, what) = name.split_once(": ")?;
    let (place, policy) = point.rsplit_once(", ")?;
    (POLICIES.contains(&policy) && place.ends_with(" existing")).then_some(TracePoint { place, policy, what })
}

/// Time and mean memory of every trace, by processes alive.
pub(super) fn points_table(results: &Value) -> Option<Markdown> {
    let mut table = Markdown::new(&[&["trace"][..], &POLICIES].concat());
    let figures = results.as_array()?;
    let named = || figures.iter().filter_map(|figure| Some((point(figure["name"].as_str()?)?, figure)));
    let value = |place: &str, policy: &str, what: &str| {
        let wanted = TracePoint { place, policy, what };
        named().find(|(point, _)| *point == wanted)?.1["measured"].as_f64()
    };
    let mut places: Vec<&str> = named().map(|(point, _)| point.place).collect();
    places.dedup();
    for place in places {
        let cell = |policy: &str| {
            let (ms, mib) = (value(place, policy, "time")?, value(place, policy, "mean memory")?);
            Some(format!("{ms:.0} / {mib:.1}"))
        };
        let cells = POLICIES.map(|policy| cell(policy).unwrap_or_default());
        table.row([place.trim_end_matches(" existing").to_owned()].into_iter().chain(cells));
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_trace_has_a_row_for_each_number_of_processes() {
        let run = |policy: &str, time_us: f64| {
            let point = json!({"creations": 100, "time_us": time_us, "kept_bytes": 2_097_152});
            json!({"policy": policy, "existing": "20", "mode": "real", "points": [point]})
        };
        let replay = json!({"runs": POLICIES.map(|policy| run(policy, 5000.0))});
        let text = by_existing(&replay).unwrap().text();
        assert_eq!(text.lines().last(), Some("| 20 | 5 | 5 | 5 | 5 | 5 | 2.0 | 2.0 | 2.0 | 2.0 |"));
        let text = by_creations(&replay).unwrap().text();
        assert_eq!(text.lines().last(), Some("| 100 | 5 | 5 | 2.0 | 2.0 |"));
    }

    #[test]
    fn points_are_told_from_other_figures() {
        assert!(point("web-1000, 5 existing, recycle-one: time").is_some());
        assert_eq!(point("web, 5 existing: pool takes less time than none"), None);
        let figure = |what: &str, measured: f64| json!({"name": format!("web-1000, 5 existing, pool: {what}"), "measured": measured});
        let text = points_table(&json!([figure("time", 231.4), figure("mean memory", 4.34)])).unwrap().text();
        assert_eq!(text.lines().last(), Some("| web-1000, 5 |  |  |  | 231 / 4.3 |  |"));
    }
}
