//! Names as a person reads them. What comes from a program, paths above all, may hold anything: control characters that move the cursor, marks that
//! turn the direction of writing, names of a kilometre.

use std::fmt::Write as _;

/// A name without what a terminal would obey: such characters stand as `\n`, `\x1b` or `\u{202e}`.
#[must_use]
pub fn plain(name: &str) -> String {
    if !name.chars().any(is_hidden) {
        return name.to_owned();
    }
    name.chars().fold(String::with_capacity(name.len() + 8), |mut text, character| {
        // Writing to a string cannot fail.
        let _ = match character {
            '\n' => write!(text, "\\n"),
            '\t' => write!(text, "\\t"),
            '\r' => write!(text, "\\r"),
            each if is_hidden(each) && each.is_ascii() => write!(text, "\\x{:02x}", u32::from(each)),
            each if is_hidden(each) => write!(text, "\\u{{{:x}}}", u32::from(each)),
            each => write!(text, "{each}"),
        };
        text
    })
}

/// Whether a character is obeyed rather than shown: controls, separators of lines, and marks of direction.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The last part of a path.
#[must_use]
pub fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// A time as a person reads it: three digits and a unit.
#[must_use]
pub fn time(micros: f64) -> String {
    match micros {
        0.0 => "0".to_owned(),
        us if us < 9.95 => format!("{us:.1} µs"),
        us if us < 999.5 => format!("{us:.0} µs"),
        us if us < 9_995.0 => format!("{:.2} ms", us / 1e3),
        us if us < 99_950.0 => format!("{:.1} ms", us / 1e3),
        us if us < 999_500.0 => format!("{:.0} ms", us / 1e3),
        us if us < 9_995_000.0 => format!("{:.2} s", us / 1e6),
        us if us < 99_950_000.0 => format!("{:.1} s", us / 1e6),
        us => format!("{:.0} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(plain("größe/ファイル.c"), "größe/ファイル.c");
        assert_eq!(
            plain("a\x1b[2Jb\nc\td\u{202e}e\u{9b}f\u{0}"),
            "a\\x1b[2Jb\\nc\\td\\u{202e}e\\u{9b}f\\x00"
        );
    }

    #[test]
    fn the_last_part_of_a_path_is_its_name() {
        assert_eq!(
            ["/usr/bin/make", "make", "/a/b/", "/", ""].map(file_name),
            ["make", "make", "b", "/", ""]
        );
    }

    #[test]
    fn times_have_three_digits() {
        let times =
            [0.0, 9.99, 12.3, 999.6, 1234.0, 99_960.0, 1_500_000.0, 12_340_000.0, 123_456_789.0].map(time);
        assert_eq!(
            times,
            ["0", "10 µs", "12 µs", "1.00 ms", "1.23 ms", "100 ms", "1.50 s", "12.3 s", "123 s"]
        );
    }
}
