//! One broken rule at one place.

use std::fmt;

/// One broken rule at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path from the root of the repository.
    pub(crate) path: String,
    /// Line, from 1.
    pub(crate) line: usize,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }

    /// A finding at the first line of a page that is not what `cargo xtask gen` writes.
    pub(crate) fn stale(path: &str, text: &str, wanted: &str) -> Option<Self> {
        if text == wanted {
            return None;
        }
        let same = text.lines().zip(wanted.lines()).take_while(|(have, want)| have == want).count();
        Some(Self::new(path, same + 1, "is not what `cargo xtask gen` writes: run it"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_prints_as_a_place_an_editor_can_open() {
        assert_eq!(Finding::new("a/b.rs", 7, "too long").to_string(), "a/b.rs:7: too long");
    }

    #[test]
    fn a_stale_page_is_found_where_it_differs() {
        assert_eq!(Finding::stale("a.md", "one\ntwo\n", "one\ntwo\n"), None);
        assert_eq!(Finding::stale("a.md", "one\n2\n", "one\ntwo\n").map(|finding| finding.line), Some(2));
        assert_eq!(Finding::stale("a.md", "", "one\n").map(|finding| finding.line), Some(1));
    }
}
