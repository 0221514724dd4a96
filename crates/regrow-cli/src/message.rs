//! What the command says about itself on standard error: `regrow: …`.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;

/// Writes a line about the command itself to standard error.
pub(crate) fn complain(text: &str) {
    // Where standard error is gone, nobody reads it.
    let _ = writeln!(std::io::stderr(), "regrow: {text}");
}

/// The error and its causes in one line. A cause whose text ends the line already is left out.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            // Writing to a string does not fail.
            let _ = write!(text, ": {cause_text}");
        }
        source = cause.source();
    }
    text
}
