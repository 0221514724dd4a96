//! `docs/protocol.md` says of every message, field and limit what the code does, and of no other.

use std::path::Path;

use regrow_daemon::server::ServerOptions;
use regrow_daemon::wire::{MAX_FDS, MAX_MESSAGE, MAX_TARGETS, ToClient, ToDaemon, VERSION};

/// The sources of the codec.
const KIND: &str = include_str!("../src/wire/kind.rs");
const SPAWN: &str = include_str!("../src/wire/spawn.rs");
const GRANT: &str = include_str!("../src/wire/grant.rs");
const TASK: &str = include_str!("../src/wire/task.rs");
const TO_DAEMON: &str = include_str!("../src/wire/to_daemon.rs");
const TO_CLIENT: &str = include_str!("../src/wire/to_client.rs");

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of the rows of all tables.
fn rows(page: &str) -> Vec<Vec<String>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").map(str::to_owned).collect()).collect()
}

/// What stands between two texts of a source.
fn part(source: &'static str, from: &str, to: &str) -> &'static str {
    let (_, rest) = source.split_once(from).expect("it is there");
    rest.split_once(to).expect("it ends").0
}

/// The names in the first cells of the table that stands below a text.
fn names_below(page: &str, text: &str) -> Vec<String> {
    let (_, table) = page.split_once(text).expect("the table");
    let table = table.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| quoted(row.split('|').nth(1).unwrap_or_default())).collect()
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
    let kinds = KIND.lines().filter_map(|line| line.strip_prefix("pub(super) const "));
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
    let run = part(SPAWN, "fn read(from: &mut Reader<'_>) -> Result<SpawnMessage", "Ok(message)");
    let run = fields(&run.replace("task::read(from)", "from.task(\"task\")"));
    assert!(run.len() > 10, "{run:?}");
    assert_eq!(names_below(&page, "The fields of `run`:"), run);
    let limits = fields(part(TASK, "fn read_limits(", "\n}"));
    let task = part(TASK, "fn read(from: &mut Reader<'_>)", "\n}");
    let task =
        fields(&task.replace("read_limits(from, ", &format!("from.limits(\"{}\", ", limits.join(" "))));
    assert!(task.len() > 7, "{task:?}");
    assert_eq!(names_below(&page, "The fields of `task`."), task);

    let once = part(SPAWN, "fn read(from: &mut Reader<'_>) -> Result<OnceMessage", "\n    }");
    let row = rows.iter().find(|row| row.get(1).is_some_and(|cell| cell == "`once`")).expect("its row");
    let fields_of_run = row[2].ends_with(", then the fields of `run`");
    assert!(fields_of_run && once.contains("run: SpawnMessage::read(from)"));
    assert_eq!(quoted(&row[2])[..2], fields(once)[..2]);

    let grant = part(GRANT, "fn read(from: &mut Reader<'_>) -> Result<GrantMessage", "\n    }");
    let grant = fields(&grant.replace("task::read(from)", "from.task(\"task\")"));
    assert!(grant.len() > 8, "{grant:?}");
    assert_eq!(names_below(&page, "The fields of `leased`:"), grant);

    for (source, decoder, kinds) in [(TO_DAEMON, "ToDaemon", 9), (TO_CLIENT, "ToClient", 8)] {
        let begin = format!("from_bytes(message: &[u8]) -> Result<{decoder}");
        let decoder = part(source, &begin, "kind => return Err");
        let arms: Vec<&str> = decoder
            .split("kind::")
            .skip(1)
            .filter(|arm| !["RUN ", "ONCE ", "LEASE ", "LEASED "].iter().any(|kind| arm.starts_with(kind)))
            .collect();
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
    let options = ServerOptions::default();
    for text in [
        format!("| 2 | version | {VERSION} |"),
        format!("| a message | {} bytes, {MAX_FDS} descriptors |", thousands(MAX_MESSAGE)),
        format!("| descriptors of a run | {MAX_TARGETS} |"),
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
