//! The folder of launchers for one `PATH`: made once, brought up to date when what it was made from has changed.
//!
//! The stamp says what the launchers were made from: this command, `PATH`, the state of each of its folders, what has been learned, and the state of the
//! launchers' folder itself. As long as the stamp is the same, nothing is looked at but these.
//!
//! Invariants: a folder that holds anything but launchers is not used. Two commands that bring one folder up to date at once do the same.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use regrow_sys::search;

use super::choice::{Choice, choose};
use super::compilers;
use super::learned::Learned;
use super::place::{EnvError, EnvFolder, EnvPlace};
use super::programs::candidates;
use crate::link;
use crate::own_file::OwnFile;

/// The version of the stamp.
const STAMP_HEAD: &[u8] = b"regrow-env 1\n";
/// Folders for so many values of `PATH` are kept.
const MAX_FOLDERS: usize = 32;

/// Brings the folder up to date, if it is not.
pub(crate) fn prepare(place: &EnvPlace, path: &OsStr, all: bool) -> Result<EnvFolder, EnvError> {
    let folder = place.for_path(path, all);
    let found = std::fs::read(folder.stamp());
    if found.is_ok_and(|found| found == stamp(place, &folder, path)) {
        folder.check()?;
        return Ok(folder);
    }
    let is_new = !folder.launchers().exists();
    place.make()?;
    folder.make()?;
    folder.check()?;
    if is_new {
        forget_oldest(place)?;
    }
    refresh(place, &folder, path, all)?;
    let text = stamp(place, &folder, path);
    write(&folder.stamp(), &text).map_err(EnvError::system(&folder.stamp(), "cannot be written"))?;
    Ok(folder)
}

/// Which way each program of the table goes.
pub(crate) fn choices(path: &OsStr, learned: &Learned) -> Vec<Choice> {
    let own = OwnFile::read();
    candidates().map(|candidate| choose(candidate, path, own, learned)).collect()
}

/// Makes the launchers that are missing, and removes those that are to be there no more.
fn refresh(place: &EnvPlace, folder: &EnvFolder, path: &OsStr, all: bool) -> Result<(), EnvError> {
    let learned = if all { Learned::default() } else { Learned::read(&place.learned()) };
    let choices = choices(path, &learned);
    let wanted = |name: &OsStr| choices.iter().any(|choice| choice.alone.is_none() && name == choice.name);
    let launchers = folder.launchers();
    let surplus: Vec<OsString> =
        link::launchers_in(&launchers)?.into_iter().filter(|name| !wanted(name)).collect();
    for name in &surplus {
        link::remove_launcher(&launchers.join(name))?;
    }
    let names = choices.iter().filter(|choice| choice.alone.is_none()).map(|choice| OsStr::new(choice.name));
    link::make_launchers(&launchers, names, &folder.client())?;
    compilers::refresh(folder, path, &learned)
}

/// What the launchers are made from, as bytes that are compared and never read.
fn stamp(place: &EnvPlace, folder: &EnvFolder, path: &OsStr) -> Vec<u8> {
    let mut stamp = STAMP_HEAD.to_vec();
    stamp.extend_from_slice(env!("CARGO_PKG_VERSION").as_bytes());
    let mut state = |file: &Path| {
        let line = match file.metadata() {
            Ok(file) => {
                let (dev, ino, mtime, part) = (file.dev(), file.ino(), file.mtime(), file.mtime_nsec());
                format!("\n{dev} {ino} {mtime}.{part:09} {}", file.ctime_nsec())
            }
            Err(_) => "\nnone".to_owned(),
        };
        stamp.extend_from_slice(line.as_bytes());
    };
    state(Path::new("/proc/self/exe"));
    state(&place.learned());
    state(&folder.launchers());
    for element in search::elements(path.as_bytes()).filter(|element| element.starts_with(b"/")) {
        state(Path::new(OsStr::from_bytes(element)));
    }
    stamp.push(b'\n');
    stamp.extend_from_slice(path.as_bytes());
    stamp
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    file.write_all(content)?;
    file.persist(path).map(|_| ()).map_err(|error| error.error)
}

/// Removes the folders that were made first, as long as there are too many. A command that still has one in its `PATH` finds
/// the programs themselves.
fn forget_oldest(place: &EnvPlace) -> Result<(), EnvError> {
    let entries = place.base().read_dir().map_err(EnvError::system(place.base(), "cannot be read"))?;
    let folders = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let made = path.join("stamp").metadata().ok()?.modified().ok()?;
        Some((made, path))
    });
    let mut folders: Vec<_> = folders.collect();
    folders.sort();
    let surplus = folders.len().saturating_sub(MAX_FOLDERS - 1);
    for (_, path) in folders.drain(..surplus) {
        std::fs::remove_dir_all(&path).map_err(EnvError::system(&path, "cannot be removed"))?;
    }
    Ok(())
}
