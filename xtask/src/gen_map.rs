//! The map in `ARCHITECTURE.md`: for each crate, what each file and folder at its top is for.
//!
//! The map says what a file says of itself: the first sentence of the comment at its top. For a folder that is the file
//! which declares its modules; the names of the modules follow. The highest layer stands first, tests and chores last.

use crate::layers::{highest_first, is_beside};
use crate::marks;
use crate::repo::{Package, TextFile, text_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The page that the map stands on.
pub(crate) const PATH: &str = "ARCHITECTURE.md";

/// What its place there is called.
const NAME: &str = "map";

/// Where the files of a package stand, from its folder.
const PLACES: &[&str] = &["src", "regrow", "fuzz_targets"];

/// The ends of the names of what is shown.
const SHOWN: &[&str] = &[".rs", ".py", ".pl"];

/// Files in a folder that say what it is for.
const DECLARING: &[&str] = &["mod.rs", "__init__.py"];

/// Files that stand for their whole folder, or say no more than their crate does, or test what stands beside.
const PASSED_OVER: &[&str] = &["lib.rs", "main.rs", "mod.rs", "tests.rs", "__init__.py"];

/// One file or folder at the top of a crate.
#[derive(Debug, Default)]
struct Entry {
    /// The path that a reader opens, from the root of the repository.
    path: String,
    /// What it is for.
    purpose: String,
    /// The names of what is in it.
    parts: BTreeSet<String>,
}

/// The page with its map as the files have it. Fails with what is missing.
pub(crate) fn page(files: &[TextFile], packages: &[Package]) -> Result<String, String> {
    let (begin, end) = marks::lines(NAME);
    marks::replaced(text_of(files, PATH), NAME, &map(files, packages))
        .ok_or_else(|| format!("{PATH} has no lines `{begin}` and `{end}`"))
}

/// The text of the map.
fn map(files: &[TextFile], packages: &[Package]) -> String {
    let mut text = String::new();
    let (beside, layered): (Vec<&Package>, Vec<&Package>) =
        highest_first(packages).into_iter().partition(|package| is_beside(&package.name));
    for package in layered.into_iter().chain(beside) {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n**[`{}`]({}/)**: {}\n", package.name, package.folder, package.description);
        let entries = entries(files, package);
        if !entries.is_empty() {
            text.push_str("\n| file or folder | what it is for |\n|---|---|\n");
        }
        for (name, entry) in entries {
            let _ = write!(text, "| [`{name}`]({}) | {}", entry.path, entry.purpose);
            if !entry.parts.is_empty() {
                let parts: Vec<String> = entry.parts.iter().map(|part| format!("`{part}`")).collect();
                let _ = write!(text, " In it: {}.", parts.join(", "));
            }
            text.push_str(" |\n");
        }
    }
    text.push('\n');
    text
}

/// The files and folders at the top of a crate, by name.
fn entries(files: &[TextFile], package: &Package) -> BTreeMap<String, Entry> {
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for place in PLACES {
        let place = format!("{}/{place}/", package.folder);
        for file in files {
            let Some(path) = file.path.strip_prefix(&place) else { continue };
            if SHOWN.iter().any(|end| path.ends_with(end)) {
                enter(&mut entries, file, path);
            }
        }
    }
    entries
}

/// Enters a file, at `path` from the crate's top, into the table.
fn enter(entries: &mut BTreeMap<String, Entry>, file: &TextFile, path: &str) {
    let (name, inside) = path.split_once('/').unwrap_or((path, ""));
    let part = inside.split('/').next().unwrap_or("");
    if PASSED_OVER.contains(&name) {
        return;
    }
    let entry = entries.entry(name.trim_end_matches(".rs").to_owned()).or_default();
    if part.is_empty() || DECLARING.contains(&inside) {
        entry.path.clone_from(&file.path);
        entry.purpose = purpose(file);
        return;
    }
    if entry.path.is_empty() {
        // A folder that no file declares.
        entry.path = file.path[..file.path.len() - inside.len()].to_owned();
    }
    if !PASSED_OVER.contains(&part) {
        entry.parts.insert(part.trim_end_matches(".rs").to_owned());
    }
}

/// The first sentence of the comment that a file begins with, fit for a cell of a table.
fn purpose(file: &TextFile) -> String {
    let head: Vec<&str> = file
        .text
        .lines()
        .skip_while(|line| line.starts_with("#!"))
        .map(|line| {
            line.trim_start_matches("//!").trim_start_matches("\"\"\"").trim_start_matches('#').trim()
        })
        .take_while(|line| !line.is_empty())
        .collect();
    let paragraph = head.join(" ");
    let end = paragraph.match_indices(". ").map(|(at, _)| at).find(|&at| {
        // No sentence ends in one letter, as abbreviations do, and each begins with a large one.
        let next = paragraph[at + 2..].chars().next();
        let before = paragraph[..at].chars().rev().take_while(|c| c.is_alphanumeric()).count();
        before > 1 && next.is_some_and(|c| c.is_uppercase() || c == '`')
    });
    let sentence = &paragraph[..end.unwrap_or(paragraph.len())];
    let sentence = sentence.trim_end_matches("\"\"\"").trim_end_matches(['.', ':']);
    format!("{}.", without_links(sentence).replace('|', "\\|"))
}

/// A sentence with the words of its links alone: a link leads from where its file stands.
fn without_links(sentence: &str) -> String {
    let mut text = String::new();
    let mut rest = sentence;
    while let Some((before, link)) = rest.split_once('[') {
        text.push_str(before);
        let Some((words, behind)) = link.split_once(']') else { break };
        text.push_str(words);
        rest = match behind.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, behind)) => behind,
            None => behind,
        };
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::{file, package};

    #[test]
    fn crates_stand_highest_first_with_their_files() {
        let files = [
            file("agent/src/main.rs", "//! Main.\n"),
            file(
                "crates/regrow-cli/src/run.rs",
                "//! Runs [`Program`]s: one, or\n//! many. More.\n//!\n//! Rest.\n",
            ),
            file("crates/regrow-cli/src/run/relay.rs", "//! Relays.\n"),
            file("crates/regrow-cli/src/run/tests.rs", "//! Tests.\n"),
            file("crates/regrow-cli/src/run/signals/mod.rs", "//! Signals.\n"),
            file("crates/regrow-cli/src/web/mod.rs", "//! The web, e.g. a | b:\n"),
            file("crates/regrow-cli/tests/run.rs", "//! Not shown.\n"),
            file("python/regrow/_calls.py", "\"\"\"Calls.\"\"\"\n"),
        ];
        let packages = [
            package("regrow-testkit", "crates/regrow-testkit"),
            package("xtask", "xtask"),
            package("regrow-agent", "agent"),
            package("regrow-cli", "crates/regrow-cli"),
            package("regrow-python", "python"),
        ];
        let wanted = "
**[`regrow-cli`](crates/regrow-cli/)**: What regrow-cli is for.

| file or folder | what it is for |
|---|---|
| [`run`](crates/regrow-cli/src/run.rs) | Runs `Program`s: one, or many. In it: `relay`, `signals`. |
| [`web`](crates/regrow-cli/src/web/mod.rs) | The web, e.g. a \\| b. |

**[`regrow-python`](python/)**: What regrow-python is for.

| file or folder | what it is for |
|---|---|
| [`_calls.py`](python/regrow/_calls.py) | Calls. |

**[`regrow-agent`](agent/)**: What regrow-agent is for.

**[`regrow-testkit`](crates/regrow-testkit/)**: What regrow-testkit is for.

**[`xtask`](xtask/)**: What xtask is for.

";
        assert_eq!(map(&files, &packages), wanted);
    }

    #[test]
    fn the_first_sentence_is_taken_whole() {
        for (text, wanted) in [
            ("//! What `a.rs` is. It is small.\n", "What `a.rs` is."),
            ("//! A, i.e. b.\n", "A, i.e. b."),
            ("//! See [the page](../../docs/a.md) of `x`.\n", "See the page of `x`."),
            ("#!/usr/bin/perl\n# Front end. For Perl.\n", "Front end."),
            ("\"\"\"Calls.\n\nMore.\n\"\"\"\n", "Calls."),
        ] {
            assert_eq!(purpose(&file("a.rs", text)), wanted);
        }
    }
}
