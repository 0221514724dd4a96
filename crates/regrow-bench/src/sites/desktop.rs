//! The paper's table 4: music is decoded while pages are loaded. By the kernel's own way, by `regrow schedule`, and by `regrow schedule --outside`, in turn.

use std::process::Command;

use super::workloads::Workloads;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;

/// How many turns each way has, as in the paper.
const TURNS: usize = 20;
/// What tells short from long: so many times what a piece of music takes of the processor alone, which differs from machine to machine. A page that
/// computes takes some twenty times as long.
const LIMIT_PIECES: u64 = 2;
/// How much nicer long ones are, which needs no privilege.
const LONG_NICE: &str = "10";
/// What is asked: less time of a piece, and how much longer pages may take, in percent.
const ASKED_LESS: f64 = 20.0;
const MAY_LOSE: f64 = 3.0;
/// The fewest pieces of a turn.
const LEAST: u32 = 3;

/// The ways: a name, and what is said to `regrow schedule`.
const WAYS: [(&str, Option<&[&str]>); 3] =
    [("default", None), ("library", Some(&[])), ("outside", Some(&["--outside"]))];

/// A turn: the mean time of a piece, and that of both pages, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Turn {
    piece_ms: f64,
    pages_ms: f64,
}

/// Measures all ways. What is learned is kept from turn to turn, each way for itself; a turn before the first one is not counted.
pub(super) fn measure(workloads: &Workloads) -> Result<Vec<Figure>, BenchError> {
    let limit_us = LIMIT_PIECES * piece_us(workloads)?;
    let mut turns = WAYS.map(|_| Vec::new());
    for number in 0..=TURNS {
        for ((name, schedule), turns) in WAYS.iter().zip(&mut turns) {
            let turn = turn(workloads, name, *schedule, limit_us)?;
            if number > 0 {
                turns.push(turn);
            }
        }
    }
    Ok(figures(&turns))
}

/// What a piece takes of the processor alone, in microseconds.
fn piece_us(workloads: &Workloads) -> Result<u64, BenchError> {
    let ran = workloads.piece().output().map_err(BenchError::system("a workload cannot be started"))?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let piece = said.trim().parse().ok().filter(|&us| ran.status.success() && us > 0);
    piece.ok_or_else(|| BenchError::WrongRun {
        program: "a piece of music".to_owned(),
        what: format!("{}: {said:?}, {}", ran.status, String::from_utf8_lossy(&ran.stderr)),
    })
}

fn turn(
    workloads: &Workloads,
    name: &str,
    schedule: Option<&[&str]>,
    limit_us: u64,
) -> Result<Turn, BenchError> {
    let desktop = workloads.desktop();
    let mut command = match schedule {
        None => desktop,
        Some(options) => {
            let own = std::env::current_exe().map_err(BenchError::system("the path of this command"))?;
            let mut command = Command::new(own);
            command.env("XDG_STATE_HOME", workloads.state(name));
            command.args(["schedule", "--limit-us", &limit_us.to_string(), "--long-nice", LONG_NICE]);
            command.args(options).arg("--");
            command.arg(desktop.get_program()).args(desktop.get_args());
            command
        }
    };
    let ran = command.output().map_err(BenchError::system("a workload cannot be started"))?;
    let said = String::from_utf8_lossy(&ran.stdout);
    parse(&said).filter(|_| ran.status.success()).ok_or_else(|| BenchError::WrongRun {
        program: format!("music and pages, {name}"),
        what: format!("{}: {said:?}, {}", ran.status, String::from_utf8_lossy(&ran.stderr)),
    })
}

/// What the script prints: pieces, the mean time of one, and that of the pages, in microseconds.
fn parse(said: &str) -> Option<Turn> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let [pieces, piece_us, pages_us] = words.as_slice() else { return None };
    let ms = |us: &str| us.parse::<f64>().ok().filter(|&us| us > 0.0).map(|us| us / 1000.0);
    let turn = Turn { piece_ms: ms(piece_us)?, pages_ms: ms(pages_us)? };
    (pieces.parse::<u32>().ok()? >= LEAST).then_some(turn)
}

/// Differences are those of turns that followed one another.
fn figures(turns: &[Vec<Turn>; WAYS.len()]) -> Vec<Figure> {
    let title = |what: &str| format!("table 4, music while pages load: {what}");
    let mut figures = Vec::new();
    for ((name, _), of_way) in WAYS.iter().zip(turns) {
        let of = |part: fn(&Turn) -> f64| median(of_way.iter().map(part));
        figures.push(Figure::told(&title(&format!("a piece, {name}")), of(|turn| turn.piece_ms), "ms"));
        figures.push(Figure::told(&title(&format!("the pages, {name}")), of(|turn| turn.pages_ms), "ms"));
    }
    let [default, ..] = turns;
    for ((name, _), of_way) in WAYS.iter().zip(turns).skip(1) {
        let of = |part: fn(&Turn) -> f64| {
            median(of_way.iter().zip(default).map(|(turn, before)| (part(turn) / part(before) - 1.0) * 100.0))
        };
        let (less, slower) = (-of(|turn| turn.piece_ms), of(|turn| turn.pages_ms));
        figures.push(Figure::at_least(&title(&format!("a piece takes less, {name}")), less, ASKED_LESS, "%"));
        figures.push(Figure::at_most(
            &title(&format!("the pages take longer, {name}")),
            slower,
            MAY_LOSE,
            "%",
        ));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_says_is_read() {
        assert_eq!(parse("8 180000 5000000\n"), Some(Turn { piece_ms: 180.0, pages_ms: 5000.0 }));
        assert!(["2 180000 5000000", "8 0 5000000", "8 1", ""].iter().all(|wrong| parse(wrong).is_none()));
    }

    #[test]
    fn differences_are_of_pairs() {
        let turn = |piece_ms, pages_ms| Turn { piece_ms, pages_ms };
        let turns = [vec![turn(200.0, 100.0); 3], vec![turn(150.0, 101.0); 3], vec![turn(190.0, 110.0); 3]];
        let of = |what: &str| {
            let figures = figures(&turns);
            figures
                .iter()
                .find(|figure| figure.name().ends_with(what))
                .map(|figure| (figure.measured(), figure.holds()))
        };
        assert_eq!(of("a piece takes less, library"), Some((25.0, Some(true))));
        assert_eq!(of("the pages take longer, library"), Some((1.0, Some(true))));
        assert_eq!(of("a piece takes less, outside"), Some((5.0, Some(false))));
        assert_eq!(of("the pages take longer, outside"), Some((10.0, Some(false))));
    }
}
