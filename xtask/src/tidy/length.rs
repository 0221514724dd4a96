//! No function over 70 lines, no file over 1,000.
//!
//! Rust functions are measured on the syntax tree. C and Python are measured by their layout, which their formatters
//! fix: a C function opens with a line that starts in the first column and ends in `{`, and closes with a `}` in the
//! first column; a Python function goes on as long as lines are indented deeper than its `def`.

use super::Finding;
use super::rust_source::RustSource;
use crate::repo::TextFile;

/// The longest function, in lines.
const FUNCTION_LINES: usize = 70;
/// The longest file, in lines.
const FILE_LINES: usize = 1000;
/// The files that the second limit holds for.
const MEASURED: &[&str] = &[".rs", ".py", ".c", ".h", ".go", ".sh", ".S"];

/// Checks the length of a file and of its functions, if it is C or Python.
pub(crate) fn check_text(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines: Vec<&str> = file.text.lines().collect();
    if MEASURED.iter().any(|end| file.path.ends_with(end)) && lines.len() > FILE_LINES {
        let message = format!("file of {} lines, {FILE_LINES} are allowed", lines.len());
        findings.push(Finding::new(&file.path, 1, message));
    }
    let functions = match file.path.rsplit_once('.') {
        Some((_, "c" | "h")) => c_functions(&lines),
        Some((_, "py")) => python_functions(&lines),
        _ => Vec::new(),
    };
    for (first, count) in functions {
        findings.extend(too_long(&file.path, first, lines[first - 1].trim(), count));
    }
    findings
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

/// First line (from 1) and number of lines of each Python function, without the blank lines after it.
fn python_functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let indent = indent(line);
        let code = line.trim_start();
        if !(code.starts_with("def ") || code.starts_with("async def ")) {
            continue;
        }
        let mut last = index;
        for (offset, below) in lines[index + 1..].iter().enumerate() {
            let text = below.trim();
            // The bracket that ends a head of several lines stands as deep as its `def`.
            if text.is_empty() || text.starts_with(')') {
                continue;
            }
            if self::indent(below) <= indent {
                break;
            }
            last = index + 1 + offset;
        }
        functions.push((index + 1, last + 1 - index));
    }
    functions
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

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
    fn python_functions_are_measured_by_their_indent() {
        let text = "class A:\n    def f(self):\n        g()\n\n        h()\n\n    def k(\n        self,\n    ):\n        g()\nx = 1\n";
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(python_functions(&lines), [(2, 4), (7, 4)]);
        let long = format!("def f():\n{}", body(70, "    g()\n"));
        assert_eq!(check_text(&file("a.py", &long)).len(), 1);
    }
}
