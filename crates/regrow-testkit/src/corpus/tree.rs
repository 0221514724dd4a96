//! What a run left behind: every name below its work directory, with kind, content, mode and times.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::{At, CorpusError};

/// Times before this one (2020-01-01, in seconds) were set on purpose and are compared; later ones are "when it ran".
const FIXED_TIMES_END_S: i64 = 1_577_836_800;

/// What a name stands for, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file and its bytes.
    File(Vec<u8>),
    /// A regular file that the caller may not read.
    UnreadableFile,
    /// A directory.
    Directory,
    /// A symbolic link and where it points.
    Symlink(PathBuf),
    /// A named pipe.
    Fifo,
    /// A socket in the file system.
    Socket,
    /// A block or character device.
    Device,
}

/// One name of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, set-id and sticky bits included.
    pub mode: u32,
    /// Hard links of a file; 1 for all else.
    pub links: u64,
    /// Modification time in seconds and nanoseconds, if it was set on purpose.
    pub set_time: Option<(i64, i64)>,
}

/// All names below a directory, by their path relative to it. The directory itself is not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// The nodes, in the order of their names.
    pub nodes: BTreeMap<PathBuf, Node>,
}

impl Tree {
    /// Reads the tree below `root`.
    ///
    /// # Errors
    ///
    /// [`CorpusError::Io`] if a directory or a file cannot be read for another reason than its mode.
    pub fn read(root: &Path) -> Result<Self, CorpusError> {
        let mut tree = Self::default();
        let mut pending = vec![PathBuf::new()];
        while let Some(below) = pending.pop() {
            for name in sorted_names(&root.join(&below))? {
                let path = below.join(name);
                let node = Node::read(&root.join(&path))?;
                if node.kind == Kind::Directory {
                    pending.push(path.clone());
                }
                tree.nodes.insert(path, node);
            }
        }
        Ok(tree)
    }
}

impl Node {
    fn read(path: &Path) -> Result<Self, CorpusError> {
        let facts = fs::symlink_metadata(path).at("look at", path)?;
        let kind = Kind::read(path, &facts)?;
        let is_file = facts.file_type().is_file();
        let time_s = facts.mtime();
        Ok(Self {
            kind,
            mode: facts.mode() & 0o7777,
            links: if is_file { facts.nlink() } else { 1 },
            set_time: (time_s < FIXED_TIMES_END_S).then(|| (time_s, facts.mtime_nsec())),
        })
    }
}

impl Kind {
    fn read(path: &Path, facts: &fs::Metadata) -> Result<Self, CorpusError> {
        let kind = facts.file_type();
        if kind.is_dir() {
            return Ok(Self::Directory);
        }
        if kind.is_symlink() {
            return Ok(Self::Symlink(fs::read_link(path).at("read the link", path)?));
        }
        if kind.is_fifo() {
            return Ok(Self::Fifo);
        }
        if kind.is_socket() {
            return Ok(Self::Socket);
        }
        if !kind.is_file() {
            return Ok(Self::Device);
        }
        match fs::read(path) {
            Ok(bytes) => Ok(Self::File(bytes)),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(Self::UnreadableFile),
            Err(e) => Err(e).at("read", path),
        }
    }
}

/// The names in a directory, sorted, so that whatever is made from them is made in one order.
pub(super) fn sorted_names(dir: &Path) -> Result<Vec<OsString>, CorpusError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).at("list", dir)? {
        names.push(entry.at("list", dir)?.file_name());
    }
    names.sort();
    Ok(names)
}
