//! A Python file as the rules see it: its code without strings and comments, its functions and its imports.

/// A function or method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PythonFunction {
    /// Its name.
    pub(crate) name: String,
    /// The line of its `def`, from 1.
    pub(crate) line: usize,
    /// How many lines it has, without the blank lines after it.
    pub(crate) count: usize,
}

/// An import, wherever it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PythonImport {
    /// Line, from 1.
    pub(crate) line: usize,
    /// The dots before the module's name: 1 is the folder of the file.
    pub(crate) dots: usize,
    /// The module, part by part.
    pub(crate) module: Vec<String>,
    /// The names that are taken out of it, as it has them; `None` for `import module`.
    pub(crate) names: Option<Vec<String>>,
}

/// The lines of a file in which strings and comments are left out. A string of several lines keeps its lines.
pub(crate) fn code_lines(text: &str) -> Vec<String> {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let skipped = match next {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '"' | '\'' => {
                let end = string_end(rest, next);
                code.push_str("\"\"");
                code.extend(rest[..end].chars().filter(|&c| c == '\n'));
                end
            }
            other => {
                code.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[skipped..];
    }
    code.lines().map(str::to_owned).collect()
}

/// Where the string that `text` begins with ends.
fn string_end(text: &str, quote: char) -> usize {
    let triple = quote.to_string().repeat(3);
    let close = if text.starts_with(&triple) { triple } else { quote.to_string() };
    let mut at = close.len();
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with(&close) {
            return at + close.len();
        }
        let mut chars = rest.chars();
        let escaped = chars.next() == Some('\\');
        at = text.len() - chars.as_str().len();
        if escaped {
            at += chars.next().map_or(0, char::len_utf8);
        }
    }
    text.len()
}

/// The functions of a file. One goes on as long as lines are indented deeper than its `def`, as formatters lay it out.
pub(crate) fn functions(text: &str) -> Vec<PythonFunction> {
    let lines = code_lines(text);
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let head = code.strip_prefix("async ").unwrap_or(code).strip_prefix("def ");
        let Some(name) = head.and_then(|head| head.split('(').next()) else { continue };
        let mut last = index;
        for (offset, below) in lines[index + 1..].iter().enumerate() {
            let text = below.trim();
            // The bracket that ends a head of several lines stands as deep as its `def`.
            if text.is_empty() || text.starts_with(')') {
                continue;
            }
            if indent(below) <= indent(line) {
                break;
            }
            last = index + 1 + offset;
        }
        functions.push(PythonFunction {
            name: name.trim().to_owned(),
            line: index + 1,
            count: last + 1 - index,
        });
    }
    functions
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The imports of a file, in functions too, but not those for type checkers alone.
pub(crate) fn imports(text: &str) -> Vec<PythonImport> {
    let lines = code_lines(text);
    let mut imports = Vec::new();
    // How deep the block for type checkers stands that a line may be in.
    let mut for_types: Option<usize> = None;
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        if code.is_empty() {
            continue;
        }
        for_types = for_types.filter(|&depth| indent(line) > depth);
        if code.starts_with("if TYPE_CHECKING:") {
            for_types = Some(indent(line));
        }
        if for_types.is_some() || !(code.starts_with("import ") || code.starts_with("from ")) {
            continue;
        }
        let mut statement = code.to_owned();
        let below = lines[index + 1..].iter();
        for next in below {
            let open = statement.contains('(') && !statement.contains(')');
            if !(open || statement.ends_with('\\')) {
                break;
            }
            statement = format!("{} {}", statement.trim_end_matches('\\'), next.trim());
        }
        imports.extend(import(&statement, index + 1));
    }
    imports
}

/// The imports of one statement.
fn import(statement: &str, line: usize) -> Vec<PythonImport> {
    let module = |path: &str| path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    if let Some(modules) = statement.strip_prefix("import ") {
        let imports = names(modules);
        return imports
            .iter()
            .map(|path| PythonImport { line, dots: 0, module: module(path), names: None })
            .collect();
    }
    let Some((path, taken)) = statement["from ".len()..].split_once(" import ") else { return Vec::new() };
    let path = path.trim();
    let dots = path.len() - path.trim_start_matches('.').len();
    vec![PythonImport { line, dots, module: module(path), names: Some(names(taken)) }]
}

/// The names of a list, without what they are called here.
fn names(list: &str) -> Vec<String> {
    let parts = list.trim_matches(|c: char| c == '(' || c == ')' || c.is_whitespace()).split(',');
    parts.filter_map(|part| part.split_whitespace().next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_no_code() {
        let text = "a = 'x # y' # z\nb = \"\"\"from p import q\n\"one\" \\\"\"\" more\n\"\"\" + c\n";
        assert_eq!(code_lines(text), ["a = \"\" ", "b = \"\"", "", " + c"]);
        assert_eq!(code_lines("a = 'it\\'s'\nb = ''\n"), ["a = \"\"", "b = \"\""]);
    }

    #[test]
    fn functions_are_measured_by_their_indent() {
        let text = "class A:\n    def f(self):\n        g()\n\n        h()\n\n    async def k(\n        self,\n    ):\n        g()\nx = 1\n";
        let found: Vec<(String, usize, usize)> = functions(text)
            .into_iter()
            .map(|function| (function.name, function.line, function.count))
            .collect();
        assert_eq!(found, [("f".to_owned(), 2, 4), ("k".to_owned(), 7, 4)]);
    }

    #[test]
    fn imports_are_taken_apart() {
        let text = "import os, a.b as c\nfrom . import d\nif TYPE_CHECKING:\n    import t\n\n    import u\ndef f():\n    from ..e.g import (\n        h as i,\n        j,\n    )\n";
        let found: Vec<String> = imports(text)
            .iter()
            .map(|import| {
                let names = import.names.as_ref().map_or("-".to_owned(), |names| names.join(" "));
                format!("{} {} {} {names}", import.line, import.dots, import.module.join("."))
            })
            .collect();
        assert_eq!(found, ["1 0 os -", "1 0 a.b -", "2 1  d", "8 2 e.g h j"]);
    }
}
