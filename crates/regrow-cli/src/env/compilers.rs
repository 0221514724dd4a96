//! What gcc executes by full path: the compilers proper, which gcc looks for in `COMPILER_PATH` first.
//!
//! gcc looks below each folder of `COMPILER_PATH` in `TARGET/VERSION`, so that a gcc of another target or version finds nothing of ours. It finds
//! `as` by `PATH`, and so does `collect2` with `ld`: these have launchers as all programs have.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::choice::{Choice, by_figures, is_one_of_several};
use super::learned::Learned;
use super::place::{EnvError, EnvFolder, link_name};
use crate::link;

/// Where the gcc of a system has its compilers, `TARGET/VERSION` below.
const HOMES: [&str; 2] = ["/usr/lib/gcc", "/usr/libexec/gcc"];
/// Where such a gcc stands.
const SYSTEM: &str = "/usr/bin";
/// The compilers proper.
const NAMES: [&str; 2] = ["cc1", "cc1plus"];

/// A compiler proper, and which way it goes.
#[derive(Debug)]
pub(super) struct Compiler {
    /// `TARGET/VERSION`.
    below: PathBuf,
    pub(super) choice: Choice,
}

/// All of them. None where `PATH` has another gcc than the system's: it may be of the same target and version.
pub(super) fn compilers(path: &OsStr, learned: &Learned) -> Vec<Compiler> {
    let is_systems = |name: &str| match is_one_of_several(name, path) {
        Some((first, has_others)) => {
            !has_others && first.canonicalize().is_ok_and(|file| file.starts_with(SYSTEM))
        }
        None => true,
    };
    if !["gcc", "cc", "g++", "c++"].into_iter().all(is_systems) {
        return Vec::new();
    }
    let below = |folder: PathBuf| {
        folder.read_dir().into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
    };
    let homes = HOMES.into_iter().flat_map(|home| below(home.into()).map(move |target| (home, target)));
    let versions = homes.flat_map(|(home, target)| below(target).map(move |version| (home, version)));
    let files = versions.flat_map(|(home, version)| NAMES.map(|name| (home, version.clone(), name)));
    let found = files.filter_map(|(home, version, name)| {
        let file = version.join(name);
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let below = version.strip_prefix(home).ok()?.to_owned();
        let alone = by_figures(&metadata, learned);
        Some(Compiler { below, choice: Choice { name, file: Some(file), alone } })
    });
    found.collect()
}

/// Makes the launchers that are missing, and removes those that are to be there no more.
pub(super) fn refresh(folder: &EnvFolder, path: &OsStr, learned: &Learned) -> Result<(), EnvError> {
    let base = folder.compilers();
    match std::fs::remove_dir_all(&base) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(EnvError::system(&base, "cannot be removed")(error));
        }
        _ => folder.make_below(&base)?,
    }
    for Compiler { below, choice } in compilers(path, learned) {
        let (None, Some(file)) = (&choice.alone, &choice.file) else { continue };
        let to = base.join(below);
        folder.make_below(&to)?;
        make(&to, OsStr::new(choice.name), file, &folder.client())?;
    }
    Ok(())
}

/// First the link to the program: a launcher without one runs nothing.
fn make(folder: &Path, name: &OsStr, file: &Path, client: &Path) -> Result<(), EnvError> {
    let link = folder.join(link_name(name));
    match symlink(file, &link) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(EnvError::system(&link, "cannot be made")(error));
        }
        _ => {}
    }
    Ok(link::make_launchers(folder, [name], client)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_compilers_are_found_and_none_where_there_is_another_gcc() {
        let found = compilers(OsStr::new("/usr/bin:/bin"), &Learned::default());
        let own = found.iter().find(|compiler| compiler.choice.name == "cc1").unwrap();
        let file = own.choice.file.as_ref().unwrap();
        assert!(file.ends_with(own.below.join("cc1")), "{own:?}");
        assert_eq!(own.below.components().count(), 2);
        let other = tempfile::tempdir().unwrap();
        std::fs::copy("/bin/true", other.path().join("gcc")).unwrap();
        let path = std::env::join_paths([other.path(), Path::new("/usr/bin")]).unwrap();
        assert!(compilers(&path, &Learned::default()).is_empty());
    }
}
