//! How long short children take beside endless loops: by the kernel's own way, by each of ours, and by what people do instead.
//!
//! | way | what is done |
//! |---|---|
//! | default | nothing |
//! | niceness -10 | each child, by its parent |
//! | library | `regrow schedule`: a library in each process |
//! | outside | `regrow schedule --outside`: the kernel tells, nothing is in the processes |
//! | parent | `--outside --by parent`: a process begins as what its parent has used says |
//! | program | `--outside --by program`: by the child's program alone |
//! | oracle | each child comes first and each loop is easily interrupted, by who knows which is which |
//!
//! The ways come in turn. A turn in which a child failed, one is missing, or nothing was scheduled as long, is an error.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::BenchError;
use crate::figure::Figure;
use crate::programs::compiler::compile;
use crate::samples::median;

/// What creates the loops and the children.
const SOURCE: &str = include_str!("children.c");
/// How many children in a turn, and how many turns each way has.
const CHILDREN: usize = 75;
const TURNS: usize = 5;
/// What tells short from long, in microseconds of processor time: a compiler is short.
const LIMIT_US: &str = "100000";
/// How much nicer long ones are, which needs no privilege. Slices alone gain a third of it.
const LONG_NICE: &str = "10";
/// What is asked: less time in percent, of the oracle's gain in percent, and what the loops may lose in percent.
const ASKED_LESS: f64 = 40.0;
const ASKED_OF_ORACLE: f64 = 70.0;
const MAY_LOSE: f64 = 3.0;

/// A way: its name, the word for the program of the children, and the command before that.
struct Way {
    name: &'static str,
    word: &'static str,
    schedule: Option<&'static [&'static str]>,
}

const WAYS: [Way; 7] = [
    Way { name: "default", word: "plain", schedule: None },
    Way { name: "niceness -10", word: "nicer", schedule: None },
    Way { name: "library", word: "plain", schedule: Some(&[]) },
    Way { name: "outside", word: "plain", schedule: Some(&["--outside"]) },
    Way { name: "parent", word: "plain", schedule: Some(&["--outside", "--by", "parent"]) },
    Way { name: "program", word: "plain", schedule: Some(&["--outside", "--by", "program"]) },
    Way { name: "oracle", word: "oracle", schedule: None },
];

/// What came of a turn, or the medians of turns.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Turn {
    /// Mean time of a child from its creation to its end, in milliseconds.
    child_ms: f64,
    /// How often the loops went round in a second.
    rounds: f64,
}

/// Measures all ways.
pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let folder = tempfile::tempdir().map_err(BenchError::system("a temporary folder cannot be made"))?;
    let program = program(folder.path())?;
    let mut turns = WAYS.map(|_| Vec::new());
    for _ in 0..TURNS {
        for (way, turns) in WAYS.iter().zip(&mut turns) {
            turns.push(turn(way, &program, folder.path())?);
        }
    }
    Ok(figures(&turns.map(|turns| Turn {
        child_ms: median(turns.iter().map(|turn| turn.child_ms)),
        rounds: median(turns.iter().map(|turn| turn.rounds)),
    })))
}

/// Compiles what creates the children, beside what they compile.
fn program(folder: &Path) -> Result<PathBuf, BenchError> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map(|()| path).map_err(BenchError::system("a source cannot be written"))
    };
    write("one.c", "#include <stdio.h>\nint one(void) { return puts(\"one\"); }\n")?;
    let (source, program) = (write("children.c", SOURCE)?, folder.join("children"));
    compile(&["-O2"], &[&source], &program)
        .map_err(|error| BenchError::system("children.c cannot be compiled")(std::io::Error::other(error)))?;
    Ok(program)
}

fn turn(way: &Way, program: &Path, folder: &Path) -> Result<Turn, BenchError> {
    let mut command = match way.schedule {
        None => Command::new(program),
        Some(options) => {
            let own = std::env::current_exe();
            let mut command = Command::new(own.map_err(BenchError::system("the path of this command"))?);
            command
                .args(["schedule", "--fresh", "--limit-us", LIMIT_US, "--long-nice", LONG_NICE])
                .args(options)
                .arg("--")
                .arg(program);
            command
        }
    };
    command.arg(way.word).arg(folder).arg(CHILDREN.to_string());
    let ran = command.output().map_err(BenchError::system("the children cannot be started"))?;
    let (said, told) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let wrong =
        |what: String| BenchError::WrongRun { program: format!("short children, {}", way.name), what };
    if !ran.status.success() {
        return Err(wrong(format!("{}: {told}", ran.status)));
    }
    if way.schedule.is_some() && !has_scheduled(&told) {
        return Err(wrong(format!("no loop was scheduled as a long one: {told}")));
    }
    parse(&said).ok_or_else(|| wrong(format!("it printed {said:?}")))
}

