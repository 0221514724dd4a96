//! The results: as JSON, whose keys are stable, and as tables.

use std::collections::BTreeMap;

use serde::Serialize;

use super::floors::FloorRow;
use super::machine::Machine;
use super::samples::Percentiles;
use super::throughput::Throughput;
use crate::table::{Kind, Table};

/// What stands where nothing was measured.
const NOTHING: &str = "-";

/// What was measured of one program. Times are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Outcome {
    /// The program with its arguments.
    pub(super) program: String,
    /// The timed runs by each way.
    pub(super) runs: u32,
    /// `clone(CLONE_VM)`, exit and wait.
    pub(super) floor_us: Option<Percentiles>,
    /// From a futex's wake to another process running.
    pub(super) wake_us: Option<Percentiles>,
    /// `posix_spawn`, from call to end seen.
    pub(super) posix_spawn_us: Option<Percentiles>,
    /// Regrow, from call to end seen.
    pub(super) regrow_us: Option<Percentiles>,
    /// Regrow, from call to the program being entered.
    pub(super) to_main_us: Option<Percentiles>,
    /// From a run having left its body to the body being ready again.
    pub(super) reset_us: Option<Percentiles>,
    /// CPU time of one run.
    pub(super) cpu_us: CpuUs,
    /// Memory of a kept body.
    pub(super) body_kib: Option<f64>,
    /// The snapshot point.
    pub(super) point: Option<&'static str>,
    /// How many of Regrow's runs were recycled.
    pub(super) recycled: u64,
    /// Why the others were not.
    pub(super) fallbacks: BTreeMap<&'static str, u64>,
    /// How many times faster Regrow is, by the medians.
    pub(super) ratio_p50: Option<f64>,
    /// Runs a second without a pause.
    pub(super) throughput: Vec<Throughput>,
}

/// CPU time of one run: of the caller, of the run, and of what is done after it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct CpuUs {
    pub(super) posix_spawn: f64,
    pub(super) regrow: f64,
}

/// The machine and its floors.
pub(super) fn head(machine: &Machine, floors: &[FloorRow]) -> String {
    let cores = if machine.cores == 1 { "core" } else { "cores" };
    let mut table =
        Table::new(&[("floors of this machine, µs", Kind::Left), ("p50", Kind::Right), ("p99", Kind::Right)]);
    for (name, times) in floors {
        table.row([(*name).to_owned(), p50(*times), p99(*times)]);
    }
    format!(
        "{}, {} {cores} of {}, load {}\n\n{}",
        machine.kernel,
        machine.cores,
        machine.cpu,
        machine.load,
        table.render(0)
    )
}

/// The tables of all programs.
pub(super) fn tables(outcomes: &[Outcome]) -> String {
    let mut text = times_table(outcomes);
    for outcome in outcomes.iter().filter(|outcome| !outcome.fallbacks.is_empty()) {
        let (name, reasons) = (&outcome.program, reasons(&outcome.fallbacks));
        text.push_str(&format!("{name}: started by exec because of {reasons}\n"));
    }
    text.push('\n');
    text.push_str(&throughput_table(outcomes));
    text
}

fn times_table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&[
        ("call to end seen, µs\nprogram", Kind::Left),
        ("posix_spawn\np50", Kind::Right),
        ("p99", Kind::Right),
        ("Regrow\np50", Kind::Right),
        ("p99", Kind::Right),
        ("ratio", Kind::Right),
        ("to main\np50", Kind::Right),
        ("p99", Kind::Right),
        ("wake\np50", Kind::Right),
        ("reset\np50", Kind::Right),
        ("CPU per run\nposix_spawn", Kind::Right),
        ("\nRegrow", Kind::Right),
        ("body\nKiB", Kind::Right),
        ("\npoint", Kind::Left),
        ("\nrecycled", Kind::Right),
    ]);
    for outcome in outcomes {
        table.row([
            outcome.program.clone(),
            p50(outcome.posix_spawn_us),
            p99(outcome.posix_spawn_us),
            p50(outcome.regrow_us),
            p99(outcome.regrow_us),
            number(outcome.ratio_p50),
            p50(outcome.to_main_us),
            p99(outcome.to_main_us),
            p50(outcome.wake_us),
            p50(outcome.reset_us),
            number(Some(outcome.cpu_us.posix_spawn)),
            number(Some(outcome.cpu_us.regrow)),
            outcome.body_kib.map_or_else(|| NOTHING.to_owned(), |kib| format!("{kib:.0}")),
            outcome.point.unwrap_or(NOTHING).to_owned(),
            format!("{}/{}", outcome.recycled, outcome.runs),
        ]);
    }
    table.render(0)
}

