//! What `make test` says at its end: each of the large tests adds a line.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};

/// The variable that names the file of the lines.
const FILE: &str = "REGROW_SUMMARY";
/// The variable that says that the tests run as root too: an unprivileged user repeats them with fewer runs.
const AGAIN: &str = "REGROW_AGAIN";
/// The variable that says that time does not matter: `make soak` sets it.
const LONG: &str = "REGROW_LONG";

/// Adds a line to the file that `REGROW_SUMMARY` names; without the variable, does nothing.
///
/// # Errors
/// When the file cannot be written to.
pub fn add(line: &str) -> io::Result<()> {
    let Some(path) = std::env::var_os(FILE) else { return Ok(()) };
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // In one write, so that lines of several tests do not mix.
    file.write_all(format!("{line}\n").as_bytes())
}

/// How much of a large test is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All there is: `make soak`.
    Long,
    /// What shows that a promise holds: `make test`, and tests that somebody runs by hand.
    Usual,
    /// What may differ for a user without privilege, where the same runs as root too.
    Again,
}

/// How much is to be done, as `scripts/suite_parts.py` says.
#[must_use]
pub fn extent() -> Extent {
    if std::env::var_os(AGAIN).is_some() {
        Extent::Again
    } else if std::env::var_os(LONG).is_some() {
        Extent::Long
    } else {
        Extent::Usual
    }
}

/// A share, shown with one decimal and never rounded up.
#[derive(Debug, Clone, Copy)]
pub struct Percent {
    /// How many of them.
    pub part: usize,
    /// How many there are.
    pub whole: usize,
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = self.part * 1000 / self.whole.max(1);
        write!(f, "{}.{} %", thousandths / 10, thousandths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_not_rounded_up() {
        let show = |part, whole| Percent { part, whole }.to_string();
        assert_eq!(
            [show(1999, 2000), show(2, 3), show(3, 3), show(0, 0)],
            ["99.9 %", "66.6 %", "100.0 %", "0.0 %"]
        );
    }
}
