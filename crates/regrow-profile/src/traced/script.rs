//! Which script an interpreter was started with.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use regrow_sites::Script;

use crate::text::file_name;

/// What the names of interpreters begin with, and the options of each with which the program stands in the arguments or is a module.
const INTERPRETERS: [(&str, &[u8]); 11] = [
    ("sh", b"cs"),
    ("bash", b"cs"),
    ("dash", b"cs"),
    ("zsh", b"cs"),
    ("ksh", b"cs"),
    ("busybox", b"c"),
    ("python", b"cm"),
    ("perl", b"eE"),
    ("ruby", b"e"),
    ("node", b"ep"),
    ("lua", b"e"),
];

/// The script of a process that runs a program, and the script's path. The line is not known.
pub(super) fn of(pid: i32, program: &str) -> Option<(Script, String)> {
    let name = file_name(program);
    let is_version = |rest: &str| rest.chars().all(|each| each.is_ascii_digit() || each == '.');
    let (_, without) =
        INTERPRETERS.iter().find(|(known, _)| name.strip_prefix(known).is_some_and(is_version))?;
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let script = script_in(&arguments, without)?;
    let folder = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    let path = folder.join(Path::new(OsStr::from_bytes(script)));
    let name = path.to_string_lossy().into_owned();
    Some((Script { file: fnv1a(path.as_os_str().as_bytes()), line: 0 }, name))
}

/// The first argument that is no option; none behind an option with which there is no script.
fn script_in<'a>(arguments: &'a [u8], without: &[u8]) -> Option<&'a [u8]> {
    let mut words = arguments.split(|&byte| byte == 0).skip(1);
    loop {
        match words.next().filter(|word| !word.is_empty())? {
            b"--" => return words.next().filter(|word| !word.is_empty()),
            [b'-' | b'+', letters @ ..] if !letters.is_empty() => {
                let is_long = letters.first() == Some(&b'-');
                if !is_long && letters.iter().any(|letter| without.contains(letter)) {
                    return None;
                }
            }
            b"-" => return None,
            word => return Some(word),
        }
    }
}

/// 64-bit FNV-1a.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_the_first_argument_that_is_no_option() {
        let script = |words: &[&str]| {
            let without = INTERPRETERS
                .iter()
                .find(|(name, _)| words.first() == Some(name))
                .map_or(&b""[..], |(_, letters)| letters);
            let line = words.iter().flat_map(|word| word.bytes().chain([0])).collect::<Vec<u8>>();
            script_in(&line, without).map(|script| String::from_utf8(script.to_vec()).unwrap())
        };
        assert_eq!(script(&["sh", "build.sh", "-c"]).as_deref(), Some("build.sh"));
        assert_eq!(script(&["sh", "-ex", "/tmp/a b.sh"]).as_deref(), Some("/tmp/a b.sh"));
        assert_eq!(script(&["bash", "--norc", "-x", "x.sh"]).as_deref(), Some("x.sh"));
        assert_eq!(script(&["perl", "-w", "--", "-odd.pl"]).as_deref(), Some("-odd.pl"));
        for without in [
            &["sh", "-c", "make"][..],
            &["python", "-m", "pytest"],
            &["perl", "-ne", "print"],
            &["sh"],
            &["sh", "-"],
            &[],
        ] {
            assert_eq!(script(without), None, "{without:?}");
        }
    }

    #[test]
    fn names_are_hashed_as_others_hash_them() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
