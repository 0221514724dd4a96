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

/// A function's name without its parameters and the path to it: `Command::spawn` of `<std::process::Command>::spawn`, `Stove::look` of
/// `kitchen::Stove::look(std::string const&)`.
#[must_use]
pub fn short_function(name: &str) -> String {
    let name = before_parameters(name);
    let parts = path_parts(name);
    let last = parts.get(parts.len().saturating_sub(2)..).unwrap_or_default();
    last.iter().map(|part| short_type(part)).collect::<Vec<_>>().join("::")
}

/// `look` of `look(int) const`; an operator of two brackets, and a name that begins with one, stay as they are.
fn before_parameters(name: &str) -> &str {
    match name.find('(') {
        Some(start) if start > 0 && !name[..start].ends_with("operator") => &name[..start],
        _ => name,
    }
}

/// The parts between `::` that stand in no brackets.
fn path_parts(name: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at >= begin && bytes.get(at + 1) == Some(&b':') => {
                parts.push(&name[begin..at]);
                begin = at + 2;
            }
            _ => {}
        }
    }
    parts.push(name.get(begin..).unwrap_or_default());
    parts
}

/// `Command` of `<std::process::Command as Run>` and of `Command<'a>`.
fn short_type(part: &str) -> String {
    let Some(inner) = part.strip_prefix('<').and_then(|part| part.strip_suffix('>')) else {
        let plain = part
            .find('<')
            .filter(|&at| at > 0 && !part.starts_with("operator"))
            .map_or(part, |at| &part[..at]);
        return plain.to_owned();
    };
    let of_type = inner.split(" as ").next().unwrap_or(inner);
    let last = path_parts(of_type).pop().unwrap_or(of_type);
    last.find('<').filter(|&at| at > 0).map_or(last, |at| &last[..at]).to_owned()
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
    fn functions_lose_their_path_and_parameters() {
        for (name, short) in [
            ("child_execute_job", "child_execute_job"),
            ("<std::sys::process::unix::common::Command>::do_fork", "Command::do_fork"),
            ("<std::process::Command as a::Run<T>>::spawn::{closure#0}", "spawn::{closure#0}"),
            ("std::sys::pal::unix::process::Command::spawn", "Command::spawn"),
            ("kitchen::Stove<int, std::pair<a::b, c>>::look(std::string const&) const", "Stove::look"),
            ("(anonymous namespace)::run(int)", "(anonymous namespace)::run(int)"),
            ("a::operator()(int)", "a::operator()(int)"),
            ("a::operator<(b)", "a::operator<"),
            ("core::ops::function::FnOnce::call_once<fn(), ()>", "FnOnce::call_once"),
            ("", ""),
            ("::", "::"),
            ("a:::b", "a:::b"),
            ("<<<", "<<<"),
            (">>>::ü(", ">>>::ü"),
        ] {
            assert_eq!(short_function(name), short, "{name}");
        }
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
