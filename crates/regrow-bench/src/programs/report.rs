//! The results as tables for the terminal.

use std::collections::BTreeMap;

use super::result::ProgramResult;
use crate::machine::Machine;
use crate::samples::Percentiles;
use crate::system::floors::FloorRow;
use crate::table::{Alignment, TextTable};

/// Stands where nothing was measured.
const NOTHING: &str = "-";

/// The machine and its floors.
pub(super) fn head(machine: &Machine, floors: &[FloorRow]) -> String {
    let cores = if machine.cores == 1 { "core" } else { "cores" };
    let mut table = TextTable::new(&[
        ("floors of this machine, µs", Alignment::Left),
        ("p50", Alignment::Right),
        ("p99", Alignment::Right),
    ]);
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
#[must_use]
pub fn tables(results: &[ProgramResult]) -> String {
    let mut text = times_table(results);
    for result in results.iter().filter(|result| !result.fallbacks.is_empty()) {
        let (name, reasons) = (&result.program, reasons(&result.fallbacks));
        text.push_str(&format!("{name}: started by exec because of {reasons}\n"));
    }
    for result in results {
        if let Some(why) = &result.without_prototype {
            text.push_str(&format!("{}: not run by the prototype: {why}\n", result.program));
        }
    }
    text.push('\n');
    text.push_str(&throughput_table(results));
    if results.iter().any(|result| result.single_use.is_some()) {
        text.push('\n');
        text.push_str(&single_use_table(results));
    }
    if results.iter().any(|result| result.prototype.is_some()) {
        text.push('\n');
        text.push_str(&prototype_table(results));
    }
    text
}

fn times_table(results: &[ProgramResult]) -> String {
    let mut table = TextTable::new(&[
        ("call to end seen, µs\nprogram", Alignment::Left),
        ("posix_spawn\np50", Alignment::Right),
        ("p99", Alignment::Right),
        ("Regrow\np50", Alignment::Right),
        ("p99", Alignment::Right),
        ("ratio", Alignment::Right),
        ("to main\np50", Alignment::Right),
        ("p99", Alignment::Right),
        ("wake\np50", Alignment::Right),
        ("to main\n/ wake", Alignment::Right),
        ("reset\np50", Alignment::Right),
        ("CPU per run\nposix_spawn", Alignment::Right),
        ("\nRegrow", Alignment::Right),
        ("\npart", Alignment::Right),
        ("body\nKiB", Alignment::Right),
        ("\npoint", Alignment::Left),
        ("\nrecycled", Alignment::Right),
    ]);
    for result in results {
        table.row([
            result.program.clone(),
            p50(result.posix_spawn_us),
            p99(result.posix_spawn_us),
            p50(result.regrow_us),
            p99(result.regrow_us),
            number(result.ratio_p50),
            p50(result.to_main_us),
            p99(result.to_main_us),
            p50(result.wake_us),
            hundredths(result.to_main_of_wake_p50),
            p50(result.reset_us),
            number(Some(result.cpu_us.posix_spawn)),
            number(Some(result.cpu_us.regrow)),
            thousandths(result.cpu_of_posix_spawn),
            result.body_kib.map_or_else(|| NOTHING.to_owned(), |kib| format!("{kib:.0}")),
            result.point.unwrap_or(NOTHING).to_owned(),
            format!("{}/{}", result.recycled, result.runs),
        ]);
    }
    table.render(0)
}

fn throughput_table(results: &[ProgramResult]) -> String {
    let mut table = TextTable::new(&[
        ("runs per second, back to back\nprogram", Alignment::Left),
        ("clients", Alignment::Right),
        ("posix_spawn", Alignment::Right),
        ("Regrow", Alignment::Right),
        ("ratio", Alignment::Right),
        ("recycled", Alignment::Right),
        ("by exec", Alignment::Left),
    ]);
    for result in results {
        for throughput in &result.throughput {
            table.row([
                result.program.clone(),
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

/// Runs whose body serves no other, beside those by `posix_spawn` and those whose body is used again.
fn single_use_table(results: &[ProgramResult]) -> String {
    let mut table = TextTable::new(&[
        ("single use: a body serves one run\nprogram", Alignment::Left),
        ("body ready, µs\np50", Alignment::Right),
        ("p99", Alignment::Right),
        ("against\nreuse", Alignment::Right),
        ("\nrecycled", Alignment::Right),
        ("back to back\nruns/s", Alignment::Right),
        ("against\nposix_spawn", Alignment::Right),
        ("CPU per run\nµs", Alignment::Right),
        ("by exec", Alignment::Left),
    ]);
    for result in results {
        let Some(single_use) = &result.single_use else { continue };
        let ratio = single_use.us.zip(result.regrow_us).map(|(single, regrow)| single.p50 / regrow.p50);
        let one_client = result.throughput.first();
        let per_s = one_client.and_then(|throughput| throughput.single_use_per_s);
        let against = one_client.zip(per_s).map(|(throughput, per_s)| per_s / throughput.posix_spawn_per_s);
        table.row([
            result.program.clone(),
            p50(single_use.us),
            p99(single_use.us),
            hundredths(ratio),
            format!("{}/{}", single_use.recycled, result.runs),
            per_s.map_or_else(|| NOTHING.to_owned(), |per_s| format!("{per_s:.0}")),
            number(against),
            number(result.cpu_us.single_use),
            reasons(&single_use.fallbacks),
        ]);
    }
    table.render(0)
}

/// The prototype, beside Regrow in the same minutes.
fn prototype_table(results: &[ProgramResult]) -> String {
    let mut table = TextTable::new(&[
        ("call to end seen, µs\nprogram", Alignment::Left),
        ("prototype\np50", Alignment::Right),
        ("p99", Alignment::Right),
        ("to main\np50", Alignment::Right),
        ("Regrow\np50", Alignment::Right),
        ("Regrow\n/ prototype", Alignment::Right),
        ("CPU per run\nprototype", Alignment::Right),
        ("\nRegrow", Alignment::Right),
        ("\nruns", Alignment::Right),
    ]);
    for result in results {
        let Some(prototype) = &result.prototype else { continue };
        table.row([
            result.program.clone(),
            p50(prototype.us),
            p99(prototype.us),
            p50(prototype.to_main_us),
            p50(result.regrow_us),
            hundredths(prototype.regrow_of_prototype_p50),
            number(result.cpu_us.prototype),
            number(Some(result.cpu_us.regrow)),
            prototype.runs.to_string(),
        ]);
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

fn hundredths(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.2}"))
}

fn thousandths(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::result::example;

    #[test]
    fn the_tables_show_what_was_measured_and_what_was_not() {
        let text = tables(&[example()]);
        let row = text.lines().find(|line| line.starts_with("sh -c :")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().skip(3).collect();
        let expected = ["600.0", "1200.0", "30.0", "60.0", "20.0", "-", "-", "4.0", "-", "25.0"];
        assert_eq!(cells.get(..10), Some(&expected[..]));
        assert_eq!(cells.get(10..), Some(&["500.0", "60.0", "0.120", "211", "main", "9/10"][..]));
        assert!(text.contains("sh -c :: started by exec because of all_busy (1)\n"), "{text}");
        let last: Vec<&str> = text.lines().rev().filter(|line| line.starts_with("sh -c :")).collect();
        let cells: Vec<&str> = last[0].split_whitespace().skip(3).collect();
        assert_eq!(cells, ["25.0", "50.0", "5.0", "30.0", "1.20", "45.0", "60.0", "10"], "{text}");
        let cells: Vec<&str> = last[1].split_whitespace().skip(3).collect();
        assert_eq!(cells, ["40.0", "80.0", "1.33", "8/10", "4500", "3.0", "300.0"], "{text}");
        assert!(text.lines().any(|line| line.contains("15000") && line.contains("40/40")), "{text}");
    }

    #[test]
    fn a_program_that_the_prototype_cannot_run_is_told() {
        let why = Some("its process ended".to_owned());
        let text = tables(&[ProgramResult { prototype: None, without_prototype: why, ..example() }]);
        assert!(text.contains("sh -c :: not run by the prototype: its process ended\n"), "{text}");
        assert!(!text.contains("/ prototype"), "{text}");
    }

    #[test]
    fn the_head_names_the_machine_and_its_floors() {
        let machine = Machine {
            kernel: "Linux 6.18 example".to_owned(),
            cpu: "Example".to_owned(),
            cores: 2,
            load: "0.1 0.2 0.3".to_owned(),
        };
        let floors = [("a floor", Some(Percentiles { p50: 5.0, p99: 9.0 })), ("another", None)];
        let text = head(&machine, &floors);
        assert!(text.starts_with("Linux 6.18 example, 2 cores of Example, load 0.1 0.2 0.3\n\n"), "{text}");
        assert!(text.lines().any(|line| line.split_whitespace().eq(["a", "floor", "5.0", "9.0"])), "{text}");
        assert!(text.lines().any(|line| line.split_whitespace().eq(["another", "-", "-"])), "{text}");
    }
}
