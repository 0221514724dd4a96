//! What was named in this collection: images and paths, each by its hash, so that its text is sent once.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words that are looked at for one hash.
const PROBES: usize = 16;
/// Bits of a word that say what interprets scripts in the image.
const KIND: u64 = 7;

/// What an image is, if it is an interpreter that is asked for the place in its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpreter {
    /// None that is known.
    None,
    /// GNU bash.
    Bash,
    /// Another shell.
    Shell,
    /// GNU make.
    Make,
    /// Python.
    Python,
    /// Perl.
    Perl,
}

impl Interpreter {
    const ALL: [Interpreter; 6] = [Self::None, Self::Bash, Self::Shell, Self::Make, Self::Python, Self::Perl];

    /// By the last part of an executable's path.
    #[must_use]
    pub fn of_name(name: &[u8]) -> Interpreter {
        let begins = |with: &[u8]| name.starts_with(with);
        match name {
            b"bash" | b"rbash" => Self::Bash,
            b"sh" | b"dash" | b"ash" | b"busybox" | b"zsh" | b"ksh" | b"mksh" => Self::Shell,
            b"make" | b"gmake" => Self::Make,
            _ if begins(b"python") || begins(b"pypy") => Self::Python,
            _ if begins(b"perl") => Self::Perl,
            _ => Self::None,
        }
    }
}

/// Whether a hash was met before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// The caller is the first, and names it.
    First,
    /// It was named.
    Before(Interpreter),
    /// There is no room to note it.
    Full,
}

/// The table; see the module.
#[derive(Clone, Copy)]
pub struct Known<'a>(&'a [AtomicU64]);

impl<'a> Known<'a> {
    pub(super) fn new(words: &'a [AtomicU64]) -> Known<'a> {
        Known(words)
    }

    /// Looks a hash up.
    #[must_use]
    pub fn find(self, hash: u64) -> Option<Interpreter> {
        for word in self.probes(hash) {
            match word.load(Relaxed) {
                0 => return None,
                has if has & !KIND == wanted(hash) => return Some(kind(has)),
                _ => {}
            }
        }
        None
    }

    /// Notes a hash.
    #[must_use]
    pub fn meet(self, hash: u64, interpreter: Interpreter) -> Met {
        let is = Interpreter::ALL.iter().position(|&other| other == interpreter).unwrap_or(0) as u64;
        for word in self.probes(hash) {
            match word.compare_exchange(0, wanted(hash) | is, Relaxed, Relaxed) {
                Ok(_) => return Met::First,
                Err(has) if has & !KIND == wanted(hash) => return Met::Before(kind(has)),
                Err(_) => {}
            }
        }
        Met::Full
    }

    fn probes(self, hash: u64) -> impl Iterator<Item = &'a AtomicU64> {
        let from = (hash >> 20) as usize;
        (0..PROBES).map(move |probe| &self.0[(from + probe) % self.0.len()])
    }
}

/// A hash as it stands in a word: never 0.
fn wanted(hash: u64) -> u64 {
    (hash & !KIND).max(KIND + 1)
}

fn kind(word: u64) -> Interpreter {
    Interpreter::ALL.get((word & KIND) as usize).copied().unwrap_or(Interpreter::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_met_once_and_a_full_table_says_so() {
        let words = [const { AtomicU64::new(0) }; 16];
        let known = Known::new(&words);
        assert_eq!(known.find(0), None);
        assert_eq!(known.meet(0, Interpreter::Perl), Met::First);
        assert_eq!(known.find(0), Some(Interpreter::Perl));
        for hash in 1..16u64 {
            assert_eq!(known.meet(hash << 8, Interpreter::None), Met::First);
            assert_eq!(
                known.meet(hash << 8, Interpreter::Bash),
                Met::Before(Interpreter::None),
                "as it was named"
            );
        }
        assert_eq!(known.meet(99 << 8, Interpreter::None), Met::Full);
        assert_eq!(known.find(99 << 8), None);
    }

    #[test]
    fn interpreters_are_known_by_their_names() {
        for (name, is) in [
            ("bash", Interpreter::Bash),
            ("dash", Interpreter::Shell),
            ("python3.11", Interpreter::Python),
            ("perl5.36.0", Interpreter::Perl),
            ("make", Interpreter::Make),
            ("makeinfo", Interpreter::None),
            ("", Interpreter::None),
        ] {
            assert_eq!(Interpreter::of_name(name.as_bytes()), is, "{name}");
        }
    }
}
