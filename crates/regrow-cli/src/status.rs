//! `regrow status`, `ls` and `show`: what the daemon keeps, as a person reads it.
//!
//! ```text
//!   ask      a question to the user's daemon, the answer as JSON
//!     status the pool: counts, then a table of the images; then the pools of programs, which need no daemon
//!     ls     the names below a path of the resource tree
//!     show   the fields of a resource
//! ```

use std::fmt::Write as _;
use std::io::Write as _;

use regrow_daemon::client::{Client, ClientError};
use regrow_daemon::place::Place;
use regrow_daemon::wire::Question;
use serde_json::{Value, json};

use crate::cli::daemon::{PathArgs, StatusArgs};
use crate::error::CliError;
use crate::pools;
use crate::values::{counts, mib, plain, sum};
use regrow_bench::table::{Alignment, TextTable};

/// What is said of the daemon where there is none.
const NO_DAEMON: &str = "daemon     none; these programs have pools of their own\n";

/// Asks the daemon.
pub(crate) fn ask(question: Question) -> Result<Value, CliError> {
    let answer = match Client::connect(&Place::of_user()?)?.ask(question) {
        // It says by itself what there is not.
        Err(ClientError::Refused(why)) => return Err(CliError::Refused { why }),
        answer => answer?,
    };
    serde_json::from_str(&answer).map_err(CliError::Answer)
}

/// Prints the state of the pool.
pub(crate) fn status(args: &StatusArgs) -> Result<u8, CliError> {
    if args.why {
        return why();
    }
    let pools = pools::read();
    let mut status = match ask(Question::Status) {
        // There is something to tell without it.
        Err(CliError::Client(ClientError::NoDaemon { .. })) if !pools.is_empty() => json!({"daemon": null}),
        status => status?,
    };
    if args.json {
        status["pools"] = Value::Array(pools);
        return print(&pretty(&status));
    }
    let width = regrow_bench::table::output_width();
    let daemon = if status["daemon"].is_null() { NO_DAEMON.to_owned() } else { describe(&status, width) };
    let listed = pools::describe(&pools, width);
    let parts: Vec<String> = [daemon, listed].into_iter().filter(|part| !part.is_empty()).collect();
    print(&parts.join("\n"))
}

/// Tells why the daemon keeps each body and shell, and what its policy has learned.
fn why() -> Result<u8, CliError> {
    let status = ask(Question::Status)?;
    let mut resources = Vec::new();
    for table in ["body", "shell"] {
        let names = ask(Question::List(format!("/./{table}").into_bytes()))?;
        for name in names.as_array().into_iter().flatten().filter_map(Value::as_str) {
            // One that is gone meanwhile is left out.
            if let Ok(fields) = ask(Question::Show(format!("/./{table}/{name}").into_bytes())) {
                resources.push((format!("{table} {name}"), fields));
            }
        }
    }
    print(&reasons(&status, &resources, regrow_bench::table::output_width()))
}

/// What the daemon keeps and why, and the thresholds of its policy.
fn reasons(status: &Value, resources: &[(String, Value)], width: usize) -> String {
    let pool = &status["pool"];
    let images = status["images"].as_array();
    let program = |image: &Value| {
        let found = images.and_then(|images| images.iter().find(|known| known["number"] == *image));
        found.map_or_else(|| "-".to_owned(), program_of)
    };
    let mut table =
        TextTable::new(&[("kept", Alignment::Left), ("program", Alignment::Text), ("why", Alignment::Text)]);
    for (name, fields) in resources {
        let why = if fields["why"].is_null() { plain(&fields["state"]) } else { plain(&fields["why"]) };
        table.row([name.clone(), program(&fields["image"]), why]);
    }
    let mut text = format!(
        "policy     {}; {} of {} MiB held by what is in no use\n",
        plain(&pool["policy"]),
        mib(&pool["idle_bytes"]),
        mib(&pool["budget_bytes"]),
    );
    let mut head = "learned    ";
    for line in learned(&pool["learned"], program) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{head}{line}");
        head = "           ";
    }
    text.push('\n');
    text + &table.render(width)
}

