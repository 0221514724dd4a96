//! Each promise in `docs/SPECIFICATION.md` names a test that exists, or is marked open.
//!
//! A promise is a row of a table whose last column is headed `test`. That cell either begins with `open`, followed by
//! what is missing, or names in backticks the test functions that prove the promise; a name with a `/` in it is a file.

use super::Finding;
use crate::repo::TextFile;

/// Where the promises stand.
const PATH: &str = "docs/SPECIFICATION.md";

/// Checks every row; `exists` tells whether a path of the repository does.
pub(crate) fn check(files: &[TextFile], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PATH) else {
        return vec![Finding::new(PATH, 1, "is missing")];
    };
    let has_function = |name: &str| {
        let head = format!("fn {name}(");
        files.iter().any(|file| file.path.ends_with(".rs") && file.text.contains(&head))
    };
    let rows = rows(&page.text);
    let mut findings = Vec::new();
    if rows.is_empty() {
        findings.push(Finding::new(PATH, 1, "has no table whose last column is headed `test`"));
    }
    for (line, cell) in rows {
        if cell.starts_with("open") {
            continue;
        }
        let names = backticked(cell);
        if !names.iter().any(|name| !name.contains('/')) {
            findings.push(Finding::new(PATH, line, "promise names no test and is not marked open"));
        }
        for name in names {
            let there = if name.contains('/') { exists(name) } else { has_function(name) };
            if !there {
                findings.push(Finding::new(
                    PATH,
                    line,
                    format!("promise names `{name}`, which does not exist"),
                ));
            }
        }
    }
    findings
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
    use crate::tidy::file;

    fn check_row(row: &str) -> usize {
        let page = format!(
            "# Promises\n\n| id | promise | test |\n|---|---|---|\n{row}\n\n| a | b |\n|---|---|\n| `no` | `test` |\n"
        );
        let files = [file(PATH, &page), file("crates/a/tests/t.rs", "//! T.\n#[test]\nfn holds() {}\n")];
        check(&files, |path| path == "tests/victims/heap.c").len()
    }

    #[test]
    fn a_promise_with_its_test_or_marked_open_passes() {
        assert_eq!(check_row("| P1 | It holds. | `holds` |"), 0);
        assert_eq!(check_row("| P1 | It holds. | `holds` with `tests/victims/heap.c` |"), 0);
        assert_eq!(check_row("| P1 | It holds. | open: no kernel here has it |"), 0);
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        assert_eq!(check_row("| P1 | It holds. | |"), 1);
        assert_eq!(check_row("| P1 | It holds. | `holds_not` |"), 1);
        assert_eq!(check_row("| P1 | It holds. | `tests/victims/heap.c` |"), 1);
        assert_eq!(check_row("| P1 | It holds. | `holds` with `tests/victims/none.c` |"), 1);
    }

    #[test]
    fn a_missing_page_or_table_is_found() {
        assert_eq!(check(&[], |_| true).len(), 1);
        assert_eq!(check(&[file(PATH, "# Promises\n")], |_| true).len(), 1);
    }
}
