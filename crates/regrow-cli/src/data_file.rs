//! Files that this command puts into the user's folder of data: libraries, which programs have mapped.
//!
//! Such a file is never written to: another version takes its name.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a file is not in its place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataFileError {
    /// The environment does not name the user's folder.
    #[error("neither XDG_DATA_HOME nor HOME names a folder for the library")]
    NoHome,
    /// The system refuses.
    #[error("{}: {what}", path.display())]
    System {
        /// What it speaks of.
        path: PathBuf,
        /// What the command tried.
        what: &'static str,
        /// What it says.
        source: io::Error,
    },
}

/// The user's folder for what this command makes.
pub(crate) fn folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")))?;
    Some(data.join("regrow"))
}

/// Puts a file of this name there, if it is not there; its path.
pub(crate) fn put(name: &str, content: &[u8]) -> Result<PathBuf, DataFileError> {
    let path = folder().ok_or(DataFileError::NoHome)?.join(name);
    put_at(&path, content).map(|()| path)
}

fn put_at(path: &Path, content: &[u8]) -> Result<(), DataFileError> {
    let failed = |what| move |source| DataFileError::System { path: path.to_owned(), what, source };
    if std::fs::read(path).is_ok_and(|found| found == content) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(failed("its folder cannot be made"))?;
    let mut beside = tempfile::NamedTempFile::new_in(folder).map_err(failed("it cannot be written"))?;
    beside.write_all(content).map_err(failed("it cannot be written"))?;
    beside.into_temp_path().persist(path).map_err(|error| failed("it cannot be written")(error.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_put_in_the_place_of_another_and_not_written_again() {
        use std::os::unix::fs::MetadataExt;
        const LIBRARY: &[u8] = b"a library";
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("regrow/builtins.so");
        put_at(&path, LIBRARY).expect("it is written");
        let first = path.metadata().expect("it is there").ino();
        put_at(&path, LIBRARY).expect("it is there");
        assert_eq!(path.metadata().expect("it is there").ino(), first);
        std::fs::write(&path, b"another version").expect("it is ours");
        let mapped = std::fs::File::open(&path).expect("it is there");
        put_at(&path, LIBRARY).expect("it is written");
        assert_eq!(std::fs::read(&path).expect("it is there"), LIBRARY);
        assert_eq!(mapped.metadata().expect("it is open").len(), 15, "what a shell has mapped is left alone");
    }

    #[test]
    fn a_place_that_cannot_be_had_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), "text").expect("it is written");
        let error = put_at(&folder.path().join("file/library.so"), b"a").expect_err("it is no folder");
        assert!(error.to_string().contains("file/library.so: its folder cannot be made"), "{error}");
    }
}
