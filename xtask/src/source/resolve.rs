//! Which file of a crate defines what a path names.
//!
//! A path is followed as the compiler follows it: through `crate`, `self`, `super`, modules, imports and re-exports, to
//! the module that defines the item. What another crate defines, and what a method call names, is not followed.

use super::mentions::{Import, Mention, Named};
use super::modules::{ModuleId, ModuleTree, ROOT};
use std::collections::BTreeMap;

/// The namespaces of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Namespace {
    Types,
    Values,
    Macros,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Module(ModuleId),
    Item(Item),
}

/// An item of the crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    /// Its name where it is defined.
    pub(crate) name: String,
    /// The module that defines it.
    pub(crate) module: ModuleId,
    /// The modules whose imports lead to it.
    pub(crate) re_exporters: Vec<ModuleId>,
}

/// The names of one module.
#[derive(Debug, Default)]
struct Scope {
    defined: BTreeMap<(String, Namespace), Target>,
    imports: Vec<Import>,
}

/// The names of a whole crate.
#[derive(Debug)]
pub(crate) struct Names {
    scopes: Vec<Scope>,
    parents: Vec<Option<ModuleId>>,
    /// Every `macro_rules!` of the crate: such a name is seen below its definition, in inner modules too.
    macros: BTreeMap<String, ModuleId>,
}

/// An import that is being followed: it cannot help to find itself.
type Trail = Vec<(ModuleId, String, Namespace)>;

impl Names {
    /// Reads the definitions of `tree`; `named` has what each of its modules names, in the same order.
    pub(crate) fn read(tree: &ModuleTree<'_>, named: &[Named]) -> Self {
        let mut names = Self { scopes: Vec::new(), parents: Vec::new(), macros: BTreeMap::new() };
        for (id, (module, named)) in tree.modules.iter().zip(named).enumerate() {
            let mut scope = Scope { defined: BTreeMap::new(), imports: named.imports.clone() };
            for (name, child) in &module.children {
                scope.defined.insert((name.clone(), Namespace::Types), Target::Module(*child));
            }
            for (name, namespaces) in module.items.iter().filter_map(definition) {
                for &namespace in namespaces {
                    let item = Item { name: name.clone(), module: id, re_exporters: Vec::new() };
                    scope.defined.insert((name.clone(), namespace), Target::Item(item));
                }
                if namespaces == [Namespace::Macros] {
                    names.macros.insert(name, id);
                }
            }
            names.scopes.push(scope);
            names.parents.push(module.parent);
        }
        names
    }

    /// The items of this crate that a path in module `from` may name: at most one of each namespace.
    pub(crate) fn items(&self, from: ModuleId, mention: &Mention) -> Vec<Item> {
        let mut items = Vec::new();
        for namespace in [Namespace::Types, Namespace::Values, Namespace::Macros] {
            let found = self.follow(from, &mention.segments, namespace, &mut Trail::new());
            if let Some(Target::Item(mut item)) = found {
                // Its own imports bring an item to a module; they do not re-export it there.
                item.re_exporters.retain(|&module| module != from);
                if !items.contains(&item) {
                    items.push(item);
                }
            }
        }
        items
    }

    fn follow(
        &self,
        from: ModuleId,
        segments: &[String],
        namespace: Namespace,
        trail: &mut Trail,
    ) -> Option<Target> {
        let mut at = Target::Module(from);
        for (index, name) in segments.iter().enumerate() {
            let Target::Module(module) = at else {
                // What follows an item is a part of it.
                return Some(at);
            };
            let last = index + 1 == segments.len();
            let wanted = if last { namespace } else { Namespace::Types };
            at = match name.as_str() {
                "crate" => Target::Module(ROOT),
                "self" => Target::Module(module),
                "super" => Target::Module(self.parents[module]?),
                name => self.look_up(module, name, wanted, index == 0, trail)?,
            };
        }
        Some(at)
    }

    /// Looks for a name in a module; one that stands alone may also be a macro of any module.
    fn look_up(
        &self,
        module: ModuleId,
        name: &str,
        namespace: Namespace,
        is_first: bool,
        trail: &mut Trail,
    ) -> Option<Target> {
        let key = (name.to_owned(), namespace);
        let scope = &self.scopes[module];
        if let Some(target) = scope.defined.get(&key) {
            return Some(target.clone());
        }
        let step = (module, name.to_owned(), namespace);
        if trail.contains(&step) {
            return None;
        }
        trail.push(step);
        let mut found = None;
        for import in scope.imports.iter().filter(|import| import.name.as_deref() == Some(name)) {
            found = found.or_else(|| self.follow(module, &import.mention.segments, namespace, trail));
        }
        for import in scope.imports.iter().filter(|import| import.name.is_none()) {
            found = found.or_else(|| {
                match self.follow(module, &import.mention.segments, Namespace::Types, trail)? {
                    Target::Module(whole) => self.look_up(whole, name, namespace, false, trail),
                    Target::Item(_) => None,
                }
            });
        }
        trail.pop();
        if let Some(Target::Item(item)) = &mut found {
            item.re_exporters.push(module);
        }
        if found.is_none() && namespace == Namespace::Macros && (is_first || module == ROOT) {
            let definer = self.macros.get(name)?;
            let item = Item { name: name.to_owned(), module: *definer, re_exporters: Vec::new() };
            return Some(Target::Item(item));
        }
        found
    }
}

