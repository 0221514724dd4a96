//! Which script a path of a URL names (RFC 3875, 3.2 and 4.1.13).
//!
//! ```text
//!  /cgi/form.pl/a%20b      below the folder /srv
//!   └─ walked ─┘ └──┘      script /srv/cgi/form.pl, SCRIPT_NAME /cgi/form.pl, PATH_INFO /a b
//! ```
//!
//! The first file on the path is the script. No path names a file outside the folder: not by `..`, not by a link, not by a byte
//! that means something else when it is decoded.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::request_error::RequestError;

/// A script, and the rest of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptTarget {
    /// The file, without symbolic links.
    pub script: PathBuf,
    /// The part of the decoded path that names the script.
    pub script_name: Vec<u8>,
    /// The rest of the decoded path.
    pub path_info: Vec<u8>,
}

/// Why a path names no script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The path cannot be decoded, or has `..` in it.
    #[error("the path is malformed")]
    Malformed,
    /// The folder has no such file.
    #[error("there is no such script")]
    NotFound,
    /// The file is no executable, or outside the folder.
    #[error("the script may not be run")]
    Forbidden,
}

impl From<TargetError> for RequestError {
    fn from(error: TargetError) -> Self {
        match error {
            TargetError::Malformed => RequestError::Malformed("the path is malformed"),
            TargetError::NotFound => RequestError::NotFound,
            TargetError::Forbidden => RequestError::Forbidden,
        }
    }
}

/// Decodes `%XX` in a path that names files. No name of a file has a slash in it.
///
/// # Errors
///
/// As [`decode_all`], and when there is an encoded slash.
pub fn decode(path: &[u8]) -> Result<Vec<u8>, TargetError> {
    let decoded = decode_all(path)?;
    let slashes = |path: &[u8]| path.iter().filter(|&&byte| byte == b'/').count();
    if slashes(&decoded) > slashes(path) { Err(TargetError::NotFound) } else { Ok(decoded) }
}

/// Decodes `%XX`.
///
/// # Errors
///
/// When two hexadecimal digits do not follow a `%`, or when there is a NUL byte, which no variable can hold.
pub fn decode_all(path: &[u8]) -> Result<Vec<u8>, TargetError> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (digits, after) = after.split_first_chunk::<2>().ok_or(TargetError::Malformed)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (high, low) = digit(digits[0]).zip(digit(digits[1])).ok_or(TargetError::Malformed)?;
        decoded.push(high << 4 | low);
        rest = after;
    }
    if decoded.contains(&0) { Err(TargetError::Malformed) } else { Ok(decoded) }
}

/// The script that a path names below `root`, which is an absolute path without symbolic links.
///
/// # Errors
///
/// When it names none that the gateway may run.
pub fn find(root: &Path, raw: &[u8]) -> Result<ScriptTarget, TargetError> {
    let path = decode(raw)?;
    if path.first() != Some(&b'/') || path.split(|&byte| byte == b'/').any(|part| part == b"..") {
        return Err(TargetError::Malformed);
    }
    let mut file = root.to_owned();
    // Only a path with a symbolic link can lead out of the folder.
    let mut has_link = false;
    let mut at = 0;
    while at < path.len() {
        // There is a slash at `at`.
        let end =
            path[at + 1..].iter().position(|&byte| byte == b'/').map_or(path.len(), |next| at + 1 + next);
        let part = &path[at + 1..end];
        at = end;
        if part.is_empty() || part == b"." {
            continue;
        }
        // The gateway serves no hidden file.
        if part[0] == b'.' {
            return Err(TargetError::NotFound);
        }
        file.push(OsStr::from_bytes(part));
        let mut found = file.symlink_metadata().map_err(|_| TargetError::NotFound)?;
        if found.is_symlink() {
            has_link = true;
            found = file.metadata().map_err(|_| TargetError::NotFound)?;
        }
        if found.is_dir() {
            continue;
        }
        if !found.is_file() {
            return Err(TargetError::Forbidden);
        }
        let script = if has_link { runnable(root, &file)? } else { executable(file)? };
        return Ok(ScriptTarget { script, script_name: path[..at].to_vec(), path_info: path[at..].to_vec() });
    }
    Err(TargetError::Forbidden)
}

