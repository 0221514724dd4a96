//! No trailing blanks, a line end at the end, no forgotten markers, no machine's own paths, no pointer to a page that
//! is not in the tree.
//!
//! The words looked for stand in this file, which is the one file that is not searched for them.

use super::finding::Finding;
use crate::repo::TextFile;

/// Markers of unfinished work, each found where it stands as a word of its own.
const MARKERS: &[&str] = &["FIXME", "XXX", "TODO", "todo!", "unimplemented!"];

/// What only the machine or the people that built the project know. A path is found only where it starts.
const STRANGE: &[&str] = &[
    "/work/",
    "/root/",
    "/tmp/target-",
    "DESIGN.md",
    "DESIGN §",
    "CONVENTIONS.md",
    "shared/prototype",
    "shared/papers",
    "crates.io",
    "docs.rs",
    "pypi.org",
    "npmjs.org",
    "golang.org",
    "debian.org",
];

/// This file.
const WORD_LIST: &str = "xtask/src/tidy/text.rs";

/// Checks one file; the lines that end inside a literal may end in blanks.
pub(crate) fn check(file: &TextFile, literal_lines: &[usize]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut number = 0;
    // Not `lines()`, which would take a carriage return with the line end.
    for line in file.text.split_terminator('\n') {
        number += 1;
        if line.ends_with([' ', '\t', '\r']) && !literal_lines.contains(&number) {
            findings.push(Finding::new(&file.path, number, "blanks at the end of the line"));
        }
        if file.path != WORD_LIST {
            findings.extend(words(&file.path, number, line));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::new(&file.path, number, "no line end at the end of the file"));
    }
    if file.text.ends_with("\n\n") {
        findings.push(Finding::new(&file.path, number, "empty line at the end of the file"));
    }
    findings
}

fn words<'a>(path: &'a str, number: usize, line: &'a str) -> impl Iterator<Item = Finding> + 'a {
    let markers = MARKERS.iter().filter(move |marker| stands_alone(line, marker));
    let strange = STRANGE.iter().filter(move |word| starts_somewhere(line, word));
    let unfinished =
        markers.map(move |word| Finding::new(path, number, format!("`{word}` marks unfinished work")));
    unfinished.chain(strange.map(move |word| {
        Finding::new(path, number, format!("`{word}` means nothing outside one machine or team"))
    }))
}

/// Whether `word` stands in `line` with no letter, digit or `_` on either side.
fn stands_alone(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !inside(before) && !inside(after)
    })
}

/// Whether `word` stands in `line` and is not the tail of a longer path or word.
fn starts_somewhere(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        // A host may follow a sub-domain's dot or the slashes of an address; a path may not follow another's part.
        let absolute = word.starts_with('/');
        !before.is_some_and(|c| {
            c.is_alphanumeric() || (absolute && matches!(c, '.' | '_' | '-' | '}' | ')' | '*' | '~'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::file;

    fn messages(text: &str) -> usize {
        check(&file("a.md", text), &[]).len()
    }

    #[test]
    fn clean_text_passes() {
        assert_eq!(messages("A line.\n\n    An indented one.\n"), 0);
        assert_eq!(messages(""), 0);
    }

    #[test]
    fn blanks_and_line_ends_are_found() {
        assert_eq!(messages("a \n"), 1);
        assert_eq!(messages("a\t\n"), 1);
        assert_eq!(check(&file("a.rs", "a \nb \n"), &[1]).len(), 1);
        assert_eq!(messages("a\r\n"), 1);
        assert_eq!(messages("a"), 1);
        assert_eq!(messages("a\n\n"), 1);
    }

    #[test]
    fn markers_are_found_as_words_only() {
        assert_eq!(messages("// FIXME: later\n"), 1);
        assert_eq!(messages("todo!(\"later\")\n"), 1);
        assert_eq!(messages("mkstemp(\"regrow-XXXXXX\")\n"), 0);
        assert_eq!(messages("let todo = 1;\n"), 0);
    }

    #[test]
    fn machine_paths_are_found_where_they_start() {
        assert_eq!(messages("see /work/x\n"), 1);
        assert_eq!(messages("\"/root/.cache\"\n"), 1);
        assert_eq!(messages("/proc/self/root/etc\n"), 0);
        assert_eq!(messages("$dir/work/x ~/work/x ${dir}/work/x\n"), 0);
        assert_eq!(messages("see DESIGN §3\n"), 1);
        assert_eq!(messages("https://static.crates.io/x\n"), 1);
    }

    #[test]
    fn the_word_list_itself_may_name_the_words() {
        assert_eq!(check(&file(WORD_LIST, "FIXME\n"), &[]), []);
    }
}
