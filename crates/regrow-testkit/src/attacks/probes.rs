//! What a probe prints, beside what it must print.

/// The line between what is the same under exec and what depends on the place of the image.
const BETWEEN: &str = "\n--\n";
/// So many lines that differ are told.
const MOST_TOLD: usize = 6;

/// What a probe has printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Printed(String);

impl Printed {
    /// What a probe has printed to its end; `None` when it did not come that far.
    pub(super) fn new(text: &[u8]) -> Option<Printed> {
        let text = String::from_utf8_lossy(text).into_owned();
        (text.contains(BETWEEN) && text.ends_with('\n')).then_some(Printed(text))
    }

    fn task(&self) -> &str {
        self.0.split(BETWEEN).next().unwrap_or_default()
    }

    /// How it differs from another probe of the same image.
    pub(super) fn differs_from(&self, first: &Printed) -> Option<String> {
        differing_lines(&self.0, &first.0)
    }

    /// How its task differs from that of a process that was made by exec, beside the lines that begin with these words.
    pub(super) fn differs_from_exec(&self, exec: &Printed, known: &[&str]) -> Option<String> {
        let rest = |text: &str| {
            let lines = text.lines().filter(|line| !known.iter().any(|word| line.starts_with(word)));
            lines.collect::<Vec<_>>().join("\n")
        };
        differing_lines(&rest(self.task()), &rest(exec.task()))
    }
}

/// The lines that only one of two texts has.
fn differing_lines(have: &str, want: &str) -> Option<String> {
    if have == want {
        return None;
    }
    let only = |one: &str, other: &str, sign: char| {
        let known: std::collections::HashSet<&str> = other.lines().collect();
        let lines = one.lines().filter(|line| !known.contains(line));
        lines.take(MOST_TOLD).map(|line| format!("{sign} {line}")).collect::<Vec<_>>()
    };
    let mut lines = only(want, have, '-');
    lines.extend(only(have, want, '+'));
    if lines.is_empty() {
        lines.push("the same lines in another order".to_owned());
    }
    Some(lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_probe_prints_is_compared_line_by_line() {
        let printed = |text: &str| Printed::new(text.as_bytes());
        let first = printed("mask 22\n--\nbreak 1\n").expect("it is whole");
        let second = printed("mask 22\n--\nbreak 2\n").expect("it is whole");
        assert_eq!(first.differs_from(&first), None);
        assert_eq!(second.differs_from(&first).as_deref(), Some("- break 1; + break 2"));
        assert_eq!(second.differs_from_exec(&first, &[]), None);
        let other = printed("mask 77\n--\nbreak 1\n").expect("it is whole");
        assert_eq!(other.differs_from_exec(&first, &["break"]).as_deref(), Some("- mask 22; + mask 77"));
        assert_eq!(other.differs_from_exec(&first, &["mask"]), None);
        assert_eq!(printed("mask 22\n--\nbre"), None);
        assert_eq!(printed("mask 22\n"), None);
    }
}
