//! What the estimate of savings is made of: figures of this machine where there are some, else those of the benchmark that the command was built with;
//! and of each program what the daemon and the engine say. Nothing is started for it, neither a program nor a daemon.

use std::collections::HashMap;
use std::path::Path;

use regrow_daemon::wire::Question;
use regrow_profile::Savings;
use regrow_profile::savings::{Basis, Verdict};
use serde_json::Value;

use crate::env::learned::{Learned, Price};
use crate::env::place::EnvPlace;
use crate::status;
use crate::values::plain;

/// What the benchmark of the repository has measured.
const BENCHMARK: &str = include_str!("../../../../bench/results/programs.json");
/// The smallest program.
const SMALLEST: &str = "/bin/true";

/// Estimates by all that is known.
pub(super) fn savings() -> Savings<'static> {
    let learned = EnvPlace::of_user().map(|place| Learned::read(&place.learned())).unwrap_or_default();
    let known = by_daemon(&status::ask(Question::Status).unwrap_or_default());
    let basis = learned.price.map_or_else(by_benchmark, by_price);
    Savings::new(basis, move |path| verdict(path, &learned, &known))
}

/// What `regrow env` has measured on this machine.
fn by_price(price: Price) -> Basis {
    let Price { by_exec_us, by_launcher_us, start_us } = price;
    Basis {
        base_us: (by_exec_us - by_launcher_us).max(0.0),
        from: format!(
            "measured on this machine: {SMALLEST} takes {by_exec_us:.0} µs by exec and {by_launcher_us:.0} µs by a launcher of regrow env"
        ),
        smallest_start_us: Some(start_us),
    }
}

/// What the benchmark has measured, on another machine or another day.
fn by_benchmark() -> Basis {
    let unknown = Basis { base_us: 0.0, from: "nothing is known".to_owned(), smallest_start_us: None };
    let Ok(results) = serde_json::from_str::<Value>(BENCHMARK) else { return unknown };
    let figures = results["figures"].as_array().into_iter().flatten();
    let smallest = figures.into_iter().find(|figure| figure["program"] == SMALLEST);
    let median = |way: &str| smallest.and_then(|figure| figure[way]["p50"].as_f64());
    let (Some(exec_us), Some(regrow_us)) = (median("posix_spawn_us"), median("regrow_us")) else {
        return unknown;
    };
    let machine = &results["machine"];
    Basis {
        base_us: (exec_us - regrow_us).max(0.0),
        from: format!(
            "by Regrow's benchmark of {}: {SMALLEST} takes {exec_us:.0} µs by posix_spawn and {regrow_us:.0} µs recycled, on {} with {}",
            plain(&results["date"]),
            plain(&machine["cpu"]),
            plain(&machine["kernel"]),
        ),
        smallest_start_us: None,
    }
}

/// What the daemon says of the programs that it keeps, or cannot keep.
fn by_daemon(status: &Value) -> HashMap<String, Verdict> {
    let mut known = HashMap::new();
    for image in status["images"].as_array().into_iter().flatten() {
        let (Some(file), Some(state)) = (image["file"].as_str(), image["state"].as_str()) else { continue };
        let refused = (!matches!(state, "kept" | "making")).then(|| state.to_owned());
        known.insert(file.to_owned(), Verdict { refused, start_us: image["start_us"].as_f64() });
    }
    known
}

fn verdict(path: &str, learned: &Learned, known: &HashMap<String, Verdict>) -> Verdict {
    let file = Path::new(path);
    if let Some(why) = regrow_engine::refusal_of(file) {
        return Verdict { refused: Some(why.to_string()), start_us: None };
    }
    if let Some(verdict) = known.get(path) {
        return verdict.clone();
    }
    let program = file.metadata().ok().and_then(|metadata| learned.program(&metadata).cloned());
    program
        .map(|program| Verdict { refused: program.refused, start_us: program.start_us })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_benchmark_that_the_command_was_built_with_has_the_figure() {
        let basis = by_benchmark();
        assert!(basis.base_us > 1.0, "{basis:?}");
        assert!(basis.from.contains("/bin/true takes") && basis.from.contains("Linux"), "{basis:?}");
    }

    #[test]
    fn what_was_measured_on_this_machine_comes_first_and_is_never_below_nothing() {
        let price = |by_launcher_us| Price { by_exec_us: 800.0, by_launcher_us, start_us: 300.0 };
        assert_eq!(by_price(price(350.0)).base_us.round(), 450.0);
        assert_eq!(by_price(price(900.0)).base_us, 0.0);
        assert!(by_price(price(350.0)).from.contains("on this machine"));
    }

    #[test]
    fn a_program_is_judged_by_its_file_then_by_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let setuid = folder.path().join("rights");
        std::fs::copy("/bin/true", &setuid).unwrap();
        std::fs::set_permissions(&setuid, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
        let known = by_daemon(&json!({"images": [
            {"file": "/bin/cat", "state": "2 threads at main", "start_us": null},
            {"file": "/bin/true", "state": "kept", "start_us": 321.0},
        ]}));
        let judge = |path: &str| verdict(path, &Learned::default(), &known);
        assert_eq!(
            judge(setuid.to_str().unwrap()).refused.as_deref(),
            Some("the file has the set-user-ID bit")
        );
        assert_eq!(judge("/bin/cat").refused.as_deref(), Some("2 threads at main"));
        assert_eq!(judge("/bin/true"), Verdict { refused: None, start_us: Some(321.0) });
        assert_eq!(judge("/bin/sh"), Verdict::default());
        assert_eq!(judge("/nonexistent").refused.as_deref(), Some("the program could not be looked up"));
    }
}
