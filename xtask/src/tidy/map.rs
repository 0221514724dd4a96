//! The map in `ARCHITECTURE.md` is what `cargo xtask gen` writes.

use super::finding::Finding;
use crate::gen_map::{PATH, page};
use crate::repo::{Package, TextFile, text_of};

/// Checks the map against the files.
pub(crate) fn check(files: &[TextFile], packages: &[Package]) -> Option<Finding> {
    match page(files, packages) {
        Ok(wanted) => Finding::stale(PATH, text_of(files, PATH), &wanted),
        Err(missing) => Some(Finding::new(PATH, 1, missing)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::{file, package};

    #[test]
    fn only_the_generated_map_passes() {
        let source = || file("crates/regrow-sys/src/maps.rs", "//! Reads maps.\n");
        let packages = [package("regrow-sys", "crates/regrow-sys")];
        let stale = [source(), file(PATH, "# A\n<!-- begin map -->\n<!-- end map -->\n")];
        assert_eq!(check(&stale, &packages).unwrap().line, 3);
        let right = page(&stale, &packages).unwrap();
        assert_eq!(check(&[source(), file(PATH, &right)], &packages), None);
        assert_eq!(check(&[source(), file(PATH, "# A\n")], &packages).unwrap().line, 1);
    }
}
