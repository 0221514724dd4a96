//! `crates/README.md` is what `cargo xtask gen` writes.

use super::finding::Finding;
use crate::gen_index::{PATH, index};
use crate::repo::{Package, TextFile, text_of};

/// Checks the index against the crates.
pub(crate) fn check(files: &[TextFile], packages: &[Package]) -> Option<Finding> {
    Finding::stale(PATH, text_of(files, PATH), &index(packages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::{file, package};

    #[test]
    fn only_the_generated_text_passes() {
        let packages = [package("regrow-sys", "crates/regrow-sys")];
        let right = index(&packages);
        assert_eq!(check(&[file(PATH, &right)], &packages), None);
        let stale = right.replace("is for.", "was for.");
        let finding = check(&[file(PATH, &stale)], &packages).unwrap();
        assert_eq!(finding.line, right.lines().count());
        assert!(check(&[], &packages).is_some());
    }
}
