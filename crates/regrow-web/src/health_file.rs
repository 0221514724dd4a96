//! The lock file of a function: it exists while the gateway accepts requests, and `/_/health` looks for it.

use std::path::PathBuf;

use crate::error::WebError;
use crate::settings::FunctionSettings;

/// The lock file. The gateway removes it when this is dropped.
pub(crate) struct HealthFile(Option<PathBuf>);

impl HealthFile {
    /// Makes the lock file, unless the gateway serves no function or somebody else makes it.
    pub(crate) fn new(function: Option<&FunctionSettings>) -> Result<Self, WebError> {
        let path = function.filter(|function| !function.suppress_lock).map(|function| function.lock.clone());
        if let Some(path) = &path {
            std::fs::write(path, []).map_err(|source| WebError::Path {
                path: path.clone(),
                what: "the function's lock file cannot be written (set the variable suppress_lock to do without)",
                source,
            })?;
        }
        Ok(Self(path))
    }
}

impl Drop for HealthFile {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        self.0.as_ref().map(std::fs::remove_file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_exists_as_long_as_its_owner_unless_somebody_else_makes_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = folder.path().join(".lock");
        let mut function = FunctionSettings {
            command: Vec::new(),
            content_type: None,
            combine_output: true,
            lock: lock.clone(),
            suppress_lock: false,
        };
        let file = HealthFile::new(Some(&function)).expect("a file");
        assert!(lock.exists());
        drop(file);
        assert!(!lock.exists());
        function.suppress_lock = true;
        let _file = HealthFile::new(Some(&function)).expect("no file");
        assert!(!lock.exists());
        (function.suppress_lock, function.lock) = (false, folder.path().join("none").join(".lock"));
        assert!(matches!(HealthFile::new(Some(&function)), Err(WebError::Path { .. })));
    }
}