/// The path of a file without symbolic links, if it is an executable below `root`.
///
/// # Errors
///
/// When the file is elsewhere, or is no executable.
pub fn runnable(root: &Path, file: &Path) -> Result<PathBuf, TargetError> {
    let script = file.canonicalize().map_err(|_| TargetError::NotFound)?;
    if !script.starts_with(root) || !script.is_file() {
        return Err(TargetError::Forbidden);
    }
    executable(script)
}

fn executable(file: PathBuf) -> Result<PathBuf, TargetError> {
    access(&file, Access::EXEC_OK).map(|()| file).map_err(|_| TargetError::Forbidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("its path").join("root");
        fs::create_dir_all(root.join("sub dir")).expect("a folder");
        for (name, mode) in [("a.pl", 0o755), ("sub dir/b.pl", 0o755), ("plain", 0o644), (".hidden", 0o755)] {
            fs::write(root.join(name), "").expect("a file");
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).expect("its mode");
        }
        fs::write(root.with_file_name("outside.pl"), "").expect("a file");
        fs::set_permissions(root.with_file_name("outside.pl"), fs::Permissions::from_mode(0o755))
            .expect("its mode");
        symlink(root.with_file_name("outside.pl"), root.join("link.pl")).expect("a link");
        symlink(root.join("a.pl"), root.join("own.pl")).expect("a link");
        (folder, root)
    }

    fn found(root: &Path, path: &str) -> Result<(String, String), TargetError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let target = find(root, path.as_bytes())?;
        assert!(target.script.starts_with(root));
        Ok((text(&target.script_name), text(&target.path_info)))
    }

    #[test]
    fn the_first_file_on_the_way_is_the_script() {
        let (_folder, root) = folder();
        let pair = |name: &str, info: &str| Ok((name.to_owned(), info.to_owned()));
        assert_eq!(found(&root, "/a.pl"), pair("/a.pl", ""));
        assert_eq!(found(&root, "/a.pl/x%20y/"), pair("/a.pl", "/x y/"));
        assert_eq!(found(&root, "/sub%20dir//./b.pl/"), pair("/sub dir//./b.pl", "/"));
        assert_eq!(found(&root, "/own.pl"), pair("/own.pl", ""));
    }

    #[test]
    fn what_is_no_script_is_refused() {
        let (_folder, root) = folder();
        for (path, why) in [
            ("/", TargetError::Forbidden),
            ("/sub%20dir", TargetError::Forbidden),
            ("/plain", TargetError::Forbidden),
            ("/link.pl", TargetError::Forbidden),
            ("/nothing", TargetError::NotFound),
            ("/.hidden", TargetError::NotFound),
            ("/sub%20dir%2fb.pl", TargetError::NotFound),
            ("/../outside.pl", TargetError::Malformed),
            ("/%2e%2E/outside.pl", TargetError::Malformed),
            ("/a.pl/../plain", TargetError::Malformed),
            ("/a.pl%00", TargetError::Malformed),
            ("/a.pl%4", TargetError::Malformed),
            ("/a.pl%+1", TargetError::Malformed),
            ("a.pl", TargetError::Malformed),
            ("", TargetError::Malformed),
        ] {
            assert_eq!(found(&root, path), Err(why), "{path:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_path_leads_out(path in proptest::collection::vec(prop_oneof![
            Just("/".to_owned()), Just("..".to_owned()), Just("%2e".to_owned()), Just("%2f".to_owned()), Just("a.pl".to_owned()),
            Just("outside.pl".to_owned()), Just("link.pl".to_owned()), Just("%".to_owned()), "[ -~]{0,3}"], 0..9)) {
            let (_folder, root) = folder();
            if let Ok(target) = find(&root, format!("/{}", path.concat()).as_bytes()) {
                prop_assert!(target.script.starts_with(&root));
            }
        }
    }
}
