//! `regrow link` and `regrow unlink`: launchers in a folder of the user's choice.
//!
//! A launcher is a name of a file with the client of one page ([`crate::client_file`]): all launchers of a folder are hard links to one file.
//! Earlier versions made symbolic links to this command, which [`crate::launcher`] still serves. The command checks all names before it
//! makes or removes the first launcher.
//!
//! Invariant: the command replaces and removes nothing but launchers.

pub(crate) mod error;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::cli::setup::{LinkArgs, UnlinkArgs};
use crate::client_file;
use crate::error::CliError;
use crate::message::complain;
use crate::own_file::{OWN_NAME, OwnFile};
use crate::program_search;

use self::error::LinkError;

fn system(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> LinkError {
    let path = path.to_owned();
    move |source| LinkError::System { path, what, source }
}

/// What stands at the path of a launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkPlace {
    Vacant,
    Launcher,
    Occupied,
}

impl LinkPlace {
    fn look(path: &Path, own: OwnFile) -> Result<LinkPlace, LinkError> {
        match path.symlink_metadata() {
            Ok(file) if file.is_symlink() && is_launcher(path, own) => Ok(LinkPlace::Launcher),
            Ok(_) if client_file::is_client(path) => Ok(LinkPlace::Launcher),
            Ok(_) => Ok(LinkPlace::Occupied),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(LinkPlace::Vacant),
            Err(error) => Err(system(path, "cannot be looked at")(error)),
        }
    }
}

/// Whether a symbolic link leads to a regrow, or led to one that is gone.
fn is_launcher(path: &Path, own: OwnFile) -> bool {
    if path.file_name().is_none_or(|name| name == OWN_NAME) {
        return false;
    }
    match path.metadata() {
        Ok(file) => own.is_regrow(path, &file),
        Err(_) => path.read_link().is_ok_and(|target| target.file_name() == Some(OsStr::new(OWN_NAME))),
    }
}

/// Makes launchers.
pub(crate) fn link(args: &LinkArgs) -> Result<u8, CliError> {
    let own = OwnFile::read();
    let command = own_path(own)?;
    let folder = folder(args.dir.as_deref())?;
    for name in &args.names {
        check(name)?;
        if name != OWN_NAME && program_search::find_behind(name).is_err() {
            return Err(CliError::NoProgram { program: name.clone() });
        }
        let path = folder.join(name);
        if LinkPlace::look(&path, own)? == LinkPlace::Occupied {
            return Err(LinkError::Occupied { path }.into());
        }
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(&folder)
        .map_err(system(&folder, "the folder cannot be made"))?;
    let content = client_file::content(&command).map_err(|_| LinkError::NotOurselves { path: command })?;
    let mut others = all_launchers(&folder, own)?;
    for name in &args.names {
        let path = folder.join(name);
        make(&path, &content, &others, own)?;
        others.push(path);
    }
    // One folder has launchers of one version.
    for path in all_launchers(&folder, own)? {
        make(&path, &content, &others, own)?;
    }
    if let Some(line) = line_to_add(&folder, std::env::var_os("PATH").as_deref()) {
        complain(&format!("{} is not at the front of PATH; add the line  {line}", folder.display()));
    }
    Ok(0)
}

/// Makes launchers in a folder that is there and has nothing but launchers: names of the file `client`, which this makes too if it is missing or of
/// another version.
pub(crate) fn make_launchers<'a>(
    folder: &Path,
    names: impl IntoIterator<Item = &'a OsStr>,
    client: &Path,
) -> Result<(), LinkError> {
    let command = own_path(OwnFile::read())?;
    let content = client_file::content(&command).map_err(|_| LinkError::NotOurselves { path: command })?;
    client_file::put(client, &content, &[]).map_err(system(client, "the launchers' file cannot be made"))?;
    names.into_iter().try_for_each(|name| {
        let path = folder.join(name);
        client_file::name_again(client, &path).map_err(system(&path, "the launcher cannot be made"))
    })
}

