//! Where exec looks for a program: the search of `PATH`, as `execvp` and `posix_spawnp` of glibc do it.
//!
//! - A name with a slash is a path and is not looked for. An empty name is not found.
//! - Without a `PATH` the search goes through [`DEFAULT_PATH`].
//! - An empty element is the working directory. The name is then given to exec without a slash.
//! - An element of `PATH_MAX` bytes or more counts as an empty one; as the last element it counts as nothing.
//! - The search goes on after an error that [`goes_on`] lists, and stops at every other outcome, good or bad. When it ends
//!   without a program its error is `EACCES` if there was one, else the last error.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Where glibc searches when `PATH` is not set.
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The kernel's `PATH_MAX`: no path is longer, its ending NUL included.
const PATH_MAX: usize = 4096;

/// A file that exec tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The element of `PATH`; empty for the working directory, and for a name that is not looked for.
    pub directory: &'a [u8],
    name: &'a [u8],
}

impl Candidate<'_> {
    /// The path that exec is given: the element, a slash, the name. An element that ends with a slash gets a second one,
    /// which a script sees in its arguments.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.bytes()))
    }

    /// The same as the kernel takes it; `None` when it holds a NUL byte.
    #[must_use]
    pub fn c_path(&self) -> Option<CString> {
        CString::new(self.bytes()).ok()
    }

    fn bytes(&self) -> Vec<u8> {
        let separator: &[u8] = if self.directory.is_empty() { b"" } else { b"/" };
        [self.directory, separator, self.name].concat()
    }
}

/// The elements of a `PATH` as the search sees them: one that is too long is empty, or nothing at the end.
pub fn elements(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut elements = path.split(|&byte| byte == b':').peekable();
    std::iter::from_fn(move || {
        let element = elements.next()?;
        match element.len() {
            0..PATH_MAX => Some(element),
            _ => elements.peek().map(|_| &element[..0]),
        }
    })
}

/// The files that exec tries for a program, in this order; none for an empty name.
pub fn candidates<'a>(
    program: &'a [u8],
    path: Option<&'a [u8]>,
) -> impl Iterator<Item = Candidate<'a>> + use<'a> {
    let is_path = program.contains(&b'/');
    let searched =
        if is_path || program.is_empty() { None } else { Some(path.unwrap_or(DEFAULT_PATH.as_bytes())) };
    let itself: Option<&[u8]> = is_path.then_some(b"");
    let directories = itself.into_iter().chain(searched.into_iter().flat_map(elements));
    directories.map(|directory| Candidate { directory, name: program })
}

/// Whether the search goes on after a candidate that exec fails with so: it says that this one is no program.
#[must_use]
pub const fn goes_on(errno: i32) -> bool {
    matches!(
        errno,
        libc::EACCES | libc::ENOENT | libc::ESTALE | libc::ENOTDIR | libc::ENODEV | libc::ETIMEDOUT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(program: &str, path: Option<&str>) -> Vec<String> {
        let found = candidates(program.as_bytes(), path.map(str::as_bytes));
        found.map(|candidate| candidate.path().into_os_string().into_string().expect("UTF-8")).collect()
    }

    #[test]
    fn a_program_with_a_slash_is_not_looked_for() {
        assert_eq!(paths("./x", Some("/a:/b")), ["./x"]);
        assert_eq!(paths("/x", None), ["/x"]);
    }

    #[test]
    fn an_empty_name_has_no_candidate() {
        assert!(paths("", Some("/a")).is_empty());
    }

    #[test]
    fn a_name_is_looked_for_in_each_element() {
        assert_eq!(paths("x", Some("/a::b/:/c")), ["/a/x", "x", "b//x", "/c/x"]);
        assert_eq!(paths("x", None), ["/bin/x", "/usr/bin/x"]);
        assert_eq!(paths("x", Some("")), ["x"]);
        assert_eq!(paths("x", Some(":")), ["x", "x"]);
    }

    #[test]
    fn an_element_that_is_too_long_is_empty_or_nothing_at_the_end() {
        let long = "d".repeat(PATH_MAX);
        let longest = "d".repeat(PATH_MAX - 1);
        assert_eq!(paths("x", Some(&format!("{long}:/a"))), ["x", "/a/x"]);
        assert_eq!(paths("x", Some(&format!("/a:{long}"))), ["/a/x"]);
        assert!(paths("x", Some(&long)).is_empty());
        assert_eq!(paths("x", Some(&format!("{longest}:/a"))), [format!("{longest}/x"), "/a/x".into()]);
        assert_eq!(paths("x", Some(&longest)), [format!("{longest}/x")]);
    }

    /// glibc's own search agrees: it runs what is in the working directory in the place of a long element, and not at the
    /// end.
    #[cfg(target_env = "gnu")]
    #[test]
    fn glibc_takes_a_long_element_the_same_way() {
        let folder = std::env::temp_dir().join(format!("regrow-search-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a new folder");
        std::os::unix::fs::symlink("/bin/sh", folder.join("tool")).expect("a link");
        let finds = |path: &str| {
            let mut command = std::process::Command::new("tool");
            command.args(["-c", ":"]).current_dir(&folder).env("PATH", path);
            command.status().is_ok_and(|status| status.success())
        };
        for bytes in [PATH_MAX - 1, PATH_MAX, PATH_MAX + 1, 3 * PATH_MAX] {
            let long = format!("/{}", "d".repeat(bytes - 1));
            for path in [format!("{long}:/nowhere"), format!("/nowhere:{long}"), long] {
                let is_here = elements(path.as_bytes()).any(<[u8]>::is_empty);
                assert_eq!(finds(&path), is_here, "{bytes} bytes");
            }
        }
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn a_name_with_nul_is_no_path_of_the_kernel() {
        assert_eq!(candidates(b"a\0b", Some(b"/d")).next().expect("one").c_path(), None);
        assert_eq!(candidates(b"ab", Some(b"/d")).next().expect("one").c_path().as_deref(), Some(c"/d/ab"));
    }
}
