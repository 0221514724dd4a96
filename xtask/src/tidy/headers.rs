//! Each source file starts with a comment that says what it is for.

use super::finding::Finding;
use crate::repo::TextFile;

/// The kinds of source file, by the end of the name, and how the comment at the top may begin.
const KINDS: &[(&str, &[&str])] = &[
    (".rs", &["//! "]),
    (".c", &["/*", "// "]),
    (".h", &["/*", "// "]),
    (".S", &["/*", "// ", "# "]),
    (".ld", &["/*"]),
    (".go", &["// "]),
    (".py", &["\"\"\"", "r\"\"\""]),
    (".sh", &["# "]),
];

/// Checks the top of one file.
pub(crate) fn check(file: &TextFile) -> Option<Finding> {
    let (shebang, mut line, top) = first_line(&file.text);
    let openings = match KINDS.iter().find(|(end, _)| file.path.ends_with(end)) {
        Some((_, openings)) => openings,
        None if shebang => &["# "] as &[&str],
        None => return None,
    };
    if openings.iter().any(|opening| top.starts_with(opening)) {
        return None;
    }
    if top.is_empty() {
        line = 1;
    }
    let wanted = openings[0].trim_end();
    Some(Finding::new(
        &file.path,
        line,
        format!("starts with no comment ({wanted}) that says what it is for"),
    ))
}

/// Whether there is a `#!` line, and the first line after it with its number.
fn first_line(text: &str) -> (bool, usize, &str) {
    let shebang = text.starts_with("#!/");
    let index = usize::from(shebang);
    (shebang, index + 1, text.lines().nth(index).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::file;

    #[test]
    fn a_file_with_its_purpose_on_top_passes() {
        for (path, text) in [
            ("a.rs", "//! What it is for.\nfn a() {}\n"),
            ("a.c", "/* What it is for. */\n"),
            ("a.sh", "#!/bin/sh\n# What it is for.\n"),
            (".ci/run", "#!/bin/sh\n# What it is for.\n"),
            ("a.py", "#!/usr/bin/python3\n\"\"\"What it is for.\"\"\"\n"),
            ("a.toml", "[package]\n"),
        ] {
            assert_eq!(check(&file(path, text)), None, "{path}");
        }
    }

    #[test]
    fn a_file_without_is_found() {
        for (path, text) in [
            ("a.rs", "/// A doc comment of the item.\nfn a() {}\n"),
            ("a.rs", "#![no_std]\n//! Too late.\n"),
            ("a.rs", ""),
            ("a.c", "#include <stdio.h>\n"),
            ("a.go", "package main\n"),
            ("a.py", "# A comment is no docstring.\n"),
            (".ci/run", "#!/bin/sh\nset -eu\n"),
        ] {
            assert!(check(&file(path, text)).is_some(), "{path}: {text}");
        }
    }
}
