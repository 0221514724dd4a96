//! What a script writes to its standard error, as records of the log.
//!
//! A line is a record. A traceback of Python is one record: it goes on to the end of the text, because an exception says what it
//! wants, in any number of lines. A script cannot forge the beginning of a record: the further lines of a record are indented.

/// How a traceback begins.
const TRACEBACK: &str = "Traceback (most recent call last):";
/// What stands before that line in a group of exceptions.
const GROUP: &str = "  + Exception Group ";
/// The indent of the further lines of a record.
const INDENT: &str = "    ";

/// The records of a text.
pub(crate) fn records(text: &str) -> Vec<String> {
    let mut records = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if begins_traceback(rest) {
            records.push(one_record(rest));
            break;
        }
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        records.push(line.trim_end_matches('\r').to_owned());
        rest = after;
    }
    records
}

fn begins_traceback(text: &str) -> bool {
    text.strip_prefix(GROUP).unwrap_or(text).starts_with(TRACEBACK)
}

/// A text of several lines as one record.
pub(crate) fn one_record(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(&format!("\n{INDENT}"))
}

/// The last line of a text that is not blank.
pub(crate) fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_record() {
        assert!(records("").is_empty());
        assert_eq!(records("a\r\n\n  b\nc"), ["a", "", "  b", "c"]);
    }

    #[test]
    fn a_traceback_is_one_record_whatever_its_exception_says() {
        let text = "before\nTraceback (most recent call last):\n  File \"app.py\", line 1\nValueError: a\nb\n\n\
            During handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\nKeyError: 1\n";
        let found = records(text);
        assert_eq!((found.len(), found[0].as_str()), (2, "before"));
        assert!(found[1].starts_with(TRACEBACK) && found[1].ends_with("\n    KeyError: 1"), "{found:?}");
        assert_eq!(records("  + Exception Group Traceback (most recent call last):\n  | a\n").len(), 1);
    }

    #[test]
    fn no_further_line_of_a_record_looks_like_the_beginning_of_one() {
        let forged = one_record("Traceback\n2026-11-24T00:00:00Z  WARN regrow_web: forged\n");
        assert!(forged.lines().skip(1).all(|line| line.starts_with(INDENT)));
        assert_eq!((last_line("a\n b \n\n"), last_line(" \n")), (Some("b"), None));
    }
}
