//! The guide names every reason of an exec, every fault point and every kernel feature, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regrow_engine::fault;
use regrow_sys::probe::Feature;

/// A page of the guide.
fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/src").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in backticks in the column of this number of all rows.
fn names(page: &str, column: usize) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(column).map(str::to_owned));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn the_guide_explains_every_fallback() {
    // The reasons hold values and cannot be listed: the names are taken from where they are given.
    let source = include_str!("../src/run/creation.rs");
    let (_, rest) = source.split_once("impl Fallback {").expect("the names are given there");
    let (given, _) = rest.split_once("\n}\n").expect("it has an end");
    let given = given.lines().filter_map(|line| line.split_once("=> \"")?.1.strip_suffix("\","));
    let given: BTreeSet<String> = given.map(str::to_owned).collect();
    assert!(given.len() > 20, "{given:?}");
    assert_eq!(names(&page("fallbacks.md"), 1), given);
}

#[test]
fn the_guide_explains_every_fault_point() {
    let page = page("faults.md");
    for (point, name) in fault::ALL {
        let number = point.number();
        assert!(page.contains(&format!("\n| {number} | `{name}` | ")), "{number} {name}");
    }
    assert_eq!(names(&page, 2).len(), fault::ALL.len());
}

#[test]
fn the_guide_explains_every_feature() {
    let known: BTreeSet<String> = Feature::all().map(|feature| feature.name().to_owned()).collect();
    assert_eq!(names(&page("features.md"), 1), known);
}
