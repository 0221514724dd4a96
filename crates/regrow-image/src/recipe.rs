//! What an image is made of, and which files it depends on.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use crate::point::Point;

/// What an image is made of.
#[derive(Debug)]
pub struct Recipe<'a> {
    /// The path given to exec.
    pub path: &'a CStr,
    /// The first argument.
    pub argv0: &'a CStr,
    /// The arguments after it, of a front end: at the other points each run has its own.
    pub args: Vec<&'a CStr>,
    /// The environment: what the loader and constructors see.
    pub env: Vec<&'a CStr>,
    /// The directory that a front end may read relative paths in: the caller's own.
    pub directory: Option<&'a Path>,
    /// Whether nobody looks at the system calls of a front end until it stops for the first time, of two.
    pub unfollowed: bool,
    /// Where to stop.
    pub point: Point,
    /// [`regrow_abi::features`] that the agent may use.
    pub features: u32,
    /// Most zero pages that stay mapped after a reset.
    pub hot_zero_pages: u32,
    /// Have the loader resolve every symbol before `main`.
    pub bind_now: bool,
    /// The signals that a front end ignores from its start, bit 0 is signal 1; `None` for those of the calling process. At the
    /// other points each run has its own.
    pub ignored: Option<u64>,
    /// The soft limit of the stack, in bytes: exec lays the memory out by it.
    pub stack_limit: u64,
}

/// Files that an image depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Files whose content is in the image, or was read on the way to it.
    pub files: Vec<PathBuf>,
    /// Names that were looked for and not found: a file that appears there could change the image.
    pub absent: Vec<PathBuf>,
}
