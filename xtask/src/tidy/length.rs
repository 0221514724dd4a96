//! No function over 70 lines, no file over 1,000; no file over 400 of the Python that runs inside other programs.
//!
//! Rust functions are measured on the syntax tree. C and Python are measured by their layout, which their formatters
//! fix: a C function opens with a line that starts in the first column and ends in `{`, and closes with a `}` in the
//! first column.

use super::finding::Finding;
use crate::repo::TextFile;
use crate::source::python;
use crate::source::rust::RustSource;

/// The longest function, in lines.
const FUNCTION_LINES: usize = 70;
/// The longest file, in lines.
const FILE_LINES: usize = 1000;
/// The longest file of the Python packages, in lines.
const PACKAGE_FILE_LINES: usize = 400;
/// Where they stand.
const PACKAGES: &[&str] = &["python/regrow/", "crates/regrow-front/src/", "crates/regrow-web/src/"];
/// The files that a limit holds for.
const MEASURED: &[&str] = &[".rs", ".py", ".c", ".h", ".go", ".sh", ".S"];

/// Checks the length of a file and of its functions, if it is C or Python.
pub(crate) fn check_text(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines: Vec<&str> = file.text.lines().collect();
    let allowed = allowed_lines(&file.path);
    if MEASURED.iter().any(|end| file.path.ends_with(end)) && lines.len() > allowed {
        let message = format!("file of {} lines, {allowed} are allowed", lines.len());
        findings.push(Finding::new(&file.path, 1, message));
    }
    if file.path.ends_with(".c") || file.path.ends_with(".h") {
        for (first, count) in c_functions(&lines) {
            findings.extend(too_long(&file.path, first, lines[first - 1].trim(), count));
        }
    }
    if file.path.ends_with(".py") {
        for function in python::functions(&file.text) {
            findings.extend(too_long(&file.path, function.line, &function.name, function.count));
        }
    }
    findings
}

/// How many lines a file may have.
fn allowed_lines(path: &str) -> usize {
    let packaged = path.ends_with(".py") && PACKAGES.iter().any(|folder| path.starts_with(folder));
    if packaged { PACKAGE_FILE_LINES } else { FILE_LINES }
}

/// Checks the functions of a Rust file.
pub(crate) fn check_rust(path: &str, source: &RustSource<'_>) -> Vec<Finding> {
    let functions = source.functions.iter();
    functions.filter_map(|function| too_long(path, function.line, &function.name, function.count)).collect()
}

fn too_long(path: &str, line: usize, name: &str, count: usize) -> Option<Finding> {
    (count > FUNCTION_LINES).then(|| {
        Finding::new(path, line, format!("function `{name}` of {count} lines, {FUNCTION_LINES} are allowed"))
    })
}

/// First line (from 1) and number of lines of each C function.
fn c_functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut functions = Vec::new();
    let mut open: Option<usize> = None;
    for (index, line) in lines.iter().enumerate() {
        match open {
            None if *line == "{" => open = Some(index),
            None if opens_c_function(line) => open = Some(index + 1),
            Some(first) if line.starts_with('}') => {
                functions.push((first, index + 2 - first));
                open = None;
            }
            _ => {}
        }
    }
    functions
}

/// Whether a line is the only or last one of a function's head, with its brace.
fn opens_c_function(line: &str) -> bool {
    line.ends_with('{')
        && line.contains(')')
        && !line.contains('=')
        && !line.starts_with([' ', '\t', '#', '/'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::file;

    fn body(lines: usize, line: &str) -> String {
        line.repeat(lines)
    }

    #[test]
    fn rust_function_may_have_70_lines_and_no_more() {
        for (statements, wanted) in [(68, 0), (69, 1)] {
            let text = format!("/// Doc.\n#[inline]\nfn long() {{\n{}}}\n", body(statements, "    f();\n"));
            let findings = check_rust("a.rs", &RustSource::parse(&text).unwrap());
            assert_eq!(findings.len(), wanted, "{statements}");
            assert!(findings.iter().all(|finding| finding.line == 3));
        }
    }

    #[test]
    fn file_may_have_1000_lines_and_no_more() {
        assert_eq!(check_text(&file("a.rs", &body(1000, "//\n"))), []);
        assert_eq!(check_text(&file("a.rs", &body(1001, "//\n"))).len(), 1);
        assert_eq!(check_text(&file("a.md", &body(1001, "//\n"))), []);
    }

    #[test]
    fn c_functions_are_measured_by_their_layout() {
        let text = "struct s {\n    int a;\n};\nstatic int f(int a) {\n    g();\n}\nint\nh(void)\n{\n}\nint t[] = {\n};\n";
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(c_functions(&lines), [(4, 3), (8, 3)]);
        let long = format!("int f(void) {{\n{}}}\n", body(69, "    g();\n"));
        assert_eq!(check_text(&file("a.c", &long)).len(), 1);
    }

    #[test]
    fn python_functions_are_measured_too() {
        let long = format!("def f():\n{}", body(70, "    g()\n"));
        assert_eq!(check_text(&file("a.py", &long)).len(), 1);
    }

    #[test]
    fn a_file_of_a_python_package_may_have_400_lines() {
        for (path, lines, wanted) in [
            ("python/regrow/a.py", 400, 0),
            ("python/regrow/a.py", 401, 1),
            ("crates/regrow-web/src/application/a.py", 401, 1),
            ("tests/web/a.py", 401, 0),
            ("crates/regrow-web/src/a.rs", 401, 0),
        ] {
            assert_eq!(check_text(&file(path, &body(lines, "#\n"))).len(), wanted, "{path}: {lines}");
        }
    }
}
