//! The file of a launcher: the client of one page (`client/`), with the path of this command in it.
//!
//! A folder of launchers holds one such file under many names. One that is of another version is replaced under all of them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use regrow_abi::client::{COMMAND_PATH_BYTES, SETTINGS_MAGIC};

/// The client as it was built, with no path in it.
const BUILT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/client.bin"));
/// How the name of a launcher begins that is just being made.
pub(crate) const UNFINISHED: &str = ".regrow-";
/// A file that is longer is none.
const MOST_BYTES: u64 = 16 * 1024;

/// Why there is no client for a command.
#[derive(Debug, thiserror::Error)]
#[error("a path of {bytes} bytes is too long for a launcher, which has room for {most}", most = COMMAND_PATH_BYTES - 1)]
pub(crate) struct PathTooLong {
    /// The length of the path.
    bytes: usize,
}

/// The content of a launcher's file that hands over to the command at this path.
pub(crate) fn content(command: &Path) -> Result<Vec<u8>, PathTooLong> {
    let path = command.as_os_str().as_bytes();
    let mut content = BUILT.to_vec();
    let place = settings(&content).and_then(|at| content.get_mut(at..at + COMMAND_PATH_BYTES));
    match place.and_then(|place| place.get_mut(..path.len() + 1)) {
        Some(place) if path.len() < COMMAND_PATH_BYTES => {
            let (text, end) = place.split_at_mut(path.len());
            text.copy_from_slice(path);
            end.fill(0);
            Ok(content)
        }
        _ => Err(PathTooLong { bytes: path.len() }),
    }
}

/// Where the path stands in a client's file.
fn settings(content: &[u8]) -> Option<usize> {
    let magic = SETTINGS_MAGIC;
    let at = content.windows(magic.len()).position(|window| window == magic)?;
    Some(at + magic.len())
}

/// What the file at a path holds, if that is a client of any version.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    let found = path.symlink_metadata().ok()?;
    if !found.is_file() || found.len() > MOST_BYTES {
        return None;
    }
    let mut content = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut content).ok()?;
    let is_client = crate::own_file::is_marked(&content) && settings(&content).is_some();
    is_client.then_some(content)
}

/// Puts the client to a path, in the place of a launcher that may be there: as a further name of one of these files that has the same
/// content and can have one, or else as a file of its own.
pub(crate) fn put(path: &Path, content: &[u8], others: &[PathBuf]) -> io::Result<()> {
    if is_current(path, content) && others.iter().all(|other| other == path || !is_current(other, content)) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix(UNFINISHED);
        builder
    };
    for other in others.iter().filter(|&other| other != path && is_current(other, content)) {
        if same_file(path, other) {
            return Ok(());
        }
        if let Ok(beside) = builder().make_in(folder, |beside| fs::hard_link(other, beside)) {
            return beside.into_temp_path().persist(path).map_err(|error| error.error);
        }
    }
    let mut beside = builder().tempfile_in(folder)?;
    beside.write_all(content)?;
    beside.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
    beside.into_temp_path().persist(path).map_err(|error| error.error)
}

/// Gives a client's file a further name, in the place of another version that may have it.
pub(crate) fn name_again(client: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(client, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => return result,
    }
    if same_file(client, path) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let beside = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .make_in(folder, |beside| fs::hard_link(client, beside))?;
    beside.into_temp_path().persist(path).map_err(|error| error.error)
}

fn is_current(path: &Path, content: &[u8]) -> bool {
    read(path).is_some_and(|found| found == content)
}

fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.symlink_metadata().ok().map(|file| (file.dev(), file.ino()));
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// Whether a name is a launcher's in this folder: a client, or a symbolic link to a regrow as earlier versions made them.
pub(crate) fn is_client(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name != OsStr::new("")) && read(path).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_the_path_of_its_command_and_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let one = content(Path::new("/opt/regrow")).unwrap();
        assert_eq!(one.len(), BUILT.len());
        assert_ne!(one, content(Path::new("/opt/other/regrow")).unwrap());
        put(&at("git"), &one, &[]).unwrap();
        put(&at("cat"), &one, &[at("git")]).unwrap();
        assert!(same_file(&at("git"), &at("cat")) && is_client(&at("git")));
        assert_eq!(read(&at("cat")).as_deref(), Some(one.as_slice()));
        fs::copy("/bin/true", at("true")).unwrap();
        assert!(!is_client(&at("true")) && !is_client(&at("none")) && !is_client(folder.path()));
        let long = format!("/{}", "x".repeat(COMMAND_PATH_BYTES));
        assert!(content(Path::new(&long)).is_err());
        assert_eq!(folder.path().read_dir().unwrap().count(), 3, "nothing is left beside them");
    }

    #[test]
    fn a_client_is_one_small_piece_without_relocations_or_an_interpreter() {
        use object::{Object, ObjectSegment};
        let file = object::File::parse(BUILT).unwrap();
        assert_eq!((file.segments().count(), file.kind()), (1, object::ObjectKind::Executable));
        assert!(file.dynamic_relocations().is_none_or(|mut all| all.next().is_none()));
        assert!(BUILT.len() < 16 * 1024 && file.section_by_name(".dynamic").is_none());
        assert!(file.imports().unwrap().is_empty() && file.section_by_name(".interp").is_none());
        let segment = file.segments().next().unwrap();
        assert_eq!(segment.size(), segment.file_range().1);
    }
}
