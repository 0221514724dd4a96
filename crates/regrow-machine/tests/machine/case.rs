//! Running the cases, and counting them.

use std::panic::catch_unwind;
use std::process::ExitCode;

use regrow_machine::{Machine, MachineOptions, StartError};

/// Something that holds, or panics.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// It looks at the machine.
    pub(crate) looks: bool,
    /// What must be there; `Err`: what is missing.
    pub(crate) needs: fn() -> Result<(), String>,
    pub(crate) run: fn(),
}

/// Nothing is needed.
pub(crate) fn nothing() -> Result<(), String> {
    Ok(())
}

/// Programs that must be on the search path.
pub(crate) fn programs(names: &[&str]) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    match names.iter().find(|name| !is_there(name)) {
        Some(name) => Err(format!("{name} is not installed")),
        None => Ok(()),
    }
}

/// Runs the cases that the command line asks for, one after the other: each looks at the whole machine.
pub(crate) fn run(cases: &[&[Case]]) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_asked = |case: &&Case| words.is_empty() || words.iter().any(|word| case.name.contains(word));
    let refused = refusal();
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), 0);
    for case in cases.iter().flat_map(|cases| cases.iter()).filter(is_asked) {
        let missing = refused.clone().filter(|_| case.looks).or_else(|| (case.needs)().err());
        if let Some(missing) = missing {
            println!("skipped {}: {missing}", case.name);
            skipped += 1;
            continue;
        }
        println!("case {} ...", case.name);
        match catch_unwind(case.run) {
            Ok(()) => passed += 1,
            Err(_) => failed.push(case.name),
        }
    }
    println!("machine: {passed} passed, {} failed, {skipped} skipped", failed.len());
    for name in &failed {
        println!("failed: {name}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Why the machine may not be looked at. Where it may, but does not work, the cases fail.
fn refusal() -> Option<String> {
    match Machine::start(&MachineOptions::default()) {
        Err(error @ (StartError::Missing(_) | StartError::Refused(_))) => Some(error.to_string()),
        _ => None,
    }
}
