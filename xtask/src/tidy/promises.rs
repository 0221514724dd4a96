//! Each promise names a test that exists, or is marked open.
//!
//! A promise is a row of a table whose last column is headed `test`: in the specification, in the guide's page of
//! differences, in the page of the papers, or among the invariants of the architecture. That cell either begins with
//! `open`, followed by what is missing, or names in backticks what proves the promise:
//!
//! ```text
//! name            a test function, in Rust or Python
//! victim:name     a victim of tests/victims/manifest.toml; a `*` at the end stands for any ending
//! scene:name      a scene of crates/regrow-testkit/tests/faults/; a `*` likewise
//! tidy:name       a rule of `cargo xtask tidy`
//! path/to/file    a file, in addition to one of the others
//! ```

use super::finding::Finding;
use crate::repo::{TextFile, text_of};

/// The pages on which promises stand.
const PAGES: &[&str] =
    &["docs/SPECIFICATION.md", "docs/guide/src/differences.md", "docs/papers.md", "ARCHITECTURE.md"];

/// Where the victims stand.
const VICTIMS: &str = "tests/victims/manifest.toml";

/// What the name of a victim follows.
const VICTIM: &str = "victim:";

/// Where the scenes stand, and what the name of one follows.
const SCENES: &str = "crates/regrow-testkit/tests/faults/";
const SCENE: &str = "scene:";

/// Where the rules stand, and what the name of one follows.
const RULES: &str = "xtask/src/tidy/";
const RULE: &str = "tidy:";

/// Checks every row; `exists` tells whether a path of the repository does.
pub(crate) fn check(files: &[TextFile], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let victims = victims(files);
    let has_function = |name: &str| {
        let heads = [(".rs", format!("fn {name}(")), (".py", format!("def {name}("))];
        let has = |file: &TextFile| {
            heads.iter().any(|(ending, head)| file.path.ends_with(ending) && file.text.contains(head))
        };
        files.iter().any(has)
    };
    let has_victim = |name: &str| match name.strip_suffix('*') {
        Some(start) => victims.iter().any(|victim| victim.starts_with(start)),
        None => victims.contains(&name),
    };
    // The name of a scene is an argument, alone or the start of a text with numbers.
    let has_scene = |name: &str| {
        let call = match name.strip_suffix('*') {
            Some(start) => format!("(\"{start}"),
            None => format!("(\"{name}\""),
        };
        let mut scenes = files.iter().filter(|file| file.path.starts_with(SCENES));
        scenes.any(|file| file.text.contains(&call) || file.text.contains(&call.replace('(', "(&format!(")))
    };
    let there = |name: &str| {
        if let Some(victim) = name.strip_prefix(VICTIM) {
            has_victim(victim)
        } else if let Some(scene) = name.strip_prefix(SCENE) {
            has_scene(scene)
        } else if let Some(rule) = name.strip_prefix(RULE) {
            exists(&format!("{RULES}{rule}.rs"))
        } else if name.contains('/') {
            exists(name)
        } else {
            has_function(name)
        }
    };
    PAGES.iter().flat_map(|path| check_page(path, files, &there)).collect()
}

/// Checks the rows of one page; `there` tells whether what a name stands for exists.
fn check_page(path: &str, files: &[TextFile], there: &impl Fn(&str) -> bool) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == path) else {
        return vec![Finding::new(path, 1, "is missing")];
    };
    let rows = rows(&page.text);
    let mut findings = Vec::new();
    if rows.is_empty() {
        findings.push(Finding::new(path, 1, "has no table whose last column is headed `test`"));
    }
    for (line, cell) in rows {
        if cell.starts_with("open") {
            continue;
        }
        let names = backticked(cell);
        if !names.iter().any(|name| !name.contains('/')) {
            findings.push(Finding::new(path, line, "promise names no test and is not marked open"));
        }
        for name in names.into_iter().filter(|name| !there(name)) {
            let message = format!("promise names `{name}`, which does not exist");
            findings.push(Finding::new(path, line, message));
        }
    }
    findings
}

/// The names of all victims: each stands on the first `name` line below its `[[victim]]`.
fn victims(files: &[TextFile]) -> Vec<&str> {
    let text = text_of(files, VICTIMS);
    let entries = text.split("[[").filter_map(|entry| entry.strip_prefix("victim]]"));
    entries.filter_map(|entry| entry.lines().find_map(victim_name)).collect()
}

