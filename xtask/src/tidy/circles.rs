//! No circle of files: no module of a crate, and no Python file, imports what imports it, directly or around.

use super::finding::Finding;
use crate::graph;
use crate::repo::TextFile;
use crate::source::arrows::Arrows;
use crate::source::crate_arrows::crate_arrows;
use crate::source::modules::{Sources, crate_roots};
use crate::source::python_arrows::python_arrows;
use std::fmt::Write as _;

/// How many names a finding gives for one arrow.
const SHOWN_NAMES: usize = 8;

/// Checks every crate, and all Python files.
pub(crate) fn check(files: &[TextFile], sources: &Sources<'_>) -> Vec<Finding> {
    let roots = crate_roots(sources.keys().copied());
    let mut findings: Vec<Finding> =
        roots.into_iter().flat_map(|root| circles(&crate_arrows(root, sources))).collect();
    findings.extend(circles(&python_arrows(files)));
    findings
}

/// One finding for each circle.
fn circles(arrows: &Arrows) -> Vec<Finding> {
    graph::circles(&arrows.graph()).iter().map(|circle| finding(circle, arrows)).collect()
}

/// Names the arrows of a circle, at the first of them.
fn finding(circle: &[&str], arrows: &Arrows) -> Finding {
    let mut message = format!("circle of {} files:", circle.len());
    let mut first: Option<(&str, usize)> = None;
    for ((from, to), arrow) in &arrows.0 {
        if !(circle.contains(&from.as_str()) && circle.contains(&to.as_str())) {
            continue;
        }
        first = first.or(Some((from, arrow.line)));
        let shown: Vec<&str> = arrow.names.iter().take(SHOWN_NAMES).map(String::as_str).collect();
        let more = match arrow.names.len().saturating_sub(SHOWN_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        // Writing to a String cannot fail.
        let _ = write!(message, "\n    {from}:{} -> {to}: {}{more}", arrow.line, shown.join(", "));
    }
    let (path, line) = first.unwrap_or(("", 0));
    Finding::new(path, line, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::file;
    use crate::source::rust::RustSource;

    /// The findings in a crate of three files.
    fn found(lib: &str, a: &str, b: &str) -> Vec<String> {
        let texts = [("c/src/lib.rs", lib), ("c/src/a.rs", a), ("c/src/b.rs", b)];
        let sources: Sources<'_> =
            texts.iter().map(|&(path, text)| (path, RustSource::parse(text).unwrap())).collect();
        check(&[], &sources).iter().map(ToString::to_string).collect()
    }

    const LIB: &str = "mod a;\nmod b;\npub use a::A;\npub use b::B;\n";

    #[test]
    fn arrows_one_way_pass() {
        assert!(found(LIB, "pub struct A(crate::b::B);\n", "pub struct B;\n").is_empty());
    }

    #[test]
    fn a_circle_is_found_with_its_names() {
        let a = "use crate::b::B;\npub struct A(B);\n";
        let wanted = "c/src/a.rs:1: circle of 2 files:\n    c/src/a.rs:1 -> c/src/b.rs: B\n    \
                      c/src/b.rs:3 -> c/src/a.rs: A";
        assert_eq!(found(LIB, a, "pub struct B;\n\nimpl crate::a::A {}\n"), [wanted]);
    }

    #[test]
    fn the_crate_root_hides_no_circle() {
        assert_eq!(found(LIB, "pub struct A(crate::B);\n", "pub struct B(crate::A);\n").len(), 1);
    }

    #[test]
    fn a_parent_and_its_child_make_a_circle_too() {
        let child = "use super::Error;\npub fn g() -> Error {}\n";
        assert_eq!(found("mod a;\npub struct Error;\npub fn f() { a::g(); }\n", child, "").len(), 1);
        assert!(found("mod a;\npub struct Error;\n", child, "").is_empty());
    }

    #[test]
    fn python_files_make_circles_too() {
        let files = [file("p/a.py", "import b\n"), file("p/b.py", "def f():\n    import a\n")];
        assert_eq!(check(&files, &Sources::new()).len(), 1);
        assert!(check(&files[..1], &Sources::new()).is_empty());
    }
}
