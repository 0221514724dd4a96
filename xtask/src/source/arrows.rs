//! Which file takes which names from which other file.

use std::collections::{BTreeMap, BTreeSet};

/// What leads from one file to another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrow {
    /// Line of the first name, from 1.
    pub(crate) line: usize,
    /// The names that the first file takes from the second.
    pub(crate) names: BTreeSet<String>,
}

/// The arrows of one crate or of all Python files, by the paths that they lead from and to.
#[derive(Debug, Default)]
pub(crate) struct Arrows(pub(crate) BTreeMap<(String, String), Arrow>);

impl Arrows {
    /// Notes that file `from` names, on a line, what file `to` has under `name`.
    pub(crate) fn note(&mut self, from: &str, to: &str, line: usize, name: &str) {
        if from == to {
            return;
        }
        let key = (from.to_owned(), to.to_owned());
        let arrow = self.0.entry(key).or_insert_with(|| Arrow { line, names: BTreeSet::new() });
        arrow.line = arrow.line.min(line);
        arrow.names.insert(name.to_owned());
    }

    /// The files that each file leads to.
    pub(crate) fn graph(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (from, to) in self.0.keys() {
            graph.entry(from).or_default().insert(to);
        }
        graph
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_has_its_first_line_and_all_its_names() {
        let mut arrows = Arrows::default();
        for (to, line, name) in [("b.rs", 7, "C"), ("b.rs", 3, "B"), ("a.rs", 1, "A")] {
            arrows.note("a.rs", to, line, name);
        }
        let names = BTreeSet::from(["B".to_owned(), "C".to_owned()]);
        let key = ("a.rs".to_owned(), "b.rs".to_owned());
        assert_eq!(arrows.0, BTreeMap::from([(key, Arrow { line: 3, names })]));
        assert_eq!(arrows.graph(), BTreeMap::from([("a.rs", BTreeSet::from(["b.rs"]))]));
    }
}
