//! Runs a pipeline of three programs, twice, and says how each process was made.

use std::io;

use regrow::{Child, Command, Stdio};

fn main() -> io::Result<()> {
    for _ in 0..2 {
        let mut children: Vec<Child> = Vec::new();
        let mut input = Stdio::null();
        for command in ["ls /usr/bin", "grep ^g", "wc -l"] {
            let mut words = command.split(' ');
            let program = words.next().unwrap_or_default();
            let is_last = program == "wc";
            let output = if is_last { Stdio::inherit() } else { Stdio::piped() };
            let mut child = Command::new(program).args(words).stdin(input).stdout(output).spawn()?;
            input = child.stdout.take().map_or_else(Stdio::null, Stdio::from);
            println!("{program}: {}", child.creation());
            children.push(child);
        }
        drop(input);
        for child in &mut children {
            child.wait()?;
        }
    }
    Ok(())
}
