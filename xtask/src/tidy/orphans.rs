//! A `mod` leads to each Rust file of a crate: what no crate has is not compiled, and no rule on crates sees it.

use super::finding::Finding;
use crate::source::modules::{ModuleTree, Sources, crate_roots};
use std::collections::BTreeSet;

/// The folders of a crate's files.
const FOLDERS: &[&str] = &["/src/", "/fuzz_targets/"];

/// The folders of programs that tests feed to others.
const FOREIGN: &[&str] = &["tests/"];

/// Checks that each file is a module of some crate.
pub(crate) fn check(sources: &Sources<'_>) -> Vec<Finding> {
    let roots = crate_roots(sources.keys().copied());
    let trees = roots.into_iter().map(|root| ModuleTree::read(root, sources));
    let reached: BTreeSet<&str> =
        trees.flat_map(|tree| tree.modules.into_iter().map(|module| module.file)).collect();
    let orphans = sources.keys().filter(|path| {
        FOLDERS.iter().any(|folder| path.contains(folder))
            && !FOREIGN.iter().any(|folder| path.starts_with(folder))
            && !reached.contains(*path)
    });
    orphans.map(|path| Finding::new(path, 1, "no `mod` leads to this file")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::rust::RustSource;

    #[test]
    fn a_file_that_no_module_declares_is_found() {
        let texts = [
            ("crates/c/src/lib.rs", "mod a;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/c/src/a.rs", ""),
            ("crates/c/src/tests.rs", ""),
            ("crates/c/src/left.rs", ""),
            ("crates/c/tests/t.rs", ""),
            ("tests/victims/v/src/part.rs", ""),
        ];
        let sources: Sources<'_> =
            texts.iter().map(|&(path, text)| (path, RustSource::parse(text).unwrap())).collect();
        let findings: Vec<String> = check(&sources).iter().map(ToString::to_string).collect();
        assert_eq!(findings, ["crates/c/src/left.rs:1: no `mod` leads to this file"]);
    }
}
