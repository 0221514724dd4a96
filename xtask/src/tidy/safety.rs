//! A SAFETY comment stands above each `unsafe {` and `unsafe impl`: right above its line, or above the statement or
//! item that it is part of. Clippy's `undocumented_unsafe_blocks` does not look into macros and is not asked about
//! every crate; this rule is.

use super::finding::Finding;
use crate::source::rust::RustSource;
use proc_macro2::LineColumn;

/// Checks one Rust file.
pub(crate) fn check(path: &str, source: &RustSource<'_>) -> Vec<Finding> {
    let bare = source.unsafe_places.iter().filter(|&&place| !has_reason(source, place));
    bare.map(|place| Finding::new(path, place.line, "unsafe with no `// SAFETY:` comment above")).collect()
}

fn has_reason(source: &RustSource<'_>, place: LineColumn) -> bool {
    reason_above(&source.lines, place.line)
        || source.statement_line(place).is_some_and(|line| reason_above(&source.lines, line))
}

/// Whether the comment that ends right above `line` (from 1), attributes aside, has the word.
fn reason_above(lines: &[&str], line: usize) -> bool {
    let above = lines[..line.saturating_sub(1).min(lines.len())].iter().rev().map(|text| text.trim_start());
    above
        .skip_while(|text| text.starts_with("#["))
        .take_while(|text| text.starts_with("//"))
        .any(|text| text.trim_start_matches('/').trim_start().starts_with("SAFETY:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(text: &str) -> Vec<usize> {
        check("a.rs", &RustSource::parse(text).unwrap()).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_reason_right_above_or_above_the_statement_counts() {
        for text in [
            "// SAFETY: the lease is held.\nunsafe impl Send for X {}\n",
            "fn f() {\n    // SAFETY: a fact,\n    // and another.\n    unsafe { g() };\n}\n",
            "fn f() {\n    // SAFETY: a fact.\n    let x =\n        unsafe { g() };\n}\n",
            "fn f() {\n    // SAFETY: a fact.\n    #[cfg(a)]\n    unsafe { g() };\n}\n",
            "fn f() {\n    m!(\n        // SAFETY: a fact.\n        unsafe { g() }\n    );\n}\n",
        ] {
            assert!(bare(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn unsafe_without_a_reason_is_found() {
        for (text, line) in [
            ("unsafe impl Send for X {}\n", 1),
            ("fn f() {\n    // Not the word.\n    unsafe { g() };\n}\n", 3),
            ("fn f() {\n    m!(unsafe { g() });\n}\n", 2),
            (
                "// SAFETY: of the function, not of the block.\nfn f() {\n    g();\n    unsafe { g() };\n}\n",
                4,
            ),
            ("fn f() {\n    // SAFETY: of another.\n    g();\n    unsafe { g() };\n}\n", 4),
        ] {
            assert_eq!(bare(text), [line], "{text}");
        }
    }
}