fn throughput_table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&[
        ("runs per second, back to back\nprogram", Kind::Left),
        ("clients", Kind::Right),
        ("posix_spawn", Kind::Right),
        ("Regrow", Kind::Right),
        ("ratio", Kind::Right),
        ("recycled", Kind::Right),
        ("by exec", Kind::Left),
    ]);
    for outcome in outcomes {
        for throughput in &outcome.throughput {
            table.row([
                outcome.program.clone(),
                throughput.clients.to_string(),
                format!("{:.0}", throughput.posix_spawn_per_s),
                format!("{:.0}", throughput.regrow_per_s),
                number(Some(throughput.ratio)),
                format!("{}/{}", throughput.recycled, throughput.runs),
                reasons(&throughput.fallbacks),
            ]);
        }
    }
    table.render(0)
}

fn reasons(fallbacks: &BTreeMap<&'static str, u64>) -> String {
    let reasons: Vec<String> = fallbacks.iter().map(|(name, count)| format!("{name} ({count})")).collect();
    reasons.join(", ")
}

fn p50(times: Option<Percentiles>) -> String {
    number(times.map(|times| times.p50))
}

fn p99(times: Option<Percentiles>) -> String {
    number(times.map(|times| times.p99))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let times = |p50: f64| Some(Percentiles { p50, p99: p50 * 2.0 });
        Outcome {
            program: "sh -c :".to_owned(),
            runs: 10,
            floor_us: times(30.0),
            wake_us: times(4.0),
            posix_spawn_us: times(600.0),
            regrow_us: times(30.0),
            to_main_us: None,
            reset_us: times(25.0),
            cpu_us: CpuUs { posix_spawn: 500.0, regrow: 60.0 },
            body_kib: Some(211.4),
            point: Some("main"),
            recycled: 9,
            fallbacks: BTreeMap::from([("all_busy", 1)]),
            ratio_p50: Some(20.0),
            throughput: vec![Throughput {
                clients: 1,
                posix_spawn_per_s: 1500.0,
                regrow_per_s: 15000.0,
                ratio: 10.0,
                runs: 40,
                recycled: 40,
                fallbacks: BTreeMap::new(),
            }],
        }
    }

    #[test]
    fn the_keys_of_the_json_are_those_that_readers_rely_on() {
        let json = serde_json::to_value(outcome()).unwrap();
        for key in ["floor_us", "wake_us", "posix_spawn_us", "regrow_us", "reset_us"] {
            assert!(json[key]["p50"].is_f64() && json[key]["p99"].is_f64(), "{key}: {json}");
        }
        assert!(json["to_main_us"].is_null());
        assert_eq!(json["program"], "sh -c :");
        assert_eq!((&json["runs"], &json["recycled"]), (&10.into(), &9.into()));
        assert_eq!(
            (&json["cpu_us"]["posix_spawn"], &json["cpu_us"]["regrow"]),
            (&500.0.into(), &60.0.into())
        );
        assert_eq!((&json["body_kib"], &json["point"]), (&211.4.into(), &"main".into()));
        assert_eq!((&json["fallbacks"]["all_busy"], &json["ratio_p50"]), (&1.into(), &20.0.into()));
        assert_eq!(json["throughput"][0]["ratio"], 10.0);
    }

    #[test]
    fn the_tables_show_what_was_measured_and_what_was_not() {
        let text = tables(&[outcome()]);
        let row = text.lines().find(|line| line.starts_with("sh -c :")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().skip(3).collect();
        let expected = ["600.0", "1200.0", "30.0", "60.0", "20.0", "-", "-", "4.0", "25.0", "500.0", "60.0"];
        assert_eq!(cells.get(..11), Some(&expected[..]));
        assert_eq!(cells.get(11..), Some(&["211", "main", "9/10"][..]));
        assert!(text.contains("sh -c :: started by exec because of all_busy (1)\n"), "{text}");
        assert!(text.lines().any(|line| line.contains("15000") && line.contains("40/40")), "{text}");
    }

    #[test]
    fn the_head_names_the_machine_and_its_floors() {
        let machine = Machine {
            kernel: "Linux 6.18 x86_64".to_owned(),
            cpu: "Example".to_owned(),
            cores: 2,
            load: "0.1 0.2 0.3".to_owned(),
        };
        let floors = [("a floor", Some(Percentiles { p50: 5.0, p99: 9.0 })), ("another", None)];
        let text = head(&machine, &floors);
        assert!(text.starts_with("Linux 6.18 x86_64, 2 cores of Example, load 0.1 0.2 0.3\n\n"), "{text}");
        assert!(text.lines().any(|line| line.split_whitespace().eq(["a", "floor", "5.0", "9.0"])), "{text}");
        assert!(text.lines().any(|line| line.split_whitespace().eq(["another", "-", "-"])), "{text}");
    }
}
