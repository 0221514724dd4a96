//! Each file in `fuzz/fuzz_targets/` is named in `fuzz/Cargo.toml`: cargo does not find it there by itself, and a
//! target that is not built finds nothing.

use super::finding::Finding;
use crate::repo::{TextFile, text_of};

/// The manifest of the fuzz targets.
const MANIFEST: &str = "fuzz/Cargo.toml";

/// Checks that the manifest names every target.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let manifest = text_of(files, MANIFEST);
    let targets = files.iter().filter_map(|file| file.path.strip_prefix("fuzz/").map(|path| (file, path)));
    let unnamed = targets.filter(|(_, path)| {
        path.starts_with("fuzz_targets/")
            && path.ends_with(".rs")
            && path.matches('/').count() == 1
            && !manifest.contains(&format!("path = \"{path}\""))
    });
    unnamed.map(|(file, _)| Finding::new(&file.path, 1, format!("has no [[bin]] in {MANIFEST}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::file;

    #[test]
    fn a_target_that_the_manifest_does_not_name_is_found() {
        let target = || file("fuzz/fuzz_targets/maps.rs", "//! T.\n");
        let shared = file("fuzz/fuzz_targets/shared/mod.rs", "//! T.\n");
        let named = file(MANIFEST, "[[bin]]\nname = \"maps\"\npath = \"fuzz_targets/maps.rs\"\n");
        assert_eq!(check(&[target(), named, shared]), []);
        assert_eq!(check(&[target()]).len(), 1);
    }
}