/// What the policy has learned, in lines: one for shells where they help, one for each program that it keeps.
fn learned(learned: &Value, program: impl Fn(&Value) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    if learned["h1"].as_u64().is_some_and(|wanted| wanted > 0) {
        lines.push(format!(
            "a shell that nobody takes is kept {} s (T1); shells wanted: {} (H1), regions wanted: {} (H2)",
            plain(&learned["t1_s"]),
            learned["h1"],
            learned["h2"],
        ));
    }
    for (image, fields) in learned["t2"].as_object().into_iter().flatten() {
        let image = image.parse::<u64>().map_or(Value::Null, Value::from);
        let name = program(&image);
        // What is not kept at present has no name here.
        if name != "-" {
            lines.push(format!(
                "{name}: kept {} s unused (T2, {}), wanted: {}",
                plain(&fields["keep_s"]),
                plain(&fields["from"]),
                fields["wanted"],
            ));
        }
    }
    lines
}

/// Prints the names below a path, one in a line.
pub(crate) fn ls(args: &PathArgs) -> Result<u8, CliError> {
    let names = ask(Question::List(args.path.clone().into_bytes()))?;
    if args.json {
        return print(&pretty(&names));
    }
    let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
    print(&names.fold(String::new(), |text, name| text + name + "\n"))
}

/// Prints the fields of a resource, one in a line.
pub(crate) fn show(args: &PathArgs) -> Result<u8, CliError> {
    let fields = ask(Question::Show(args.path.clone().into_bytes()))?;
    if args.json {
        return print(&pretty(&fields));
    }
    let mut lines = Vec::new();
    flatten(&mut lines, "", &fields);
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    print(&lines.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect::<String>())
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn print(text: &str) -> Result<u8, CliError> {
    std::io::stdout().write_all(text.as_bytes()).map_err(CliError::Print)?;
    Ok(0)
}

/// Adds the name and the value of each field; those of fields are named `outer.inner`.
fn flatten(to: &mut Vec<(String, String)>, prefix: &str, value: &Value) {
    match value {
        Value::Object(fields) if fields.is_empty() => to.push((prefix.to_owned(), "none".to_owned())),
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(to, &name, value);
            }
        }
        other => to.push((prefix.to_owned(), plain(other))),
    }
}

/// The state of the pool in words and a table.
pub(crate) fn describe(status: &Value, width: usize) -> String {
    let (daemon, pool) = (&status["daemon"], &status["pool"]);
    let creations = &pool["creations"];
    let total = |counts: &Value| sum(counts);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "daemon     pid {} on {}, up {} s, {} clients, {} runs under way{}",
        daemon["pid"],
        plain(&pool["host"]),
        pool["uptime_s"],
        daemon["clients"],
        daemon["runs"],
        if daemon["stopping"] == true { ", leaving" } else { "" },
    );
    let _ = writeln!(
        text,
        "kept       {} images, {} shells, bodies: {}; {} of {} MiB",
        pool["images"],
        pool["shells"],
        counts(&pool["bodies"]),
        mib(&pool["kept_bytes"]),
        mib(&pool["budget_bytes"]),
    );
    let _ = writeln!(
        text,
        "creations  {} recycled, {} in a forked body, {} by exec",
        total(&creations["recycled"]),
        total(&creations["forked_body"]),
        creations["exec"],
    );
    let _ = writeln!(text, "by exec    {}", counts(&creations["fallbacks"]));
    let _ = writeln!(text, "given up   {}", counts(&pool["given_up"]));
    let _ = writeln!(text, "checks     {}", counts(&pool["spot_checks"]));
    let to_main = &pool["to_main_us"];
    if to_main.is_object() {
        let _ = writeln!(
            text,
            "to main    p50 {} µs, p99 {} µs, of {} runs",
            to_main["p50"], to_main["p99"], to_main["count"]
        );
    }
    text.push('\n');
    text.push_str(&images(&status["images"], width));
    text
}

