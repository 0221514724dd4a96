//! The folder of the list, which is the user's alone: how a file gets there, and how all of them are read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use regrow_sys::own_folder::{self, OwnFolderError};

use super::owner::{Life, Owner};

/// The folder, in the user's runtime folder.
const FOLDER: &str = "regrow-pools";
/// What a file that is being written begins with.
const UNFINISHED: char = '.';
/// After this time nobody is writing any more.
const WRITING_TIME: Duration = Duration::from_secs(60);
/// How many files are looked at, and how long one may be.
const MOST_FILES: usize = 4096;
const MOST_BYTES: u64 = 1 << 20;

/// Why the list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    /// The folder is not fit.
    #[error(transparent)]
    Folder(#[from] OwnFolderError),
    /// There is no `/proc`, by which others would know whether this process is there.
    #[error("there is no /proc")]
    NoProc,
    /// A file cannot be written, or the folder not be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file, or the folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl ListingError {
    fn of(path: &Path) -> impl FnOnce(io::Error) -> ListingError {
        let path = path.to_owned();
        move |source| ListingError::File { path, source }
    }
}

/// A pool of a process that lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The process.
    pub pid: u32,
    /// Its command line, with blanks between the words.
    pub command: String,
    /// What the pool is like, as JSON.
    pub json: String,
}

/// The pools of this user's processes, in the order of their processes. Files of processes that have ended are removed.
///
/// # Errors
/// [`ListingError`]: the folder is not this user's alone, or cannot be read. Where there is none there are no pools.
pub fn read_all() -> Result<Vec<Listed>, ListingError> {
    let folder = match own_folder::runtime(own_folder::named_runtime().as_deref()) {
        Ok(runtime) => runtime.join(FOLDER),
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    read_folder(&folder)
}

fn read_folder(folder: &Path) -> Result<Vec<Listed>, ListingError> {
    match own_folder::check(folder, rustix::process::geteuid().as_raw()) {
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        checked => checked?,
    }
    let entries = fs::read_dir(folder).map_err(ListingError::of(folder))?;
    let mut paths: Vec<PathBuf> = entries.flatten().take(MOST_FILES).map(|entry| entry.path()).collect();
    paths.sort();
    let mut pools: Vec<Listed> = paths.iter().filter_map(|path| read(path)).collect();
    pools.sort_by_key(|pool| pool.pid);
    Ok(pools)
}

/// Reads a file; `None` where it is no pool's, and it is removed if its process is over.
fn read(path: &Path) -> Option<Listed> {
    if path.file_name()?.to_str()?.starts_with(UNFINISHED) {
        let age = SystemTime::now().duration_since(fs::symlink_metadata(path).ok()?.modified().ok()?);
        if age.is_ok_and(|age| age > WRITING_TIME) {
            let _ = fs::remove_file(path);
        }
        return None;
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let (first, json) = text.split_once('\n')?;
    let owner = Owner::parse(first)?;
    match owner.lives() {
        Life::Here => {
            Some(Listed { pid: owner.pid, command: command_of(owner.pid), json: json.trim_end().to_owned() })
        }
        Life::Elsewhere => None,
        Life::Over => {
            // Whoever reads beside this process may have been first.
            let _ = fs::remove_file(path);
            None
        }
    }
}

fn command_of(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    words.join(" ").trim_end().to_owned()
}

/// The folder of the list in the runtime folder of this name, if it has one. It is made if it is missing.
pub(super) fn make_folder(named: Option<&Path>) -> Result<PathBuf, ListingError> {
    let folder = own_folder::runtime(named)?.join(FOLDER);
    own_folder::make(&folder)?;
    Ok(folder)
}

/// Writes the file of a process's pool, in the place of the one before. Where it is the first, what others have left is removed.
pub(super) fn write(
    folder: &Path,
    owner: &Owner,
    number: u64,
    json: &str,
    is_first: bool,
) -> Result<PathBuf, ListingError> {
    if is_first {
        // It also makes sure that the folder is this user's.
        read_folder(folder)?;
    }
    let name = format!("{}-{number}", owner.pid);
    let unfinished = folder.join(format!("{UNFINISHED}{name}"));
    let text = format!("{owner}\n{json}\n");
    let written = fill(&unfinished, &text).map_err(ListingError::of(&unfinished));
    let path = folder.join(name);
    let written = written.and_then(|()| fs::rename(&unfinished, &path).map_err(ListingError::of(&path)));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written.map(|()| path)
}

fn fill(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file: File = options.open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn this() -> Owner {
        Owner::this().expect("there is /proc")
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    #[test]
    fn what_is_written_is_read_and_what_a_killed_process_has_left_is_removed() {
        let folder = folder();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("there is sleep");
        while command_of(child.id()) != "sleep 60" {
            // It is about to be executed.
            std::thread::yield_now();
        }
        let first = {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it is there");
            let start = stat
                .rsplit_once(')')
                .expect("a name")
                .1
                .split_whitespace()
                .nth(19)
                .expect("a start")
                .to_owned();
            let namespace = fs::read_link("/proc/self/ns/pid").expect("it has one");
            format!("regrow-pool 1 {} {start} {}", child.id(), namespace.display())
        };
        let theirs = Owner::parse(&first).expect("it is one");
        let path = write(folder.path(), &theirs, 7, "{\"a\":1}", true).expect("it can be written");
        let ours = write(folder.path(), &this(), 8, "{}", true).expect("it can be written");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        let pools = read_folder(folder.path()).expect("it can be read");
        assert_eq!(pools.len(), 2);
        let read = pools.iter().find(|pool| pool.pid == child.id()).expect("it is listed");
        assert_eq!((read.command.as_str(), read.json.as_str()), ("sleep 60", "{\"a\":1}"));
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        let pools = read_folder(folder.path()).expect("it can be read");
        assert_eq!(pools.iter().map(|pool| pool.pid).collect::<Vec<_>>(), [std::process::id()]);
        assert!(!path.exists() && ours.exists());
    }

    #[test]
    fn whoever_lists_a_pool_removes_what_was_left_and_touches_nothing_of_other_namespaces() {
        let folder = folder();
        let over = folder.path().join("1-1");
        let namespace = fs::read_link("/proc/self/ns/pid").expect("it has one");
        fs::write(&over, format!("regrow-pool 1 1 18446744073709551615 {}\n{{}}\n", namespace.display()))
            .expect("ours");
        let elsewhere = folder.path().join("1-2");
        fs::write(&elsewhere, "regrow-pool 1 1 2 pid:[1]\n{}\n").expect("ours");
        let strange = folder.path().join("notes");
        fs::write(&strange, "what is this?\n").expect("ours");
        write(folder.path(), &this(), 3, "{}", true).expect("it can be written");
        assert!(!over.exists() && elsewhere.exists() && strange.exists());
        assert_eq!(read_folder(folder.path()).expect("it can be read").len(), 1);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = folder();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        assert!(matches!(read_folder(folder.path()), Err(ListingError::Folder(_))));
        assert!(write(folder.path(), &this(), 1, "{}", true).is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("it is ours").count(), 0);
    }

    #[test]
    fn where_there_is_no_folder_there_are_no_pools() {
        assert_eq!(read_folder(&folder().path().join("none")).expect("that is no error"), []);
    }
}
