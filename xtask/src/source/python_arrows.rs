//! The arrows between Python files.
//!
//! A file leads to another when it imports it, or a name out of it. A name that a file has imported itself leads to the
//! file that it comes from, too. Imports that stand in functions count; those for type checkers alone, below
//! `if TYPE_CHECKING:`, do not: nothing is imported there.

use super::arrows::Arrows;
use super::python::{PythonImport, imports};
use crate::repo::TextFile;
use std::collections::BTreeMap;

/// What the file of a package is called that stands for the package.
const PACKAGE: &str = "__init__";

/// The imports of each file.
type Imports<'a> = BTreeMap<&'a str, Vec<PythonImport>>;

/// The arrows between all Python files among `files`.
pub(crate) fn python_arrows(files: &[TextFile]) -> Arrows {
    let python = files.iter().filter(|file| file.path.ends_with(".py") || file.path.ends_with(".pyi"));
    let known: Imports<'_> = python.map(|file| (file.path.as_str(), imports(&file.text))).collect();
    let mut arrows = Arrows::default();
    for (&path, imports) in &known {
        for import in imports {
            let Some(names) = &import.names else {
                let last = import.module.last().map_or("", String::as_str);
                if let Some(target) = find(&known, path, import, None) {
                    arrows.note(path, target, import.line, last);
                }
                continue;
            };
            for name in names {
                for target in sources(&known, path, import, name) {
                    arrows.note(path, target, import.line, name);
                }
            }
        }
    }
    arrows
}

/// The files that an imported name comes from: the one that is asked, and those that it has the name from.
fn sources<'a>(known: &Imports<'a>, path: &str, import: &PythonImport, name: &str) -> Vec<&'a str> {
    if let Some(module) = find(known, path, import, Some(name)) {
        return vec![module];
    }
    let mut found: Vec<&str> = Vec::new();
    let mut next = find(known, path, import, None);
    while let Some(file) = next {
        if found.contains(&file) {
            break;
        }
        found.push(file);
        let again =
            known[file].iter().find(|import| import.names.iter().flatten().any(|taken| taken == name));
        next = again.and_then(|import| find(known, file, import, None));
    }
    found
}

/// The file of the imported module, or of the module `name` in it.
fn find<'a>(known: &Imports<'a>, path: &str, import: &PythonImport, name: Option<&str>) -> Option<&'a str> {
    let mut folder = folder_of(path);
    if import.dots == 0 {
        // What stands beside the outermost package is found by its full name.
        while known.contains_key(format!("{folder}/{PACKAGE}.py").as_str()) {
            folder = folder_of(folder);
        }
    }
    for _ in 1..import.dots {
        folder = folder_of(folder);
    }
    let parts = import.module.iter().map(String::as_str).chain(name);
    let module = parts.fold(folder.to_owned(), |module, part| format!("{module}/{part}"));
    // An extension module is known by its types.
    let candidates = [format!("{module}.py"), format!("{module}/{PACKAGE}.py"), format!("{module}.pyi")];
    candidates.iter().find_map(|path| known.get_key_value(path.as_str()).map(|(&path, _)| path))
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::file;

    #[test]
    fn imports_lead_to_files() {
        let files = [
            file("p/wood/__init__.py", "from .a import A\nif TYPE_CHECKING:\n    from . import b\n"),
            file("p/wood/e.pyi", ""),
            file("p/wood/a.py", "import os\nfrom wood.c.d import D\nfrom . import b\n"),
            file("p/wood/b.py", "def f():\n    from wood import A\n"),
            file("p/wood/c/__init__.py", ""),
            file("p/wood/c/d.py", "from .. import b as again, e\n"),
            file("p/run.py", "import wood.b\n"),
        ];
        let arrows = python_arrows(&files).0;
        let short = |path: &str| path["p/".len()..].trim_end_matches(".py").to_owned();
        let found: Vec<String> = arrows
            .iter()
            .map(|((from, to), arrow)| format!("{}:{} -> {}", short(from), arrow.line, short(to)))
            .collect();
        let wanted = [
            "run:1 -> wood/b",
            "wood/__init__:1 -> wood/a",
            "wood/a:3 -> wood/b",
            "wood/a:2 -> wood/c/d",
            "wood/b:2 -> wood/__init__",
            "wood/b:2 -> wood/a",
            "wood/c/d:1 -> wood/b",
            "wood/c/d:1 -> wood/e.pyi",
        ];
        assert_eq!(found, wanted);
    }
}
