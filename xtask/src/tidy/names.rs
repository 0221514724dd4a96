//! No name of a type that others in its crate can see stands for two types of the crate.
//!
//! Structures, enums, unions, traits and aliases count, whichever of `pub`, `pub(crate)` and `pub(super)` they have. The
//! library and the programs of a package are one crate here. What is built for unit tests only does not count.

use super::finding::Finding;
use crate::source::modules::{ModuleTree, Sources, crate_roots};
use std::collections::{BTreeMap, BTreeSet};

/// Where a type is defined: file and line.
type Definition = (String, usize);

/// Checks every package.
pub(crate) fn check(sources: &Sources<'_>) -> Vec<Finding> {
    let mut packages: BTreeMap<&str, BTreeMap<String, BTreeSet<Definition>>> = BTreeMap::new();
    for root in crate_roots(sources.keys().copied()) {
        let types = packages.entry(package_folder(root)).or_default();
        for (name, definition) in visible_types(&ModuleTree::read(root, sources)) {
            types.entry(name).or_default().insert(definition);
        }
    }
    packages.values().flatten().filter_map(|(name, places)| finding(name, places)).collect()
}

/// A finding at the second definition of a name, if there is one.
fn finding(name: &str, places: &BTreeSet<Definition>) -> Option<Finding> {
    let mut places = places.iter();
    let (first_path, first_line) = places.next()?;
    let (path, line) = places.next()?;
    let more = match places.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let message =
        format!("type `{name}` is defined at {first_path}:{first_line} too{more}: one name, one thing");
    Some(Finding::new(path, *line, message))
}

/// The types of a crate that have a `pub`.
fn visible_types(tree: &ModuleTree<'_>) -> Vec<(String, Definition)> {
    let mut types = Vec::new();
    for module in tree.modules.iter().filter(|module| !module.for_tests) {
        for item in module.items {
            let (visibility, name) = match item {
                syn::Item::Enum(item) => (&item.vis, &item.ident),
                syn::Item::Struct(item) => (&item.vis, &item.ident),
                syn::Item::Trait(item) => (&item.vis, &item.ident),
                syn::Item::Type(item) => (&item.vis, &item.ident),
                syn::Item::Union(item) => (&item.vis, &item.ident),
                _ => continue,
            };
            if !matches!(visibility, syn::Visibility::Inherited) {
                types.push((name.to_string(), (module.file.to_owned(), name.span().start().line)));
            }
        }
    }
    types
}

/// The folder of the package that a root file belongs to.
fn package_folder(root: &str) -> &str {
    let end = ["/src/", "/fuzz_targets/", "/"].iter().find_map(|part| root.rfind(part));
    &root[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::rust::RustSource;

    fn found(texts: &[(&str, &str)]) -> Vec<String> {
        let sources: Sources<'_> =
            texts.iter().map(|&(path, text)| (path, RustSource::parse(text).unwrap())).collect();
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_that_is_defined_twice_is_found() {
        let findings = found(&[
            ("c/src/lib.rs", "mod a;\n\npub(crate) struct Run;\n"),
            ("c/src/a.rs", "mod inner { pub(super) enum Run {} }\npub type Run = u8;\n"),
        ]);
        assert_eq!(
            findings,
            ["c/src/a.rs:2: type `Run` is defined at c/src/a.rs:1 too, and 1 more: one name, one thing"]
        );
        assert_eq!(
            found(&[("c/src/lib.rs", "pub trait Run {}\n"), ("c/src/main.rs", "pub union Run { a: u8 }\n")])
                .len(),
            1
        );
    }

    #[test]
    fn private_types_tests_and_other_crates_do_not_count() {
        assert!(
            found(&[
                ("c/src/lib.rs", "mod a;\nmod b;\npub struct Run;\nimpl T for Run { type Run = u8; }\n"),
                ("c/src/a.rs", "struct Run;\n"),
                ("c/src/b.rs", "pub use super::Run;\n#[cfg(test)]\nmod tests { pub struct Run; }\n"),
                ("d/src/lib.rs", "pub struct Run;\n"),
            ])
            .is_empty()
        );
    }
}
