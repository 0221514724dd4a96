//! A Rust file read once for all rules: its lines, its tokens and its functions and statements with their places.
//!
//! Tokens see into macros, where the syntax tree ends; the tree knows statements, which tokens do not.

use proc_macro2::{Delimiter, LineColumn, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// A file that is not Rust.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// Line, from 1.
    pub(crate) line: usize,
    /// What the reader said.
    pub(crate) message: String,
}

/// A function, method or trait default.
#[derive(Debug)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// The line its signature starts on, from 1.
    pub(crate) line: usize,
    /// How many lines it has from there to its closing brace; attributes and doc comments are not counted.
    pub(crate) count: usize,
}

/// The facts of one Rust file.
pub(crate) struct RustSource<'a> {
    /// The text, line by line.
    pub(crate) lines: Vec<&'a str>,
    /// The syntax tree.
    pub(crate) tree: syn::File,
    /// Every function outside of macros.
    pub(crate) functions: Vec<Function>,
    /// Where each `unsafe {` and `unsafe impl` stands, in macros too; lines count from 1.
    pub(crate) unsafe_places: Vec<LineColumn>,
    /// The line of each `unsafe`, whatever it opens, from 1.
    pub(crate) unsafe_lines: Vec<usize>,
    /// The lines that end inside a literal, from 1: blanks at their end are part of a value.
    pub(crate) literal_lines: Vec<usize>,
    /// Where statements and items start and end.
    statements: Vec<(LineColumn, LineColumn)>,
}

impl<'a> RustSource<'a> {
    /// Reads a file's text.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Unreadable> {
        let tokens: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| Unreadable {
            line: error.span().start().line,
            message: format!("cannot be read as Rust: {error}"),
        })?;
        let mut facts = TokenFacts::default();
        facts.collect(tokens.clone());
        let tree: syn::File = syn::parse2(tokens).map_err(|error| Unreadable {
            line: error.span().start().line,
            message: format!("cannot be read as Rust: {error}"),
        })?;
        let mut collector = Collector { functions: Vec::new(), statements: Vec::new() };
        collector.visit_file(&tree);
        let Collector { functions, statements } = collector;
        let TokenFacts { unsafe_places, unsafe_lines, literal_lines } = facts;
        let lines = text.lines().collect();
        Ok(Self { lines, tree, functions, unsafe_places, unsafe_lines, literal_lines, statements })
    }

    /// The first line of the innermost statement or item that `place` is in.
    pub(crate) fn statement_line(&self, place: LineColumn) -> Option<usize> {
        let around = self.statements.iter().filter(|&&(start, end)| start <= place && place < end);
        around.map(|(start, _)| start).max().map(|start| start.line)
    }
}

/// What the tokens of a file tell.
#[derive(Debug, Default)]
struct TokenFacts {
    unsafe_places: Vec<LineColumn>,
    unsafe_lines: Vec<usize>,
    literal_lines: Vec<usize>,
}

impl TokenFacts {
    /// Notes each `unsafe`, and the place of each that opens a block or an impl: an `unsafe` function or extern block
    /// makes no claim by itself, and `#[unsafe(…)]` has a parenthesis after it. Notes the lines that literals of several
    /// lines go over.
    fn collect(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "unsafe" => {
                    let claims = match tokens.peek() {
                        Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
                        Some(TokenTree::Ident(next)) => next == "impl",
                        _ => false,
                    };
                    self.unsafe_lines.push(word.span().start().line);
                    if claims {
                        self.unsafe_places.push(word.span().start());
                    }
                }
                TokenTree::Group(group) => self.collect(group.stream()),
                TokenTree::Literal(value) => {
                    self.literal_lines.extend(value.span().start().line..value.span().end().line);
                }
                _ => {}
            }
        }
    }
}

/// Whether attributes say that what follows is built for unit tests only.
pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if !attribute.path().is_ident("cfg") {
            return attribute.path().is_ident("test");
        }
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        let mut words = condition.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.clone().any(|word| word == "test") && !words.any(|word| word == "not")
    })
}

/// Walks the tree and notes places.
struct Collector {
    functions: Vec<Function>,
    statements: Vec<(LineColumn, LineColumn)>,
}

impl Collector {
    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let line = signature.span().start().line;
        let count = body.brace_token.span.close().end().line + 1 - line;
        self.functions.push(Function { name: signature.ident.to_string(), line, count });
    }

    fn statement(&mut self, span: proc_macro2::Span) {
        self.statements.push((span.start(), span.end()));
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, node: &'ast syn::Item) {
        self.statement(node.span());
        visit::visit_item(self, node);
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.function(&node.sig, &node.block);
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.function(&node.sig, &node.block);
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(body) = &node.default {
            self.function(&node.sig, body);
        }
        visit::visit_trait_item_fn(self, node);
    }

    fn visit_stmt(&mut self, node: &'ast syn::Stmt) {
        self.statement(node.span());
        visit::visit_stmt(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_wherever_they_stand() {
        let text = "fn a() {\n}\nimpl X {\n    /// Doc.\n    fn b(\n    ) {\n        fn c() {}\n    }\n}\n\
                    trait T { fn d(); fn e() {} }\n";
        let source = RustSource::parse(text).unwrap();
        let found: Vec<(&str, usize)> =
            source.functions.iter().map(|function| (function.name.as_str(), function.count)).collect();
        assert_eq!(found, [("a", 2), ("b", 4), ("c", 1), ("e", 1)]);
    }

    #[test]
    fn unsafe_is_found_in_blocks_impls_and_macros_only() {
        let text = "unsafe impl Send for X {}\nunsafe fn f() {}\nunsafe extern \"C\" {}\n\
                    #[unsafe(no_mangle)]\nfn g() {\n    assert!(unsafe { h() });\n    unsafe {\n    }\n}\n";
        let source = RustSource::parse(text).unwrap();
        let lines: Vec<usize> = source.unsafe_places.iter().map(|place| place.line).collect();
        assert_eq!(lines, [1, 6, 7]);
        assert_eq!(source.unsafe_lines, [1, 2, 3, 4, 6, 7]);
    }

    #[test]
    fn the_innermost_statement_around_a_place_counts() {
        let text = "fn f() {\n    let a =\n        unsafe { g() };\n    h();\n}\n";
        let source = RustSource::parse(text).unwrap();
        assert_eq!(source.statement_line(source.unsafe_places[0]), Some(2));
        assert_eq!(source.statement_line(LineColumn { line: 4, column: 4 }), Some(4));
        assert_eq!(source.statement_line(LineColumn { line: 9, column: 0 }), None);
    }

    #[test]
    fn lines_that_end_in_a_literal_are_known() {
        let text = "const A: &str = \"a \nb \n\";\nconst B: &[&str] = &[r#\"\n\"#];\n";
        assert_eq!(RustSource::parse(text).unwrap().literal_lines, [1, 2, 4]);
    }

    #[test]
    fn what_is_not_rust_is_reported_with_its_line() {
        assert_eq!(RustSource::parse("fn a() {}\nfn fn\n").err().unwrap().line, 2);
        assert_eq!(RustSource::parse("fn a() {}\n\"never closed\n").err().unwrap().line, 2);
    }
}