/// The names of the launchers in a folder that has nothing else. One that is just being made is left out.
pub(crate) fn launchers_in(folder: &Path) -> Result<Vec<OsString>, LinkError> {
    let own = OwnFile::read();
    let cannot_read = || system(folder, "the folder cannot be read");
    let mut names = Vec::new();
    for entry in folder.read_dir().map_err(cannot_read())? {
        let path = entry.map_err(cannot_read())?.path();
        if path
            .file_name()
            .is_some_and(|name| name.as_bytes().starts_with(client_file::UNFINISHED.as_bytes()))
        {
            continue;
        }
        match LinkPlace::look(&path, own)? {
            LinkPlace::Launcher => names.extend(path.file_name().map(OsStr::to_owned)),
            // Gone meanwhile.
            LinkPlace::Vacant => {}
            LinkPlace::Occupied => return Err(LinkError::Occupied { path }),
        }
    }
    Ok(names)
}

/// Removes a launcher. It may be gone already.
pub(crate) fn remove_launcher(path: &Path) -> Result<(), LinkError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(system(path, "cannot be removed")(error))
        }
        _ => Ok(()),
    }
}

/// Removes launchers.
pub(crate) fn unlink(args: &UnlinkArgs) -> Result<u8, CliError> {
    let own = OwnFile::read();
    let folder = folder(args.dir.as_deref())?;
    let launchers = if args.all {
        all_launchers(&folder, own)?
    } else {
        args.names.iter().map(|name| existing(&folder, name, own)).collect::<Result<_, _>>()?
    };
    for path in launchers {
        remove_launcher(&path)?;
    }
    Ok(0)
}

fn existing(folder: &Path, name: &OsStr, own: OwnFile) -> Result<PathBuf, LinkError> {
    check(name)?;
    let path = folder.join(name);
    match LinkPlace::look(&path, own)? {
        LinkPlace::Launcher => Ok(path),
        LinkPlace::Vacant => Err(LinkError::NotThere { path }),
        LinkPlace::Occupied => Err(LinkError::NoLauncher { path }),
    }
}

/// All launchers in a folder; a missing folder has none.
fn all_launchers(folder: &Path, own: OwnFile) -> Result<Vec<PathBuf>, LinkError> {
    let cannot_read = || system(folder, "the folder cannot be read");
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(cannot_read())?,
    };
    let mut launchers = Vec::new();
    for entry in entries {
        let path = entry.map_err(cannot_read())?.path();
        if LinkPlace::look(&path, own)? == LinkPlace::Launcher {
            launchers.push(path);
        }
    }
    Ok(launchers)
}

/// Whether a launcher can have this name.
fn check(name: &OsStr) -> Result<(), LinkError> {
    let what = match name.as_bytes() {
        b"" | b"." | b".." => "it is the name of no program",
        bytes if bytes.contains(&b'/') => "a launcher has the name of a program, not its path",
        _ => return Ok(()),
    };
    Err(LinkError::Name { name: name.to_owned(), what })
}

/// Makes a launcher, or replaces the one that is there.
fn make(path: &Path, content: &[u8], others: &[PathBuf], own: OwnFile) -> Result<(), LinkError> {
    match LinkPlace::look(path, own)? {
        LinkPlace::Launcher | LinkPlace::Vacant => {}
        LinkPlace::Occupied => return Err(LinkError::Occupied { path: path.to_owned() }),
    }
    client_file::put(path, content, others).map_err(system(path, "the launcher cannot be made"))
}

/// Where this command stands.
fn own_path(own: OwnFile) -> Result<PathBuf, LinkError> {
    let path = std::env::current_exe().map_err(system(Path::new("/proc/self/exe"), "cannot be read"))?;
    let is_own = path.metadata().is_ok_and(|file| own.is(&file));
    if is_own && path.file_name() == Some(OsStr::new(OWN_NAME)) {
        Ok(path)
    } else {
        Err(LinkError::NotOurselves { path })
    }
}

/// The folder of the launchers, as an absolute path.
fn folder(named: Option<&Path>) -> Result<PathBuf, LinkError> {
    if let Some(named) = named {
        return std::path::absolute(named).map_err(system(named, "it leads nowhere"));
    }
    crate::data_file::folder().map(|data| data.join("bin")).ok_or(LinkError::NoHome)
}