/// Whether `regrow schedule` says that some were scheduled as long, at their creation or later.
fn has_scheduled(told: &str) -> bool {
    let before =
        |mark: &str| told.split(mark).next().and_then(|text| text.rsplit(' ').next()?.parse::<u64>().ok());
    before(" as long").unwrap_or(0) + before(" anew as they went on").unwrap_or(0) > 0
}

/// What the program prints: how many children, their mean time in microseconds, rounds in a second.
fn parse(said: &str) -> Option<Turn> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let [children, child_us, rounds] = words.as_slice() else { return None };
    let is_whole = *children == CHILDREN.to_string();
    let (child_us, rounds): (f64, f64) = (child_us.parse().ok()?, rounds.parse().ok()?);
    (is_whole && rounds > 0.0).then_some(Turn { child_ms: child_us / 1000.0, rounds })
}

fn figures(turns: &[Turn; WAYS.len()]) -> Vec<Figure> {
    let [default, nicer, _, outside, parent, program, oracle] = *turns;
    let less = |turn: Turn| (1.0 - turn.child_ms / default.child_ms) * 100.0;
    let title = |what: &str| format!("short children beside endless loops: {what}");
    let mut figures: Vec<Figure> = WAYS
        .iter()
        .zip(turns)
        .map(|(way, turn)| {
            Figure::told(&title(&format!("a child's time, {}", way.name)), turn.child_ms, "ms")
        })
        .collect();
    let others = WAYS.iter().zip(turns).skip(1);
    figures.extend(others.map(|(way, &turn)| match way.name {
        "outside" => Figure::at_least(&title("less than by default, outside"), less(turn), ASKED_LESS, "%"),
        name => Figure::told(&title(&format!("less than by default, {name}")), less(turn), "%"),
    }));
    let share = less(outside) / less(oracle) * 100.0;
    figures.push(Figure::at_least(&title("of the oracle's gain, outside"), share, ASKED_OF_ORACLE, "%"));
    for (name, other) in [("niceness -10", nicer), ("parent", parent), ("program", program)] {
        let title = title(&format!("{name} takes so many times as long as outside"));
        figures.push(Figure::at_least(&title, other.child_ms / outside.child_ms, 1.0, "times"));
    }
    let lost = (1.0 - outside.rounds / default.rounds) * 100.0;
    figures.push(Figure::at_most(&title("what the loops lose, outside"), lost, MAY_LOSE, "%"));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_programs_say_is_read() {
        assert_eq!(parse("75 12500.0 1000\n"), Some(Turn { child_ms: 12.5, rounds: 1000.0 }));
        for wrong in ["74 12500.0 1000", "75 12500.0 0", "75 12500.0", ""] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        let said = |long: u32, anew: u32| {
            format!(
                "regrow: 9 processes were created, 8 programs executed; 5 were scheduled as short, {long} as long, and {anew} anew as they went on"
            )
        };
        assert!(has_scheduled(&said(2, 0)) && has_scheduled(&said(0, 2)) && !has_scheduled(&said(0, 0)));
    }

    #[test]
    fn shares_are_those_of_the_medians() {
        let turn = |child_ms, rounds| Turn { child_ms, rounds };
        let turns = [20.0, 18.0, 14.0, 12.0, 15.0, 12.0, 10.0].map(|child_ms| turn(child_ms, 100.0));
        let mut turns = turns;
        turns[3].rounds = 98.0;
        let figures = figures(&turns);
        let of = |what: &str| {
            let found = figures.iter().find(|figure| figure.name().ends_with(what));
            found.map(|figure| (figure.measured(), figure.holds()))
        };
        assert_eq!(of("less than by default, outside"), Some((40.0, Some(true))));
        assert_eq!(of("of the oracle's gain, outside"), Some((80.0, Some(true))));
        assert_eq!(of("what the loops lose, outside"), Some((2.0, Some(true))));
        assert_eq!(of("niceness -10 takes so many times as long as outside"), Some((1.5, Some(true))));
        assert_eq!(of("parent takes so many times as long as outside"), Some((1.25, Some(true))));
    }
}
