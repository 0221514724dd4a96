//! `bench/results/NAME.json`: what a benchmark measured, with the machine and the date. `regrow_bench::results` has the shape.

use crate::repo::TextFile;
use serde_json::Value;

/// The results of all benchmarks.
#[derive(Debug)]
pub(crate) struct Results(Vec<(String, Value)>);

impl Results {
    /// Takes the results out of the files of the tree. A file that is no JSON counts as missing.
    pub(crate) fn of(files: &[TextFile]) -> Self {
        let results = files.iter().filter_map(|file| {
            let name = file.path.strip_prefix("bench/results/")?.strip_suffix(".json")?;
            Some((name.to_owned(), serde_json::from_str(&file.text).ok()?))
        });
        Self(results.collect())
    }

    /// What a benchmark wrote.
    pub(crate) fn figures(&self, benchmark: &str) -> Option<&Value> {
        self.file(benchmark)?.get("figures")
    }

    /// A sentence on the machine and the day.
    pub(crate) fn machine(&self, benchmark: &str) -> Option<String> {
        let file = self.file(benchmark)?;
        let machine = file.get("machine")?;
        let text = |key| machine.get(key).and_then(Value::as_str);
        let (kernel, cpu) = (text("kernel")?, text("cpu")?);
        let cores = machine.get("cores")?.as_u64()?;
        Some(format!("Measured on {}: {kernel}, {cores} cores of {cpu}.", file.get("date")?.as_str()?))
    }

    fn file(&self, benchmark: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == benchmark).map(|(_, file)| file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_found_by_the_name_of_the_benchmark() {
        let text = r#"{"date": "2026-01-31", "machine": {"kernel": "Linux 6", "cpu": "X", "cores": 2}, "figures": [7]}"#;
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let results =
            Results::of(&[file("bench/results/pool.json", text), file("bench/results/web.json", "no JSON")]);
        assert_eq!(results.figures("pool"), Some(&serde_json::json!([7])));
        assert_eq!(results.machine("pool").unwrap(), "Measured on 2026-01-31: Linux 6, 2 cores of X.");
        assert_eq!(results.figures("web"), None);
    }
}
