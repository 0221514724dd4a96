//! The tables of figures in README.md and docs/evaluation.md are what `cargo xtask gen` writes from `bench/results`.

use super::finding::Finding;
use crate::gen_figures::page;
use crate::repo::{TextFile, text_of};

/// Checks a page. `files` are all of the tree, the results too.
pub(crate) fn check(files: &[TextFile], path: &str) -> Option<Finding> {
    match page(files, path) {
        Ok(wanted) => Finding::stale(path, text_of(files, path), &wanted),
        Err(missing) => Some(Finding::new(path, 1, missing)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_generated_table_passes() {
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let results = r#"{"date": "2026-01-31", "machine": {"kernel": "Linux 6", "cpu": "X", "cores": 2}, "figures": []}"#;
        let results = || file("bench/results/programs.json", results);
        let stale = "<!-- begin programs -->\n<!-- end programs -->\n<!-- begin headline -->\n<!-- end headline -->\n";
        let finding = check(&[results(), file("README.md", stale)], "README.md").unwrap();
        assert!(finding.to_string().starts_with("README.md:2: "), "{finding}");
        let right = page(&[results(), file("README.md", stale)], "README.md").unwrap();
        assert_eq!(check(&[results(), file("README.md", &right)], "README.md"), None);
        assert!(check(&[file("README.md", &right)], "README.md").is_some());
    }
}
