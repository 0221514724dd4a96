//! The arrows between the files of one crate.
//!
//! A file leads to another when it names an item that the other defines: by `use`, in a path, or in a macro. A name that
//! is re-exported leads to the file that defines it, and to the file that re-exports it if that defines items as well.
//! `mod name;` names no item, and what is built for unit tests only makes no arrow.

use super::arrows::Arrows;
use super::mentions::Named;
use super::modules::{ModuleTree, Sources};
use super::resolve::Names;
use super::rust::is_for_tests;

/// The arrows inside the crate with a root file.
pub(crate) fn crate_arrows(root: &str, sources: &Sources<'_>) -> Arrows {
    let tree = ModuleTree::read(root, sources);
    let named: Vec<Named> = tree.modules.iter().map(|module| Named::read(module.items)).collect();
    let names = Names::read(&tree, &named);
    let mut arrows = Arrows::default();
    for (id, (module, named)) in tree.modules.iter().zip(&named).enumerate() {
        if module.for_tests {
            continue;
        }
        let imported = named.imports.iter().map(|import| &import.mention);
        for mention in imported.chain(&named.mentions) {
            for item in names.items(id, mention) {
                let re_exporters = item.re_exporters.iter().filter(|&&id| !is_facade(tree.modules[id].items));
                for to in re_exporters.chain([&item.module]) {
                    arrows.note(module.file, tree.modules[*to].file, mention.line, &item.name);
                }
            }
        }
    }
    arrows
}

/// Whether a module declares modules and re-exports names, and does nothing else.
fn is_facade(items: &[syn::Item]) -> bool {
    items.iter().all(|item| match item {
        syn::Item::Use(_) => true,
        syn::Item::Mod(declared) => declared.content.is_none() || is_for_tests(&declared.attrs),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::rust::RustSource;

    /// The arrows of a crate of three files.
    fn found(lib: &str, a: &str, b: &str) -> Vec<String> {
        let texts = [("c/src/lib.rs", lib), ("c/src/a.rs", a), ("c/src/b.rs", b)];
        let sources: Sources<'_> =
            texts.iter().map(|&(path, text)| (path, RustSource::parse(text).unwrap())).collect();
        let arrows = crate_arrows("c/src/lib.rs", &sources).0;
        let short = |path: &str| path["c/src/".len()..].trim_end_matches(".rs").to_owned();
        let arrows = arrows.iter();
        arrows
            .map(|((from, to), arrow)| {
                let names: Vec<&str> = arrow.names.iter().map(String::as_str).collect();
                format!("{}:{} -> {}: {}", short(from), arrow.line, short(to), names.join(" "))
            })
            .collect()
    }

    const MODULES: &str = "mod a;\nmod b;\n";

    #[test]
    fn imports_paths_and_impls_make_arrows() {
        let b = "pub struct B;\npub enum E { One }\npub fn f() {}\n";
        assert_eq!(found(MODULES, "\nuse crate::b::{B, E};\n", b), ["a:2 -> b: B E"]);
        assert_eq!(found(MODULES, "fn g() { super::b::f(); }\n", b), ["a:1 -> b: f"]);
        assert_eq!(found(MODULES, "impl crate::b::B {}\n", b), ["a:1 -> b: B"]);
        assert_eq!(found(MODULES, "fn g() { println!(\"{}\", crate::b::f()); }\n", b), ["a:1 -> b: f"]);
        assert_eq!(
            found(MODULES, "use crate::b;\nfn g(e: b::E) { matches!(e, b::E::One); }\n", b),
            ["a:2 -> b: E"]
        );
        assert_eq!(found("mod a;\nmod b;\nfn g() { b::f(); }\n", "", b), ["lib:3 -> b: f"]);
    }

    #[test]
    fn a_re_exported_name_leads_to_both_files_unless_one_is_a_facade() {
        let (facade, a, b) = ("mod a;\nmod b;\npub use b::B;\n", "use crate::B;\n", "pub struct B;\n");
        assert_eq!(found(facade, a, b), ["a:1 -> b: B", "lib:3 -> b: B"]);
        let busy = format!("{facade}pub fn f() {{}}\n");
        assert_eq!(found(&busy, a, b), ["a:1 -> b: B", "a:1 -> lib: B", "lib:3 -> b: B"]);
    }

    #[test]
    fn declarations_and_tests_make_no_arrow() {
        assert!(found(MODULES, "pub struct A;\n", "").is_empty());
        let tested = "#[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::a::A;\n}\n\
                      #[cfg(test)]\nuse crate::a::A;\n";
        assert!(found(MODULES, "pub struct A;\n", tested).is_empty());
    }
}