/// The line that puts the folder at the front of `PATH`, if it is not there.
fn line_to_add(folder: &Path, path: Option<&OsStr>) -> Option<String> {
    let front = path.and_then(|path| std::env::split_paths(path).next()).unwrap_or_default();
    let identity = |folder: &Path| folder.metadata().map(|folder| (folder.dev(), folder.ino())).ok();
    if front.is_absolute() && identity(&front).is_some() && identity(&front) == identity(folder) {
        return None;
    }
    Some(format!("export PATH={}:\"$PATH\"", quoted(&folder.to_string_lossy())))
}

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@%".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_launcher_has_the_name_of_a_program() {
        for name in ["git", "g++", "[", "python3.12", "-odd", "with blank", "regrow"] {
            assert!(check(OsStr::new(name)).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "bin/git", "/bin/git"] {
            let error = check(OsStr::new(name)).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{name:?}: ")), "{error}");
        }
    }

    #[test]
    fn launchers_are_links_to_a_regrow_that_have_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let own = OwnFile::read();
        let command = std::env::current_exe().unwrap();
        symlink(&command, at("git")).unwrap();
        symlink(at("git"), at("through")).unwrap();
        symlink("/nonexistent/regrow", at("dangling")).unwrap();
        symlink(&command, at("regrow")).unwrap();
        symlink("/bin/true", at("true")).unwrap();
        symlink("/nonexistent/git", at("lost")).unwrap();
        symlink(at("circle"), at("circle")).unwrap();
        fs::write(at("file"), "").unwrap();
        fs::create_dir(at("folder")).unwrap();
        let look = |name: &str| LinkPlace::look(&at(name), own).unwrap();
        for name in ["git", "through", "dangling"] {
            assert_eq!(look(name), LinkPlace::Launcher, "{name}");
        }
        for name in ["regrow", "true", "lost", "circle", "file", "folder"] {
            assert_eq!(look(name), LinkPlace::Occupied, "{name}");
        }
        assert_eq!(look("none"), LinkPlace::Vacant);
        let mut all = all_launchers(folder.path(), own).unwrap();
        all.sort();
        assert_eq!(all, [at("dangling"), at("git"), at("through")]);
        assert_eq!(all_launchers(&at("none"), own).unwrap(), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_launcher_is_made_replaced_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let own = OwnFile::read();
        let content = client_file::content(&std::env::current_exe().unwrap()).unwrap();
        symlink("/nonexistent/regrow", at("old")).unwrap();
        let of_another_version = client_file::content(Path::new("/other/regrow")).unwrap();
        client_file::put(&at("other"), &of_another_version, &[]).unwrap();
        let mut others = Vec::new();
        for name in ["new", "old", "other", "new"] {
            make(&at(name), &content, &others, own).unwrap();
            others.push(at(name));
            assert_eq!(client_file::read(&at(name)).as_deref(), Some(content.as_slice()), "{name}");
        }
        assert_eq!(at("old").symlink_metadata().unwrap().nlink(), 3, "one file has the three names");
        fs::write(at("file"), "kept").unwrap();
        let error = make(&at("file"), &content, &others, own).unwrap_err();
        assert!(matches!(&error, LinkError::Occupied { path } if *path == at("file")), "{error}");
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "kept");
        assert_eq!(folder.path().read_dir().unwrap().count(), 4, "nothing is left beside them");
    }

    #[test]
    fn the_line_is_told_when_the_folder_is_not_at_the_front() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let line = |entries: &str| line_to_add(folder.path(), Some(OsStr::new(entries)));
        assert_eq!(line(path), None);
        assert_eq!(line(&format!("{path}/:/bin")), None);
        let wanted = Some(format!("export PATH={path}:\"$PATH\""));
        assert_eq!(line(&format!("/bin:{path}")), wanted);
        assert_eq!(line(""), wanted);
        assert_eq!(line_to_add(folder.path(), None), wanted);
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_change_it() {
        assert_eq!(quoted("/home/u/.local/share/regrow/bin"), "/home/u/.local/share/regrow/bin");
        assert_eq!(quoted("/home/it's mine"), r"'/home/it'\''s mine'");
        assert_eq!(quoted("/a:b~"), "'/a:b~'");
    }
}