/// The program of an image, and what is loaded in it.
pub(crate) fn program_of(image: &Value) -> String {
    let loaded = image["loaded"].as_str().map(|loaded| format!(" with {loaded}"));
    plain(&image["file"]) + &loaded.unwrap_or_default()
}

fn images(images: &Value, width: usize) -> String {
    let mut table = TextTable::new(&[
        ("program", Alignment::Text),
        ("argv[0]", Alignment::Left),
        ("point", Alignment::Left),
        ("bodies", Alignment::Right),
        ("runs", Alignment::Right),
        ("MiB", Alignment::Right),
        ("state", Alignment::Text),
    ]);
    for image in images.as_array().into_iter().flatten() {
        let bodies = image["bodies"].as_str().map_or(0, |bodies| bodies.split_whitespace().count());
        table.row([
            program_of(image),
            plain(&image["argv0"]),
            plain(&image["point"]),
            bodies.to_string(),
            plain(&image["runs"]),
            mib(&image["kept_bytes"]),
            plain(&image["state"]),
        ]);
    }
    table.render(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_in_words_and_a_table() {
        let status = json!({
            "daemon": {"pid": 7, "clients": 2, "runs": 1, "stopping": false},
            "pool": {
                "host": "here", "uptime_s": 3, "images": 1, "shells": 0, "bodies": {"armed": 2},
                "kept_bytes": 3 << 20, "budget_bytes": 1 << 30,
                "creations": {
                    "recycled": {"main": 40, "entry": 2}, "forked_body": {"main": 1, "entry": 0},
                    "exec": 3, "fallbacks": {"first_run": 3},
                },
                "given_up": {}, "spot_checks": {"checked": 3, "differences": 0}, "to_main_us": {"p50": 40.5, "p99": 90.1, "count": 42},
            },
            "images": [{
                "file": "/usr/bin/git", "argv0": "git", "state": "kept", "point": "main", "bodies": "4 5",
                "runs": 42, "kept_bytes": 3 << 20,
            }],
        });
        let text = describe(&status, 100);
        for part in [
            "pid 7 on here, up 3 s, 2 clients, 1 runs under way\n",
            "1 images, 0 shells, bodies: 2 armed; 3.0 of 1024.0 MiB\n",
            "42 recycled, 1 in a forked body, 3 by exec\n",
            "by exec    3 first_run\n",
            "given up   none\n",
            "checks     3 checked, 0 differences\n",
            "p50 40.5 µs, p99 90.1 µs, of 42 runs\n",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        let last = text.lines().last().expect("a row");
        let cells: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(cells, ["/usr/bin/git", "git", "main", "2", "42", "3.0", "kept"]);
    }

    #[test]
    fn images_of_a_program_are_told_apart_by_what_they_have_loaded() {
        let rows = images(
            &json!([
                {"file": "/usr/bin/python3", "argv0": "python3", "loaded": "json,re"},
                {"file": "/usr/bin/python3", "argv0": "python3", "loaded": null},
            ]),
            120,
        );
        assert!(rows.contains("/usr/bin/python3 with json,re  python3"), "{rows}");
        assert!(rows.contains("/usr/bin/python3               python3"), "{rows}");
    }

    #[test]
    fn fields_of_fields_are_named_by_both() {
        let mut lines = Vec::new();
        flatten(&mut lines, "", &json!({"a": 1, "b": {"c": "x", "d": null}, "e": {}}));
        let lines: Vec<[&str; 2]> = lines.iter().map(|(name, value)| [name.as_str(), value]).collect();
        assert_eq!(lines, [["a", "1"], ["b.c", "x"], ["b.d", "-"], ["e", "none"]]);
    }
}
