//! The modules of one crate: read from its root file along `mod name;` and `mod name { … }`.

use super::rust::{self, RustSource};
use std::collections::BTreeMap;

/// All Rust files of the tree, by their path.
pub(crate) type Sources<'a> = BTreeMap<&'a str, RustSource<'a>>;

/// A module's place in [`ModuleTree::modules`].
pub(crate) type ModuleId = usize;

/// The crate's root module.
pub(crate) const ROOT: ModuleId = 0;

/// One module: a file, or `mod name { … }` in a file.
pub(crate) struct Module<'a> {
    /// The file that it stands in.
    pub(crate) file: &'a str,
    /// The module that declares it; the root has none.
    pub(crate) parent: Option<ModuleId>,
    /// Whether it is built for unit tests only.
    pub(crate) for_tests: bool,
    /// Its items.
    pub(crate) items: &'a [syn::Item],
    /// The modules that it declares, by name.
    pub(crate) children: Vec<(String, ModuleId)>,
}

/// The modules of one crate; the first is the root.
pub(crate) struct ModuleTree<'a> {
    /// Parents stand before their children.
    pub(crate) modules: Vec<Module<'a>>,
}

impl<'a> ModuleTree<'a> {
    /// Reads the crate whose root file is `root`. A declared file that is not among the `sources` is left out.
    pub(crate) fn read(root: &str, sources: &'a Sources<'_>) -> Self {
        let mut tree = Self { modules: Vec::new() };
        if let Some((&file, source)) = sources.get_key_value(root) {
            let module = Module {
                file,
                parent: None,
                for_tests: false,
                items: &source.tree.items,
                children: Vec::new(),
            };
            tree.modules.push(module);
            tree.read_children(ROOT, folder_of(root), sources);
        }
        tree
    }

    /// Reads the modules that `parent` declares; their files stand in `folder`.
    fn read_children(&mut self, parent: ModuleId, folder: &str, sources: &'a Sources<'_>) {
        let (parent_file, in_tests) = (self.modules[parent].file, self.modules[parent].for_tests);
        for item in self.modules[parent].items {
            let syn::Item::Mod(declared) = item else { continue };
            let name = declared.ident.to_string();
            let (file, items, below) = if let Some((_, items)) = &declared.content {
                (parent_file, items.as_slice(), format!("{folder}/{name}"))
            } else {
                let candidates = match path_attribute(declared) {
                    Some(path) => vec![format!("{}/{path}", folder_of(parent_file))],
                    None => vec![format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")],
                };
                let found = candidates.iter().find_map(|path| sources.get_key_value(path.as_str()));
                let Some((&file, source)) = found else { continue };
                (file, source.tree.items.as_slice(), children_folder(file))
            };
            let id = self.modules.len();
            let for_tests = in_tests || rust::is_for_tests(&declared.attrs);
            self.modules.push(Module { file, parent: Some(parent), for_tests, items, children: Vec::new() });
            self.modules[parent].children.push((name, id));
            self.read_children(id, &below, sources);
        }
    }
}

/// The root files of the crates among `paths`: libraries, programs, build scripts and fuzz targets. The files of
/// integration tests, benchmarks and examples are no part of a crate's inside.
pub(crate) fn crate_roots<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let is_root = |path: &&str| {
        let Some((folder, file)) = path.rsplit_once('/') else { return false };
        let within = |name: &str| folder == name || folder.ends_with(&format!("/{name}"));
        match file {
            "lib.rs" | "main.rs" => within("src"),
            "build.rs" => !folder.contains("/src"),
            _ => file.ends_with(".rs") && (within("src/bin") || within("fuzz_targets")),
        }
    };
    paths.filter(is_root).collect()
}

/// The folder that a file stands in.
fn folder_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The folder of the files that the module in `file` declares, if it is not the root.
fn children_folder(file: &str) -> String {
    match file.strip_suffix("/mod.rs") {
        Some(folder) => folder.to_owned(),
        None => file.trim_end_matches(".rs").to_owned(),
    }
}

/// The value of `#[path = "…"]`.
fn path_attribute(declared: &syn::ItemMod) -> Option<String> {
    let attribute = declared.attrs.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(value) = &pair.value else { return None };
    match &value.lit {
        syn::Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_where_the_compiler_finds_them() {
        let texts = [
            (
                "c/src/lib.rs",
                "mod a;\nmod b;\nmod inner { mod d; }\n#[path = \"odd/e.rs\"]\nmod e;\nmod absent;\n",
            ),
            ("c/src/a.rs", "mod f;\n#[cfg(test)]\nmod tests;\n"),
            ("c/src/a/f.rs", "fn f() {}\n"),
            ("c/src/a/tests.rs", "mod made_up {}\n"),
            ("c/src/b/mod.rs", "mod g;\n"),
            ("c/src/b/g.rs", ""),
            ("c/src/inner/d.rs", ""),
            ("c/src/odd/e.rs", ""),
        ];
        let sources: Sources<'_> =
            texts.iter().map(|&(path, text)| (path, RustSource::parse(text).unwrap())).collect();
        let tree = ModuleTree::read("c/src/lib.rs", &sources);
        let files: Vec<&str> = tree.modules.iter().map(|module| &module.file["c/src/".len()..]).collect();
        let wanted = [
            "lib.rs",
            "a.rs",
            "a/f.rs",
            "a/tests.rs",
            "a/tests.rs",
            "b/mod.rs",
            "b/g.rs",
            "lib.rs",
            "inner/d.rs",
            "odd/e.rs",
        ];
        assert_eq!(files, wanted);
        let for_tests = tree.modules.iter().filter(|module| module.for_tests).count();
        assert_eq!(for_tests, 2);
    }

    #[test]
    fn roots_are_libraries_programs_build_scripts_and_fuzz_targets() {
        let paths = [
            "crates/a/build.rs",
            "crates/a/src/lib.rs",
            "crates/a/src/bin/b.rs",
            "crates/a/src/build.rs",
            "crates/a/tests/t.rs",
            "crates/a/tests/common/main.rs",
            "fuzz/fuzz_targets/elf.rs",
            "fuzz/fuzz_targets/shared/mod.rs",
            "xtask/src/main.rs",
        ];
        let roots = crate_roots(paths.into_iter());
        assert_eq!(roots, [paths[0], paths[1], paths[2], paths[6], paths[8]]);
    }
}