fn victim_name(line: &str) -> Option<&str> {
    line.strip_prefix("name = \"")?.strip_suffix('"')
}

/// The last cell of each row, with its line, of each table whose last column is headed `test`.
fn rows(text: &str) -> Vec<(usize, &str)> {
    let mut rows = Vec::new();
    let mut in_promises: Option<bool> = None;
    for (index, line) in text.lines().enumerate() {
        let Some(cell) = last_cell(line) else {
            in_promises = None;
            continue;
        };
        match in_promises {
            None => in_promises = Some(cell.eq_ignore_ascii_case("test")),
            Some(true) if !cell.chars().all(|c| matches!(c, '-' | ':')) => rows.push((index + 1, cell)),
            _ => {}
        }
    }
    rows
}

fn last_cell(line: &str) -> Option<&str> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    inner.rsplit('|').next().map(str::trim)
}

/// The words of a cell that stand in backticks.
fn backticked(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::file;

    fn check_row(row: &str) -> usize {
        let page = format!(
            "# Promises\n\n| id | promise | test |\n|---|---|---|\n{row}\n\n| a | b |\n|---|---|\n| `no` | `test` |\n"
        );
        let manifest = "[[program]]\nname = \"stack\"\n\n[[victim]]\n# Why.\nname = \"heap-up\"\n";
        let mut files: Vec<TextFile> = PAGES.iter().map(|path| file(path, &page)).collect();
        files.push(file("crates/a/tests/t.rs", "//! T.\n#[test]\nfn holds() {}\n"));
        files.push(file(VICTIMS, manifest));
        let scenes =
            "//! S.\nfn scenes() {\n    scene(\"killed\", k);\n    scene(&format!(\"point-{n}\"), p);\n}\n";
        files.push(file(&format!("{SCENES}kills.rs"), scenes));
        let findings =
            check(&files, |path| ["tests/victims/heap.c", "xtask/src/tidy/circles.rs"].contains(&path));
        assert!(
            PAGES.iter().all(|path| findings.iter().any(|finding| finding.path == *path))
                || findings.is_empty()
        );
        findings.len() / PAGES.len()
    }

    #[test]
    fn a_promise_with_its_test_or_marked_open_passes() {
        assert_eq!(check_row("| P1 | It holds. | `holds` |"), 0);
        assert_eq!(check_row("| P1 | It holds. | `holds` with `tests/victims/heap.c` |"), 0);
        assert_eq!(check_row("| P1 | It holds. | open: no kernel here has it |"), 0);
        assert_eq!(check_row("| P1 | It holds. | `victim:heap-up`, `victim:heap-*` |"), 0);
        assert_eq!(check_row("| P1 | It holds. | `scene:killed`, `scene:point-*`, `scene:kill*` |"), 0);
        assert_eq!(check_row("| P1 | It holds. | `tidy:circles` |"), 0);
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        assert_eq!(check_row("| P1 | It holds. | |"), 1);
        assert_eq!(check_row("| P1 | It holds. | `holds_not` |"), 1);
        assert_eq!(check_row("| P1 | It holds. | `tests/victims/heap.c` |"), 1);
        assert_eq!(check_row("| P1 | It holds. | `holds` with `tests/victims/none.c` |"), 1);
        // A program is no victim.
        assert_eq!(check_row("| P1 | It holds. | `victim:stack` |"), 1);
        assert_eq!(check_row("| P1 | It holds. | `victim:sta*` |"), 1);
        assert_eq!(check_row("| P1 | It holds. | `scene:kill` |"), 1);
        assert_eq!(check_row("| P1 | It holds. | `tidy:squares` |"), 1);
        assert_eq!(check_row("| P1 | It holds. | `scene:points-*` |"), 1);
    }

    #[test]
    fn a_missing_page_or_table_is_found() {
        assert_eq!(check(&[], |_| true).len(), PAGES.len());
        let empty: Vec<TextFile> = PAGES.iter().map(|path| file(path, "# Promises\n")).collect();
        assert_eq!(check(&empty, |_| true).len(), PAGES.len());
    }
}
