//! Words that say too little are no part of a function's name.

use super::finding::Finding;
use crate::repo::TextFile;
use crate::source::python;
use crate::source::rust::RustSource;

/// The words.
const WORDS: &[&str] = &["settle", "settled", "settles"];

/// Checks the functions of a Rust file.
pub(crate) fn check_rust(path: &str, source: &RustSource<'_>) -> Vec<Finding> {
    source.functions.iter().flat_map(|function| finding(path, function.line, &function.name)).collect()
}

/// Checks the functions of a file, if it is Python.
pub(crate) fn check_text(file: &TextFile) -> Vec<Finding> {
    if !file.path.ends_with(".py") {
        return Vec::new();
    }
    let functions = python::functions(&file.text);
    functions.iter().filter_map(|function| finding(&file.path, function.line, &function.name)).collect()
}

fn finding(path: &str, line: usize, name: &str) -> Option<Finding> {
    let word = name.split('_').find(|part| WORDS.contains(part))?;
    let message = format!("function `{name}`: `{word}` does not say what the function does");
    Some(Finding::new(path, line, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::file;

    #[test]
    fn names_that_say_too_little_are_found() {
        for (text, wanted) in [
            ("fn settle() {}\n", 1),
            ("impl S {\n    pub(crate) fn settle_all(&mut self) {}\n}\n", 1),
            ("const fn is_settled<T>() {}\n", 1),
            ("// fn settle() {}\nfn settler() { settle(\"fn settle() {}\"); }\n", 0),
        ] {
            assert_eq!(check_rust("a.rs", &RustSource::parse(text).unwrap()).len(), wanted, "{text}");
        }
        for (text, wanted) in [
            ("def settle(self):\n", 1),
            ("    async def _settle(self):\n", 1),
            ("# def settle():\nsettled = 1\n", 0),
        ] {
            assert_eq!(check_text(&file("a.py", text)).len(), wanted, "{text}");
        }
        assert!(check_text(&file("a.md", "def settle():\n")).is_empty());
    }
}
