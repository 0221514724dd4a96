//! The file of this command, and the mark by which the command knows its copies and its other versions.

#![allow(unsafe_code, reason = "the section in which the mark stands is named")]

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use regrow_abi::client::{LauncherMark, MARK_SEARCHED};

/// The name of this command. Under every other name it is a launcher.
pub(crate) const OWN_NAME: &str = "regrow";

/// An ELF note that every copy and every version of this command has, and every launcher.
#[used]
#[unsafe(link_section = ".note.regrow")]
static MARK: LauncherMark = LauncherMark::MARK;

/// Whether the mark stands at the start of a file.
pub(crate) fn is_marked(content: &[u8]) -> bool {
    let mark = MARK.bytes();
    content.windows(mark.len()).take(MARK_SEARCHED).any(|window| window == mark)
}

/// This very command, as the file system knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnFile(Option<(u64, u64)>);

impl OwnFile {
    pub(crate) fn read() -> Self {
        Self(std::fs::metadata("/proc/self/exe").ok().map(|own| (own.dev(), own.ino())))
    }

    /// Whether this process runs that file.
    pub(crate) fn is(self, file: &Metadata) -> bool {
        self.0 == Some((file.dev(), file.ino()))
    }

    /// Whether a file is this command, a copy or another version of it. A file that cannot be read counts as none.
    pub(crate) fn is_regrow(self, path: &Path, file: &Metadata) -> bool {
        self.is(file) || (file.is_file() && has_mark(path).unwrap_or(false))
    }
}

fn has_mark(path: &Path) -> io::Result<bool> {
    let mut head = [0; MARK_SEARCHED];
    let mut file = File::open(path)?;
    let mut length = 0;
    while let Some(rest) = head.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            bytes => length += bytes,
        }
    }
    Ok(head.get(..length).is_some_and(is_marked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_command_is_known_by_its_mark_and_no_other_file_is() {
        let own = std::env::current_exe().unwrap();
        assert!(has_mark(&own).unwrap(), "the tests are linked as the command is");
        assert!(!has_mark(Path::new("/bin/true")).unwrap());
        assert!(!has_mark(Path::new("/dev/null")).unwrap());
        let mut head = std::fs::read(&own).unwrap();
        head.truncate(64);
        assert!(!is_marked(&head));
    }
}