/// The name that an item defines, and in which namespaces.
fn definition(item: &syn::Item) -> Option<(String, &'static [Namespace])> {
    use Namespace::{Macros, Types, Values};
    use syn::Item;
    let (name, namespaces): (&syn::Ident, &'static [Namespace]) = match item {
        Item::Const(item) => (&item.ident, &[Values]),
        Item::Enum(item) => (&item.ident, &[Types]),
        Item::Fn(item) => (&item.sig.ident, &[Values]),
        Item::Macro(item) => (item.ident.as_ref()?, &[Macros]),
        Item::Static(item) => (&item.ident, &[Values]),
        Item::Struct(item) => {
            let is_value = !matches!(item.fields, syn::Fields::Named(_));
            (&item.ident, if is_value { &[Types, Values] } else { &[Types] })
        }
        Item::Trait(item) => (&item.ident, &[Types]),
        Item::Type(item) => (&item.ident, &[Types]),
        Item::Union(item) => (&item.ident, &[Types]),
        _ => return None,
    };
    Some((name.to_string(), namespaces))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::modules::Sources;
    use crate::source::rust::RustSource;

    /// Where a path of `c/src/a.rs` leads to: `file: name`, and by which files.
    fn found(a: &str, path: &str) -> Vec<String> {
        let texts = [
            (
                "c/src/lib.rs",
                "mod a;\nmod b;\nmod d;\npub use b::B;\npub use d::*;\nmacro_rules! m { () => {} }\n",
            ),
            ("c/src/a.rs", a),
            ("c/src/a/e.rs", "pub struct E;\n"),
            ("c/src/b.rs", "pub struct B;\npub fn d() {}\npub use crate::b as again;\n"),
            ("c/src/d.rs", "pub enum D { One }\npub fn f() {}\nuse crate::*;\n"),
        ];
        let sources: Sources<'_> =
            texts.iter().map(|&(path, text)| (path, RustSource::parse(text).unwrap())).collect();
        let tree = ModuleTree::read("c/src/lib.rs", &sources);
        let named: Vec<Named> = tree.modules.iter().map(|module| Named::read(module.items)).collect();
        let names = Names::read(&tree, &named);
        let from = tree.modules.iter().position(|module| module.file == "c/src/a.rs").unwrap();
        let segments = path.split("::").map(str::to_owned).collect();
        let items = names.items(from, &Mention { segments, line: 1 });
        let file = |module: ModuleId| &tree.modules[module].file["c/src/".len()..];
        let by = |item: &Item| -> String {
            item.re_exporters.iter().map(|&module| format!(" by {}", file(module))).collect()
        };
        items.iter().map(|item| format!("{}: {}{}", file(item.module), item.name, by(item))).collect()
    }

    #[test]
    fn paths_lead_to_the_file_that_defines() {
        assert_eq!(found("", "crate::b::B"), ["b.rs: B"]);
        assert_eq!(found("", "super::b::d"), ["b.rs: d"]);
        assert_eq!(found("struct S;", "self::S"), ["a.rs: S"]);
        assert_eq!(found("mod e;", "e::E"), ["a/e.rs: E"]);
        assert_eq!(found("mod inner { pub struct I; }", "inner::I"), ["a.rs: I"]);
        assert_eq!(found("", "crate::d::D::One"), ["d.rs: D"]);
    }

    #[test]
    fn re_exports_hide_nothing() {
        assert_eq!(found("", "crate::B"), ["b.rs: B by lib.rs"]);
        assert_eq!(found("", "crate::D::One"), ["d.rs: D by lib.rs"]);
        assert_eq!(found("use crate::f as g;", "g"), ["d.rs: f by lib.rs"]);
        assert_eq!(found("use crate::*;", "f"), ["d.rs: f by lib.rs"]);
        assert_eq!(found("use crate::b::again;", "again::B"), ["b.rs: B"]);
    }

    #[test]
    fn a_module_is_no_item_and_other_crates_are_not_followed() {
        assert!(found("use crate::b;", "b").is_empty());
        assert!(found("use std::fmt;", "fmt::Display").is_empty());
        assert!(found("use x::y;\nuse y::x;", "x::z").is_empty());
        assert!(found("", "crate::absent::B").is_empty());
    }

    #[test]
    fn a_module_and_a_function_may_have_one_name() {
        assert_eq!(found("use crate::b::d;", "d"), ["b.rs: d"]);
        assert_eq!(found("use crate::d;", "d::f"), ["d.rs: f"]);
    }

    #[test]
    fn macros_are_seen_in_inner_modules() {
        assert_eq!(found("", "m"), ["lib.rs: m"]);
        assert_eq!(found("", "crate::m"), ["lib.rs: m"]);
    }
}
