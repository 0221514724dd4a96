//! A parallel grep: a task for each file, workers for all processors, matches in the order of the files.
//!
//! `cargo run --release --example grep -- TEXT FILE…`

use std::sync::Arc;

use regrow_fiber::{JoinHandle, Runtime, channel, spawn};

/// Lines of a file that have a text.
fn matches(path: &str, text: &str) -> std::io::Result<Vec<String>> {
    let content = std::fs::read(path)?;
    let lines = content.split(|byte| *byte == b'\n').enumerate();
    let found = lines.filter_map(|(number, line)| {
        let line = String::from_utf8_lossy(line);
        line.contains(text).then(|| format!("{path}:{}:{line}", number + 1))
    });
    Ok(found.collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let text: Arc<str> = arguments.next().ok_or("usage: grep TEXT FILE…")?.into();
    let files: Vec<String> = arguments.collect();
    let count = Runtime::new().run(move || {
        // No more files are read ahead than the channel has room for.
        let (sender, receiver) = channel::<JoinHandle<std::io::Result<Vec<String>>>>(64);
        spawn(move || {
            for path in files {
                let text = text.clone();
                let task = spawn(move || {
                    matches(&path, &text).map_err(|error| std::io::Error::other(format!("{path}: {error}")))
                });
                if sender.send(task).is_err() {
                    break;
                }
            }
        });
        let mut count = 0;
        for task in receiver.iter() {
            match task.join() {
                Ok(Ok(lines)) => {
                    count += lines.len();
                    lines.iter().for_each(|line| println!("{line}"));
                }
                Ok(Err(error)) => eprintln!("{error}"),
                Err(error) => eprintln!("{error}"),
            }
        }
        count
    })?;
    std::process::exit(i32::from(count == 0))
}
