//! The class of a program's arguments: what the program is asked to do, less the names of what it does it to.
//!
//! A shell creates all its children from one place in its code, and `git status` is no `git gc`. Two calls are of one class when they have the
//! same number of words (up to a factor of two), the same first options, and a first word that is no option and begins with the same letters.
//!
//! ```text
//!   gcc -O2 -c -o a.o a.c       words: 4 to 7   options: -O2 -c -o      first: a
//!   git commit -m "a message"   words: 2 to 3   options: -m             first: commit
//! ```
//!
//! docs/decisions/050 says what was tried, and what tells calls apart.

use super::hash::{SEED, fnv1a_after};

/// Options that count, from the first.
const OPTIONS: usize = 4;
/// Bytes of an option, and letters of a word, that count.
const BYTES: usize = 8;

/// The class of a program's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arguments {
    /// How many binary digits the number of words has, the program's own name left out; at most 32.
    pub magnitude: u8,
    /// A hash of that, of the options and of the first word; never 0.
    pub class: u32,
}

impl Arguments {
    /// The class of these arguments; the first is the program's own name. Nothing is allocated.
    pub fn of<'a>(argv: impl IntoIterator<Item = &'a [u8]>) -> Arguments {
        let mut words = 0_u32;
        let mut options = 0;
        let mut first = None;
        let mut hash = SEED;
        for word in argv.into_iter().skip(1) {
            words = words.saturating_add(1);
            if word.first() == Some(&b'-') {
                options += 1;
                if options <= OPTIONS {
                    hash = with(hash, start_of_option(word));
                }
            } else if first.is_none() {
                first = Some(start_of(word, |byte| byte.is_ascii_alphabetic() || byte == b'_'));
            }
        }
        let magnitude = u8::try_from(u32::BITS - words.leading_zeros()).unwrap_or(u8::MAX);
        hash = with(with(hash, &[magnitude]), first.unwrap_or_default());
        let class = ((hash >> 32) ^ hash) as u32;
        Arguments { magnitude, class: class.max(1) }
    }
}

/// A hash with bytes more, and with how many they are.
fn with(hash: u64, bytes: &[u8]) -> u64 {
    fnv1a_after(fnv1a_after(hash, bytes), &[bytes.len() as u8])
}

/// The first bytes of an option; of a value behind `=` the letters alone: `--type=gpu` is no `--type=renderer`, and `--size=7` is `--size=8`.
fn start_of_option(word: &[u8]) -> &[u8] {
    let start = start_of(word, |_| true);
    let Some(at) = start.iter().position(|&byte| byte == b'=') else { return start };
    let (name, value) = start.split_at(at + 1);
    &start[..name.len() + value.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()]
}

/// The first bytes of a word while they are such, at most [`BYTES`].
fn start_of(word: &[u8], is_such: impl Fn(u8) -> bool) -> &[u8] {
    let length = word.iter().take(BYTES).take_while(|&&byte| is_such(byte)).count();
    &word[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(line: &str) -> Arguments {
        Arguments::of(line.split(' ').map(str::as_bytes))
    }

    #[test]
    fn calls_that_differ_in_names_and_values_are_of_one_class() {
        assert_eq!(class("cc -O2 -c -o a.o a.c"), class("/usr/bin/cc -O2 -c -o a1.o a12.c"));
        assert_eq!(class("ld --hash-style=gnu x"), class("ld --hash-style=sysv x"));
        assert_eq!(class("dd bs=1 --a=12 x"), class("dd bs=1 --a=7 x"));
        assert_eq!(class("mv objs/adler32.o adler32.lo"), class("mv objs/crc32.o crc32.lo"));
        assert_eq!(class("cp 1 2"), class("cp 3 44"));
    }

    #[test]
    fn calls_that_ask_for_something_else_are_not() {
        assert_ne!(class("git status"), class("git gc"));
        assert_ne!(class("git gc"), class("git gc --aggressive"));
        assert_ne!(class("cc -O2 -c a.c"), class("cc -O0 -c a.c"));
        assert_ne!(class("browser --type=gpu x"), class("browser --type=renderer x"));
        assert_ne!(class("rm a b"), class("rm a b c d"), "another magnitude");
        assert_eq!(class("rm a b c d").magnitude, 3);
        assert_ne!(class("a -x y"), class("a y"), "with an option");
    }

    #[test]
    fn no_arguments_are_a_class_too() {
        assert_eq!(class("true"), Arguments::of([]));
        assert_eq!(class("true").magnitude, 0);
        assert_ne!(class("true"), class("true x"));
    }
}
