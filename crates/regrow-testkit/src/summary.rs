//! What `make test` says at its end: each of the large tests adds a line.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};

/// The variable that names the file of the lines.
const FILE: &str = "REGROW_SUMMARY";
/// The variable that says that the tests run as root too: an unprivileged user repeats them with fewer runs.
const AGAIN: &str = "REGROW_AGAIN";

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

/// Whether the same tests run as root too, as `scripts/suite_parts.py` says.
#[must_use]
pub fn is_repetition() -> bool {
    std::env::var_os(AGAIN).is_some()
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
