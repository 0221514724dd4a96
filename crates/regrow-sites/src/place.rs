//! Numbers for places at which processes are asked for, where no stack has to be read: a line of a source file, a script of a server, a
//! function that a caller names. Equal places have equal numbers, on every machine and in every version of this crate.
//!
//! They are the cues by which a pool learns what comes after what; a [`Site`](crate::site::Site) says more and costs more.

use crate::Arguments;
use crate::hash::Hash64;

/// What a number is of: equal texts of two kinds are two places.
const SOURCE: u64 = 0x20;
const NAMED: u64 = 0x21;
const CALL: u64 = 0x22;

/// A line of a source file that calls Regrow.
#[must_use]
pub fn of_source(file: &str, line: u32, column: u32) -> u64 {
    let mut hash = Hash64::new(SOURCE);
    hash.add_bytes(file.as_bytes());
    hash.add(u64::from(line) << 32 | u64::from(column));
    hash.whole()
}

/// A place that has a name, below something that tells its names apart: the function of a module, the path below a script.
#[must_use]
pub fn named(within: &[u8], name: &[u8]) -> u64 {
    let mut hash = Hash64::new(NAMED);
    hash.add_bytes(within);
    hash.add_bytes(name);
    hash.whole()
}

/// A call of a program, where nobody knows who makes it: the program and the class of its arguments. Of a script's lines it tells those
/// apart that ask for different things.
#[must_use]
pub fn of_call<'a>(program: &[u8], argv: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = Hash64::new(CALL);
    hash.add_bytes(program);
    hash.add(u64::from(Arguments::of(argv).class));
    hash.whole()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_number_of_its_own() {
        assert_eq!(of_source("a.rs", 1, 2), of_source("a.rs", 1, 2));
        let others =
            [of_source("b.rs", 1, 2), of_source("a.rs", 2, 1), of_source("a.rs", 1, 3), named(b"a.rs", b"")];
        assert!(others.iter().all(|&other| other != of_source("a.rs", 1, 2)));
        assert_ne!(named(b"ab", b"c"), named(b"a", b"bc"));
        let call = |line: &str| of_call(b"/bin/git", line.split(' ').map(str::as_bytes));
        assert_eq!(call("git add a1.c"), call("git add a2.c"));
        assert_ne!(call("git add a1.c"), call("git commit a1.c"));
    }
}
