//! The paths that a module's code names: in `use`, in expressions, types and patterns, and inside macros.
//!
//! Code that is built for unit tests only is left out, and so is what inner modules name: they are modules of their own.

use super::rust::is_for_tests;
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// One path, where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// The names between its `::`.
    pub(crate) segments: Vec<String>,
    /// Line, from 1.
    pub(crate) line: usize,
}

/// What a `use` brings in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    /// The name that it has here; `None` for all names below the path.
    pub(crate) name: Option<String>,
    /// The path, without the `*` of a glob.
    pub(crate) mention: Mention,
}

/// All that the items of one module name.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// What `use` brings in, in functions too.
    pub(crate) imports: Vec<Import>,
    /// Every other path.
    pub(crate) mentions: Vec<Mention>,
}

impl Named {
    /// Reads the items of one module.
    pub(crate) fn read(items: &[syn::Item]) -> Self {
        let mut named = Self::default();
        for item in items {
            named.visit_item(item);
        }
        named
    }

    fn use_tree(&mut self, tree: &syn::UseTree, above: &[String]) {
        let line = tree.span().start().line;
        let with = |name: &syn::Ident| {
            let mut segments = above.to_vec();
            if name != "self" || above.is_empty() {
                segments.push(name.to_string());
            }
            segments
        };
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&path.tree, &with(&path.ident)),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.use_tree(tree, above)),
            syn::UseTree::Name(name) => {
                let segments = with(&name.ident);
                self.imports.push(Import {
                    name: Some(segments.last().cloned().unwrap_or_default()),
                    mention: Mention { segments, line },
                });
            }
            syn::UseTree::Rename(renamed) => self.imports.push(Import {
                name: Some(renamed.rename.to_string()),
                mention: Mention { segments: with(&renamed.ident), line },
            }),
            syn::UseTree::Glob(_) => {
                self.imports.push(Import { name: None, mention: Mention { segments: above.to_vec(), line } });
            }
        }
    }

    /// Notes the paths among the tokens of a macro or an attribute.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut segments: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.path(&mut segments, line);
                        line = word.span().start().line;
                    }
                    segments.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' && !segments.is_empty() => colons += 1,
                other => {
                    self.path(&mut segments, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.path(&mut segments, line);
    }

    fn path(&mut self, segments: &mut Vec<String>, line: usize) {
        if !segments.is_empty() {
            self.mentions.push(Mention { segments: std::mem::take(segments), line });
        }
    }
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item(&mut self, node: &'ast syn::Item) {
        if matches!(node, syn::Item::Mod(_)) || is_for_tests(attributes(node)) {
            return;
        }
        visit::visit_item(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        if !is_for_tests(&node.attrs) {
            visit::visit_impl_item_fn(self, node);
        }
    }

    fn visit_item_use(&mut self, node: &'ast syn::ItemUse) {
        if node.leading_colon.is_none() {
            self.use_tree(&node.tree, &[]);
        }
    }

    fn visit_path(&mut self, node: &'ast syn::Path) {
        if node.leading_colon.is_none() {
            let segments = node.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.mentions.push(Mention { segments, line: node.span().start().line });
        }
        visit::visit_path(self, node);
    }

    fn visit_macro(&mut self, node: &'ast syn::Macro) {
        self.tokens(node.tokens.clone());
        visit::visit_macro(self, node);
    }

    fn visit_attribute(&mut self, node: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &node.meta {
            self.tokens(list.tokens.clone());
        }
    }
}

/// The attributes of an item.
fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Named {
        Named::read(&syn::parse_file(text).unwrap().items)
    }

    fn paths(text: &str) -> Vec<String> {
        named(text).mentions.iter().map(|mention| mention.segments.join("::")).collect()
    }

    #[test]
    fn imports_are_taken_apart() {
        let text = "use a::{self, b as c, d::*};\nfn f() { use e::E as _; }\nuse ::outside::g;\n";
        let imports: Vec<(Option<String>, String, usize)> = named(text)
            .imports
            .into_iter()
            .map(|import| (import.name, import.mention.segments.join("::"), import.mention.line))
            .collect();
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(
            imports,
            [
                (some("a"), "a".to_owned(), 1),
                (some("c"), "a::b".to_owned(), 1),
                (None, "a::d".to_owned(), 1),
                (some("_"), "e::E".to_owned(), 2),
            ]
        );
    }

    #[test]
    fn paths_are_found_in_all_places() {
        assert_eq!(paths("impl a::T for b::S {}"), ["a::T", "b::S"]);
        assert_eq!(paths("fn f(x: a::X) -> b::Y<c::Z> { d::e(); }"), ["a::X", "b::Y", "c::Z", "d::e"]);
        assert_eq!(paths("const C: u8 = match 1 { a::B => 2 };"), ["u8", "a::B"]);
        assert_eq!(paths("#[x(y = a::b)]\nstruct S;"), ["y", "a::b"]);
        assert_eq!(paths("fn f() { m!(\"{}\", a::b(c::D { e: 1 })); }"), ["a::b", "c::D", "e", "m"]);
    }

    #[test]
    fn tests_and_inner_modules_are_left_out() {
        assert!(paths("#[cfg(test)]\nfn f() { a::b(); }\nmod inner { fn g() { c::d(); } }").is_empty());
        assert!(paths("#[cfg(all(test, unix))]\nuse a::b;").is_empty());
        assert_eq!(paths("#[cfg(not(test))]\nfn f() { a::b(); }"), ["not", "test", "a::b"]);
    }
}
