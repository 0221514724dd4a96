//! The programs that may have a launcher: those that scripts and builds start most, and that end soon.
//!
//! A launcher changes a few things that its program could ask for (`docs/guide/src/differences.md`): the parent, the process group, the
//! controlling terminal. The programs here ask for none of these. `setsid`, `nohup`, `timeout`, `kill`, `ps` and `stty` do.

/// A program that may have a launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    /// It reads `PATH` to find other programs or other files, and never to find itself.
    pub(crate) reads_path: bool,
}

/// Programs that have no business with `PATH`.
const PLAIN: &[&str] = &[
    "[",
    "ar",
    "arch",
    "as",
    "b2sum",
    "base32",
    "base64",
    "basename",
    "bc",
    "bzip2",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "cksum",
    "cmp",
    "comm",
    "cp",
    "csplit",
    "cut",
    "date",
    "dc",
    "dd",
    "df",
    "diff",
    "diff3",
    "dirname",
    "du",
    "echo",
    "env",
    "expand",
    "expr",
    "factor",
    "false",
    "file",
    "fmt",
    "fold",
    "grep",
    "gzip",
    "head",
    "hostid",
    "hostname",
    "id",
    "install",
    "join",
    "link",
    "ln",
    "ls",
    "mawk",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "nice",
    "nl",
    "nm",
    "nproc",
    "numfmt",
    "objcopy",
    "objdump",
    "od",
    "paste",
    "patch",
    "pathchk",
    "pr",
    "printenv",
    "printf",
    "ptx",
    "pwd",
    "ranlib",
    "readlink",
    "realpath",
    "rev",
    "rm",
    "rmdir",
    "sdiff",
    "sed",
    "seq",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "shuf",
    "size",
    "sort",
    "split",
    "stat",
    "strings",
    "strip",
    "sum",
    "sync",
    "tac",
    "tail",
    "tar",
    "tee",
    "test",
    "touch",
    "tr",
    "true",
    "truncate",
    "tsort",
    "uname",
    "unexpand",
    "uniq",
    "unlink",
    "wc",
    "whoami",
    "xargs",
    "xxd",
    "xz",
    "zstd",
];

/// Programs that read `PATH`, and look for others there: shells for commands, git for its own commands, awk and m4 have
/// variables whose names end so.
const READ_PATH: &[&str] =
    &["awk", "dash", "find", "gawk", "git", "ld", "ld.bfd", "m4", "perl", "readelf", "sh"];

/// All of them.
pub(crate) fn candidates() -> impl Iterator<Item = Candidate> {
    let plain = PLAIN.iter().map(|&name| Candidate { name, reads_path: false });
    plain.chain(READ_PATH.iter().map(|&name| Candidate { name, reads_path: true }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_stands_in_the_table_once_and_programs_that_ask_for_their_group_do_not() {
        let names: Vec<&str> = candidates().map(|candidate| candidate.name).collect();
        let set: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(set.len(), names.len());
        for name in ["setsid", "nohup", "timeout", "kill", "ps", "stty", "tty", "gcc", "regrow"] {
            assert!(!set.contains(name), "{name}");
        }
    }
}
