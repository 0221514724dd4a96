//! The tables of figures in README.md and docs/evaluation.md, written from `bench/results`.

mod figures;
mod memory;
mod pages;
mod table;
mod trace;

use crate::marks;
use crate::repo::{TextFile, text_of};
use crate::results::Results;
use figures::figures;
use serde_json::Value;
use table::{Markdown, number};

/// A place in a page, and what is written there.
struct Place {
    page: &'static str,
    name: &'static str,
    benchmark: &'static str,
    write: fn(&Value) -> Option<Markdown>,
}

const README: &str = "README.md";
const EVALUATION: &str = "docs/evaluation.md";

/// The pages that have tables of figures.
pub(crate) const PAGES: [&str; 2] = [README, EVALUATION];

/// The place of the sentences at the head of the README.
const HEADLINE: &str = "headline";

/// All places.
const PLACES: [Place; 24] = [
    Place { page: README, name: "programs", benchmark: "programs", write: programs },
    Place { page: EVALUATION, name: "trace-by-existing", benchmark: "trace", write: trace::by_existing },
    Place { page: EVALUATION, name: "trace-by-creations", benchmark: "trace", write: trace::by_creations },
    Place { page: EVALUATION, name: "pool-points", benchmark: "pool", write: trace::points_table },
    Place { page: EVALUATION, name: "pool", benchmark: "pool", write: figures },
    Place { page: EVALUATION, name: "resources", benchmark: "resources", write: resources },
    Place { page: EVALUATION, name: "daemon", benchmark: "daemon", write: figures },
    Place { page: EVALUATION, name: "python", benchmark: "python", write: figures },
    Place { page: EVALUATION, name: "python-suites", benchmark: "python-suites", write: figures },
    Place { page: EVALUATION, name: "python-interpreters", benchmark: "python-interpreters", write: figures },
    Place { page: EVALUATION, name: "celery", benchmark: "celery", write: figures },
    Place { page: EVALUATION, name: "pages", benchmark: "pages", write: pages::times },
    Place { page: EVALUATION, name: "pages-memory", benchmark: "pages", write: pages::memory },
    Place { page: EVALUATION, name: "web", benchmark: "web", write: figures },
    Place { page: EVALUATION, name: "ladder", benchmark: "ladder", write: figures },
    Place { page: EVALUATION, name: "sites", benchmark: "sites", write: figures },
    Place { page: EVALUATION, name: "memory", benchmark: "memory", write: memory::asked },
    Place { page: EVALUATION, name: "memory-table-1", benchmark: "memory", write: memory::operations },
    Place { page: EVALUATION, name: "memory-table-2", benchmark: "memory", write: memory::balance },
    Place {
        page: EVALUATION,
        name: "memory-table-2-beside",
        benchmark: "memory",
        write: memory::balance_beside,
    },
    Place { page: EVALUATION, name: "memory-figures-6-7", benchmark: "memory", write: memory::scaling },
    Place { page: EVALUATION, name: "memory-most", benchmark: "memory", write: memory::most },
    Place { page: EVALUATION, name: "memory-servers", benchmark: "memory", write: memory::servers },
    Place { page: EVALUATION, name: "memory-simulator", benchmark: "memory", write: memory::simulator },
];

/// A page with its tables as the results have them. Fails with what is missing.
pub(crate) fn page(files: &[TextFile], path: &str) -> Result<String, String> {
    let results = Results::of(files);
    let mut text = text_of(files, path).to_owned();
    for place in PLACES.iter().filter(|place| place.page == path) {
        let benchmark = place.benchmark;
        let missing =
            || format!("bench/results/{benchmark}.json is missing, or not what the benchmark writes");
        let table = results.figures(benchmark).and_then(place.write).ok_or_else(missing)?;
        let machine = results.machine(benchmark).ok_or_else(missing)?;
        let (begin, end) = marks::lines(place.name);
        text = marks::replaced(&text, place.name, &format!("{}\n{machine}\n", table.text()))
            .ok_or_else(|| format!("{path} has no lines `{begin}` and `{end}`"))?;
    }
    if path == README {
        let missing = || "bench/results/programs.json has no figures back to back".to_owned();
        let headline = results.figures("programs").and_then(headline).ok_or_else(missing)?;
        text = marks::replaced(&text, HEADLINE, &headline)
            .ok_or_else(|| format!("{path} has no place `{HEADLINE}`"))?;
    }
    Ok(text)
}

