//! One mapping of an address space.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// One mapping of an address space, a line of `maps`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// `PROT_READ` is set.
    pub read: bool,
    /// `PROT_WRITE` is set.
    pub write: bool,
    /// `PROT_EXEC` is set.
    pub exec: bool,
    /// `MAP_SHARED`: stores are seen by others. Otherwise private, copied on write.
    pub shared: bool,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Major and minor number of the file's device, both 0 without a file.
    pub dev: (u32, u32),
    /// Inode of the file, 0 without a file.
    pub inode: u64,
    /// What the kernel calls it.
    pub name: MapName,
}

/// The last column of a line of `maps`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MapName {
    /// No name: private anonymous memory.
    Anonymous,
    /// `[heap]`: moved by `brk`.
    Heap,
    /// `[stack]`: the initial stack.
    Stack,
    /// `[vdso]`: the kernel's code page.
    Vdso,
    /// A data page of the vdso; the text is what stands in the brackets (`vvar`, `vvar_vclock`).
    Vvar(String),
    /// `[vsyscall]`: the same page in every process, not a mapping of its own.
    Vsyscall,
    /// `[uprobes]`: put there by a tracer of the kernel.
    Uprobes,
    /// Any other name in brackets, without them: `anon:arena`, `anon_shmem:pool`, `stack:4711`.
    Other(String),
    /// A file, or something that the kernel holds as one (`/memfd:agent`, `/dev/zero`, `anon_inode:[io_uring]`).
    File {
        /// Its path at present, without the ` (deleted)` mark.
        path: PathBuf,
        /// The kernel says that the name is gone; for a memfd always.
        deleted: bool,
    },
}

impl Mapping {
    /// How many bytes it spans.
    pub fn len_bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Whether an address lies in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

impl MapName {
    /// The path, when a file is mapped.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Whether it is a file made by `memfd_create`.
    pub fn is_memfd(&self) -> bool {
        match self {
            Self::File { path, deleted } => *deleted && path.as_os_str().as_bytes().starts_with(b"/memfd:"),
            _ => false,
        }
    }

    /// Whether the kernel put it there by itself and owns its content: vdso, vvar, vsyscall, uprobes.
    pub fn is_kernel_made(&self) -> bool {
        matches!(self, Self::Vdso | Self::Vvar(_) | Self::Vsyscall | Self::Uprobes)
    }
}
