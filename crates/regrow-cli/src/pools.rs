//! The pools of programs: those that a process of this user has for itself, as an executor of Python does, beside the daemon's.

use regrow_bench::table::{Alignment, TextTable};
use regrow_engine::listing;
use serde_json::{Value, json};

use crate::values::{mib, plain, sum};

/// The columns of a table of pools, with the numbers on the right.
pub(crate) const COLUMNS: [(&str, Alignment); 11] = [
    ("pid", Alignment::Right),
    ("program", Alignment::Name),
    ("for", Alignment::Text),
    ("workers", Alignment::Right),
    ("running", Alignment::Right),
    ("waiting", Alignment::Right),
    ("recycled", Alignment::Right),
    ("forked", Alignment::Right),
    ("exec", Alignment::Right),
    ("failed", Alignment::Right),
    ("MiB", Alignment::Right),
];

/// All pools of this user's processes. None where the list cannot be read: the log says why.
pub(crate) fn read() -> Vec<Value> {
    let listed = listing::read_all().unwrap_or_else(|error| {
        tracing::warn!(%error, "the pools of programs cannot be listed");
        Vec::new()
    });
    listed.iter().filter_map(pool).collect()
}

/// A pool as `regrow status --json` has it; `None` for one that another version has written in another form.
fn pool(listed: &listing::Listed) -> Option<Value> {
    let Ok(Value::Object(mut pool)) = serde_json::from_str(&listed.json) else { return None };
    let mut rows = |name: &str| {
        let fields = pool.remove(name)?.as_object()?.clone();
        Some(Value::Array(fields.into_iter().map(|(number, row)| numbered(&number, row)).collect()))
    };
    let (users, images) = (rows("users")?, rows("images")?);
    pool.insert("pid".into(), json!(listed.pid));
    pool.insert("command".into(), json!(listed.command));
    pool.insert("users".into(), users);
    pool.insert("images".into(), images);
    Some(Value::Object(pool))
}

fn numbered(number: &str, mut row: Value) -> Value {
    if let Some(fields) = row.as_object_mut() {
        fields.insert("number".into(), json!(number.parse::<u64>().ok()));
    }
    row
}

/// The cells of a pool's row.
pub(crate) fn cells(pool: &Value) -> [String; COLUMNS.len()] {
    let users = || pool["users"].as_array().into_iter().flatten();
    let total = |field: &str| users().map(|user| sum(&user[field])).sum::<u64>();
    let creations = &pool["creations"];
    [
        plain(&pool["pid"]),
        program(&plain(&pool["command"])),
        names(users()),
        // Who has no limit of his own says 0.
        if total("workers") == 0 { "-".to_owned() } else { total("workers").to_string() },
        sum(&pool["bodies"]["running"]).to_string(),
        total("waiting").to_string(),
        sum(&creations["recycled"]).to_string(),
        sum(&creations["forked_body"]).to_string(),
        sum(&creations["exec"]).to_string(),
        total("failed").to_string(),
        mib(&pool["kept_bytes"]),
    ]
}

/// A command line in one line, without the folders of its program and of the script that this executes.
fn program(command: &str) -> String {
    let command = command.replace(char::is_control, " ");
    let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let words = command.split(' ').enumerate();
    let words = words.map(|(at, word)| if at < 2 { base(word) } else { word.to_owned() });
    words.collect::<Vec<String>>().join(" ")
}

/// For whom a pool is: `Executor with json,re`. Users that are called the same are counted.
fn names<'a>(users: impl Iterator<Item = &'a Value>) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for user in users {
        let loaded = user["loaded"].as_str().filter(|loaded| !loaded.is_empty());
        let name = plain(&user["name"]) + &loaded.map(|loaded| format!(" with {loaded}")).unwrap_or_default();
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let names: Vec<String> = counts
        .into_iter()
        .map(|(name, count)| if count == 1 { name } else { format!("{count} × {name}") })
        .collect();
    if names.is_empty() { "-".to_owned() } else { names.join("; ") }
}

/// The pools in a table; nothing where there is none.
pub(crate) fn describe(pools: &[Value], width: usize) -> String {
    if pools.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new(&COLUMNS);
    pools.iter().for_each(|pool| table.row(cells(pool)));
    table.render(width)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a process has written of its pool.
    pub(crate) fn of_two_executors() -> Value {
        let json = r#"{"users":{"1":{"name":"Executor","loaded":"json","workers":2,"waiting":5,"failed":1},
            "2":{"name":"Executor","loaded":"json","workers":3,"waiting":0,"failed":0}},"bodies":{"running":2,"armed":1},
            "kept_bytes":3145728,"creations":{"recycled":{"warm":40,"main":2,"entry":0},"forked_body":{"warm":4},"exec":3,
            "fallbacks":{"first_run":3}},"images":{"7":{"file":"/usr/bin/python3","runs":44}}}"#;
        let listed = listing::Listed {
            pid: 12,
            command: "/usr/bin/python3 work.py".to_owned(),
            json: json.to_owned(),
        };
        pool(&listed).expect("it is of this form")
    }

    #[test]
    fn a_pool_is_a_row_and_has_its_users_and_images_by_number() {
        let pool = of_two_executors();
        assert_eq!(pool["users"][1]["workers"], 3);
        assert_eq!(pool["images"], json!([{"file": "/usr/bin/python3", "runs": 44, "number": 7}]));
        let row =
            ["12", "python3 work.py", "2 × Executor with json", "5", "2", "5", "42", "4", "3", "1", "3.0"];
        assert_eq!(cells(&pool), row);
        let table = describe(&[pool], 120);
        assert!(table.starts_with("pid  program"), "{table}");
        assert_eq!(describe(&[], 120), "");
        assert_eq!(program("/bin/sh -c a\nb\x1b[m"), "sh -c a b [m");
        assert_eq!(program("/usr/bin/python3 /srv/work.py /data"), "python3 work.py /data");
    }

    #[test]
    fn what_another_version_has_written_is_left_out() {
        for json in ["", "[]", "{}", r#"{"users":{}}"#] {
            let listed = listing::Listed { pid: 1, command: String::new(), json: json.to_owned() };
            assert_eq!(pool(&listed), None, "{json}");
        }
    }
}
