//! The way of a path: every link, directory and file that decides what it names.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const MAX_LINKS: u32 = 40;

/// A place on the way of a path.
#[derive(Debug)]
pub(crate) struct Step {
    pub place: PathBuf,
    pub is_link: bool,
    /// Whether it is what the path names.
    pub is_last: bool,
}

/// Follows an absolute path from the root, link by link. It ends behind the first error.
#[derive(Debug)]
pub(crate) struct Way {
    at: PathBuf,
    /// The names that are still to come, the last one first.
    rest: Vec<OsString>,
    links: u32,
}

impl Way {
    pub(crate) fn of(path: &Path) -> Way {
        Way { at: PathBuf::from("/"), rest: components(path), links: 0 }
    }

    /// Goes on with the next name, or with what a link names.
    fn follow(&mut self, name: OsString) -> io::Result<Step> {
        self.at.push(name);
        let place = self.at.clone();
        let is_link = place.symlink_metadata()?.is_symlink();
        if is_link {
            self.links += 1;
            if self.links > MAX_LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            let target = std::fs::read_link(&place)?;
            self.at.pop();
            if target.is_absolute() {
                self.at = PathBuf::from("/");
            }
            self.rest.extend(components(&target));
        }
        Ok(Step { place, is_link, is_last: !is_link && self.rest.is_empty() })
    }
}

impl Iterator for Way {
    type Item = io::Result<Step>;

    fn next(&mut self) -> Option<io::Result<Step>> {
        loop {
            let name = self.rest.pop()?;
            if name == ".." {
                self.at.pop();
                continue;
            }
            let step = self.follow(name);
            if step.is_err() {
                self.rest.clear();
            }
            return Some(step);
        }
    }
}

/// The names in a path, the last one first.
fn components(path: &Path) -> Vec<OsString> {
    let named = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// The places below a folder that decide what one of its paths names, with whether it is that; or the error.
    fn places(folder: &Path, path: &str) -> io::Result<Vec<(String, bool)>> {
        let below =
            |step: Step| Some((step.place.strip_prefix(folder).ok()?.to_str()?.to_owned(), step.is_last));
        let steps = Way::of(&folder.join(path)).collect::<io::Result<Vec<Step>>>()?;
        Ok(steps.into_iter().filter_map(below).skip_while(|(place, _)| place.is_empty()).collect())
    }

    #[test]
    fn links_are_steps_and_what_they_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        std::fs::create_dir(at.join("real")).expect("made");
        std::fs::write(at.join("real/program"), "").expect("written");
        symlink("real/../real", at.join("link")).expect("made");
        symlink(at.join("link"), at.join("absolute")).expect("made");
        let step = |place: &str| (place.to_owned(), place == "real/program");
        let seen = places(&at, "absolute/./program").expect("it can be followed");
        assert_eq!(seen.first(), Some(&step("absolute")));
        assert_eq!(seen.iter().filter(|(place, _)| place == "link").count(), 1);
        assert_eq!(seen.last(), Some(&step("real/program")));
        assert_eq!(seen.iter().filter(|(_, is_last)| *is_last).count(), 1);
    }

    #[test]
    fn it_ends_where_nothing_is_and_in_a_circle() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        assert_eq!(
            places(&at, "none/program").expect_err("nothing is there").kind(),
            io::ErrorKind::NotFound
        );
        symlink("b", at.join("a")).expect("made");
        symlink("a", at.join("b")).expect("made");
        assert_eq!(places(&at, "a").expect_err("a circle").raw_os_error(), Some(libc::ELOOP));
        assert_eq!(Way::of(&at.join("a")).filter(Result::is_err).count(), 1);
    }
}
