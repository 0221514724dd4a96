//! Whose a listed pool is: a process, by its number, the time at which it was started, and the pid namespace that it has the number in.

use std::fmt;
use std::path::Path;

/// What the first line of a file begins with: the form of the rest.
const FORM: &str = "regrow-pool 1";

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// In ticks since the machine was started.
    start: u64,
    namespace: String,
}

impl Owner {
    /// This process; `None` where it cannot be known by anything, because there is no `/proc`.
    pub(super) fn this() -> Option<Owner> {
        Some(Owner { pid: std::process::id(), start: start_of("self")?, namespace: namespace()? })
    }

    /// Reads the first line of a file; `None` where it is of another form.
    pub(super) fn parse(line: &str) -> Option<Owner> {
        let mut words = line.strip_prefix(FORM)?.split_whitespace();
        let (pid, start) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Owner { pid, start, namespace: words.next()?.to_owned() })
    }

    /// Whether the process is there, as far as this process can see.
    pub(super) fn lives(&self) -> Life {
        if namespace().is_none_or(|here| self.namespace != here) {
            return Life::Elsewhere;
        }
        // One that has ended and was not waited for has a start, too.
        let is_there = start_of(&self.pid.to_string()) == Some(self.start);
        if is_there { Life::Here } else { Life::Over }
    }
}

/// Where a process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Here,
    /// In a pid namespace that is not this process's.
    Elsewhere,
    Over,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FORM} {} {} {}", self.pid, self.start, self.namespace)
    }
}

/// The pid namespace of this process.
fn namespace() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/pid").ok()?.to_string_lossy().into_owned())
}

/// When a process was started; `None` when it is not there, or has ended.
fn start_of(process: &str) -> Option<u64> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process).join("stat")).ok()?;
    // The name, in parentheses, can hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_of_another_time_does_not() {
        let this = Owner::this().expect("there is /proc");
        assert_ne!(this.start, 0);
        assert_eq!(Owner::parse(&this.to_string()), Some(this.clone()));
        assert_eq!(this.lives(), Life::Here);
        assert_eq!(Owner { start: this.start + 1, ..this.clone() }.lives(), Life::Over);
        assert_eq!(Owner { namespace: "pid:[1]".to_owned(), ..this }.lives(), Life::Elsewhere);
    }

    #[test]
    fn a_process_that_was_not_waited_for_is_over() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("there is sleep");
        let start = start_of(&child.id().to_string()).expect("it is there");
        let owner = Owner { pid: child.id(), start, namespace: namespace().expect("it has one") };
        assert_eq!(owner.lives(), Life::Here);
        child.kill().expect("it is ours");
        while owner.lives() != Life::Over {
            std::thread::yield_now();
        }
        child.wait().expect("it is ours");
        assert_eq!(owner.lives(), Life::Over);
    }

    #[test]
    fn another_form_is_refused() {
        for line in
            ["", "regrow-pool 2 1 2 pid:[3]", "regrow-pool 1 1", "regrow-pool 1 1 2", "regrow-pool 1 x 2 n"]
        {
            assert_eq!(Owner::parse(line), None, "{line}");
        }
    }
}