/// Programs by `posix_spawn` and by Regrow.
fn programs(results: &Value) -> Option<Markdown> {
    let mut table = Markdown::new(&[
        "program",
        "posix_spawn p50",
        "p99",
        "Regrow p50",
        "p99",
        "ratio",
        "ratio back to back",
        "call to `main` p50",
        "reset p50",
        "CPU per run, posix_spawn",
        "Regrow",
        "body KiB",
        "recycled",
    ]);
    for result in results.as_array()? {
        let time = |key: &str, percentile: &str| whole(&result[key][percentile]);
        table.row([
            format!("`{}`", result["program"].as_str()?),
            time("posix_spawn_us", "p50"),
            time("posix_spawn_us", "p99"),
            time("regrow_us", "p50"),
            time("regrow_us", "p99"),
            result["ratio_p50"].as_f64().map_or_else(String::new, tenths),
            back_to_back(result).map_or_else(String::new, tenths),
            time("to_main_us", "p50"),
            time("reset_us", "p50"),
            whole(&result["cpu_us"]["posix_spawn"]),
            whole(&result["cpu_us"]["regrow"]),
            whole(&result["body_kib"]),
            format!("{} of {}", result["recycled"].as_u64()?, result["runs"].as_u64()?),
        ]);
    }
    Some(table)
}

fn tenths(ratio: f64) -> String {
    format!("{ratio:.1}")
}

/// How many times as many runs one client makes in a second, each right after the one before.
fn back_to_back(result: &Value) -> Option<f64> {
    let clients = result["throughput"].as_array()?;
    clients.iter().find(|row| row["clients"].as_u64() == Some(1))?["ratio"].as_f64()
}

/// What the head of the README says of the programs: each with both ratios.
fn headline(results: &Value) -> Option<String> {
    let mut all = Vec::new();
    for result in results.as_array()? {
        let program = result["program"].as_str()?.trim_start_matches("/usr").trim_start_matches("/bin/");
        let (paused, rows) = (result["ratio_p50"].as_f64()?, back_to_back(result)?);
        all.push(format!("`{program}` {} ({})", tenths(paused), tenths(rows)));
    }
    Some(format!(
        "  How many times as fast as by `posix_spawn` a run is, and in brackets how many times as many runs one client makes back to back,\n  \
         each right after the one before, without a pause in which a body is put back:\n  {}.\n  ",
        all.join(", ")
    ))
}

/// A number without a fraction; nothing where there is none.
fn whole(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, |value| number(value.round()))
}

/// What resources cost.
fn resources(results: &Value) -> Option<Markdown> {
    let mut table = Markdown::new(&["resource", "made anew µs", "from the pool µs", "ratio"]);
    for cost in results.as_array()? {
        let (anew, pooled) = (cost["anew_us"].as_f64()?, cost["pooled_us"].as_f64()?);
        table.row([
            cost["resource"].as_str()?.to_owned(),
            number((anew * 100.0).round() / 100.0),
            number((pooled * 100.0).round() / 100.0),
            format!("{:.1}", anew / pooled.max(0.001)),
        ]);
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_figure_shows_what_is_asked_and_whether_it_is_reached() {
        let results = json!([
            {"name": "a", "measured": 1507.0, "asked": null, "unit": "us", "holds": null},
            {"name": "b", "measured": 23.12, "asked": 6.0, "unit": "times", "holds": true},
            {"name": "web-1000, 1 existing, none: time", "measured": 5.0, "asked": null, "unit": "ms", "holds": null},
        ]);
        let text = figures(&results).unwrap().text();
        let expected = "| what | measured | asked | reached |\n|---|---:|---:|---:|\n| a | 1,507 us |  |  |\n\
                        | b | 23.12 times | 6 | yes |\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_program_has_a_row_with_what_was_measured() {
        let results = json!([{
            "program": "sh -c :", "posix_spawn_us": {"p50": 1053.4, "p99": 1319.0},
            "regrow_us": {"p50": 94.2, "p99": 362.0}, "ratio_p50": 11.18, "to_main_us": null, "reset_us": {"p50": 121.0},
            "cpu_us": {"posix_spawn": 901.0, "regrow": 250.0}, "body_kib": 132.0, "recycled": 499, "runs": 500,
            "throughput": [{"clients": 2, "ratio": 9.0}, {"clients": 1, "ratio": 5.55}]
        }]);
        let text = programs(&results).unwrap().text();
        let row =
            "| `sh -c :` | 1,053 | 1,319 | 94 | 362 | 11.2 | 5.5 |  | 121 | 901 | 250 | 132 | 499 of 500 |";
        assert_eq!(text.lines().last(), Some(row));
    }

    #[test]
    fn the_head_says_what_the_pause_does() {
        let result = |program: &str, ratio: f64, rate: f64| json!({"program": program, "ratio_p50": ratio, "throughput": [{"clients": 1, "ratio": rate}]});
        let results = json!([result("sh -c :", 8.61, 4.41), result("/usr/bin/python3 -c pass", 23.0, 27.56)]);
        let text = headline(&results).unwrap();
        assert!(text.ends_with(":\n  `sh -c :` 8.6 (4.4), `python3 -c pass` 23.0 (27.6).\n  "), "{text}");
        assert_eq!(headline(&json!([{"program": "sh", "ratio_p50": 2.0}])), None);
    }

    #[test]
    fn results_that_are_missing_are_told() {
        let page_of = |text: &str| TextFile { path: README.to_owned(), text: text.to_owned() };
        let error = page(&[page_of("<!-- begin programs -->\n<!-- end programs -->\n")], README).unwrap_err();
        assert!(error.starts_with("bench/results/programs.json is missing"), "{error}");
    }
}
