//! `docs/protocol.md` says of every message, field and limit what the code does, and of no other.

use std::path::Path;

use regrow_daemon::server::Options;
use regrow_daemon::wire::{LIMITS, MAX_FDS, MAX_MESSAGE, MAX_TARGETS, ToClient, ToDaemon, VERSION};

const SOURCE: &str = include_str!("../src/wire.rs");

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of the rows of all tables.
fn rows(page: &str) -> Vec<Vec<String>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").map(str::to_owned).collect()).collect()
}

/// What stands between two texts of the source.
fn part(from: &str, to: &str) -> &'static str {
    let (_, rest) = SOURCE.split_once(from).expect("it is there");
    rest.split_once(to).expect("it ends").0
}

/// The names of the fields that a piece of the source reads, each once, in its order.
fn fields(source: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for piece in source.split("from.").skip(1) {
        let name = piece.split_once("(\"").and_then(|(_, rest)| rest.split_once('"'));
        names.extend(name.map(|(name, _)| name.to_owned()));
    }
    names.dedup();
    names
}

/// The names in backticks of a cell.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_kind_has_its_row() {
    let kinds =
        part("mod kind {", "\n}").lines().filter_map(|line| line.trim().strip_prefix("pub(super) const "));
    let kinds = kinds.map(|line| line.trim_end_matches(';').split_once(": u16 = ").expect("a number"));
    let expected: Vec<(String, String)> =
        kinds.map(|(name, number)| (number.to_owned(), format!("`{}`", name.to_lowercase()))).collect();
    let page = page();
    let is_kind =
        |row: &&Vec<String>| row.len() >= 4 && row[0].parse::<u16>().is_ok() && row[1].starts_with('`');
    let rows = rows(&page);
    let found: Vec<(String, String)> =
        rows.iter().filter(is_kind).map(|row| (row[0].clone(), row[1].clone())).collect();
    assert!(expected.len() > 10);
    assert_eq!(found, expected);
}

#[test]
fn every_field_stands_where_it_is_read() {
    let page = page();
    let rows = rows(&page);
    let order = fields(part("fn read(from: &mut Reader<'_>) -> Result<Order", "Ok(order)"));
    assert!(order.len() > 10, "{order:?}");
    let (_, table) = page.split_once("The fields of `run`:").expect("the table");
    let names = table.lines().skip(4).take_while(|line| line.starts_with('|'));
    let names: Vec<String> =
        names.flat_map(|row| quoted(row.split('|').nth(1).unwrap_or_default())).collect();
    assert_eq!(names, order);

    for (decoder, kinds) in [("ToDaemon", 6), ("ToClient", 8)] {
        let decoder = part(&format!("from_bytes(message: &[u8]) -> Result<{decoder}"), "kind => return Err");
        let arms: Vec<&str> =
            decoder.split("kind::").skip(1).filter(|arm| !arm.starts_with("RUN ")).collect();
        assert_eq!(arms.len(), kinds);
        for arm in arms {
            let (kind, body) = arm.split_once(" =>").expect("an arm");
            let row = rows.iter().find(|row| row.get(1) == Some(&format!("`{}`", kind.to_lowercase())));
            let row = row.unwrap_or_else(|| panic!("no row for {kind}"));
            assert_eq!(quoted(&row[2]), fields(body), "{kind}");
        }
    }
}

#[test]
fn numbers_and_examples_are_right() {
    let page = page();
    let thousands = |number: usize| match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", number / 1000, number % 1000),
    };
    let options = Options::default();
    for text in [
        format!("| 2 | version | {VERSION} |"),
        format!("| a message | {} bytes, {MAX_FDS} descriptors |", thousands(MAX_MESSAGE)),
        format!("| descriptors of a run | {MAX_TARGETS} |"),
        format!("| `limits` | {} × u64 |", 2 * LIMITS),
        format!("| clients | {} (`--max-clients`) |", options.max_clients),
        format!("| runs at a time | {} (`--max-runs`) |", options.max_runs),
    ] {
        assert!(page.contains(&text), "{text}");
    }
    let hex = |bytes: &[u8]| {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("`{}`", bytes.join(" "))
    };
    for example in [ToDaemon::Stop.to_bytes(), ToClient::Ended { status: 3 << 8 }.to_bytes()] {
        assert!(page.contains(&hex(&example)), "{}", hex(&example));
    }
}
