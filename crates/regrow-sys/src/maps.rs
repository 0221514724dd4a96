//! The reader of `/proc/PID/maps` and `/proc/PID/smaps`.
//!
//! A snapshot lists the mappings of an image with it, and every reset without `PROCMAP_QUERY` compares that
//! list with what a run left behind. A line that is misread there becomes memory that is not put back, so
//! the parser accepts exactly what the kernel writes and names line and field of anything else:
//!
//! ```text
//! 7f3a1c000000-7f3a1c021000 rw-p 00000000 00:00 0            [anon:arena]
//! start        end          perm offset   dev   inode        name
//! ```
//!
//! Invariants of a parsed list: `start < end`, both on a page boundary; mappings ascend and do not overlap
//! (the kernel promises it even while the process changes its mappings, see `proc_pid_maps(5)`).
//!
//! Two names cannot be told apart, because the kernel escapes a newline as `\012` but leaves a backslash
//! alone, and appends ` (deleted)` without a mark: a file whose own name holds the four characters `\012`
//! reads as if it held a newline, and a file whose own name ends in ` (deleted)` reads as deleted. Compare
//! device and inode where the identity of a file matters.
//!
//! Parsing allocates the list and one buffer for each file name; anonymous mappings cost nothing else.

mod line;
mod smaps;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use smaps::{SmapsEntry, VmFlag, VmFlags, parse_smaps, read_smaps};

/// Mappings start and end on multiples of this on every architecture; some have larger pages.
const SMALLEST_PAGE: u64 = 4096;

/// The most bytes that are read of one file: about 600,000 mappings of `maps`, ten times the default limit
/// of mappings in one process (`vm.max_map_count`).
const FILE_LIMIT_BYTES: u64 = 64 << 20;

/// The room a read starts with; most processes have fewer than 600 mappings.
const FIRST_READ_BYTES: usize = 64 << 10;

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

    /// Appends the line as the kernel writes it, with its newline. The inverse of [`parse_maps`].
    pub fn write_line(&self, out: &mut Vec<u8>) {
        line::write(self, out);
    }
}

impl fmt::Display for Mapping {
    /// The kernel's line without its newline; bytes of a name that are not UTF-8 are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write_line(&mut text);
        f.write_str(String::from_utf8_lossy(&text).trim_end())
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

/// The part of a line that an error speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// The first address.
    Start,
    /// The first address after the mapping.
    End,
    /// Where the mapping lies relative to the one before it.
    Order,
    /// The four letters of protection and sharing.
    Permissions,
    /// The offset in the file.
    Offset,
    /// The two numbers of the device.
    Device,
    /// The inode number.
    Inode,
    /// The name.
    Name,
    /// The newline that ends a line.
    LineEnd,
    /// The key of a value line in `smaps`.
    Key,
    /// The number and unit of a value line in `smaps`.
    Value,
    /// The `VmFlags` line of an entry in `smaps`.
    VmFlags,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Problem {
    /// The line ends before it.
    Missing,
    /// It is not written in the kernel's way.
    Malformed,
    /// It does not fit the number that the kernel uses.
    TooLarge,
    /// It is not on a page boundary.
    NotOnAPage,
    /// The mapping would be empty or upside down.
    NotAfterStart,
    /// It begins before the mapping above it ends.
    Overlaps,
    /// It is there twice.
    Repeated,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start address",
            Self::End => "end address",
            Self::Order => "place of the mapping",
            Self::Permissions => "permissions",
            Self::Offset => "offset",
            Self::Device => "device",
            Self::Inode => "inode",
            Self::Name => "name",
            Self::LineEnd => "newline",
            Self::Key => "key",
            Self::Value => "value",
            Self::VmFlags => "VmFlags",
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::TooLarge => "too large",
            Self::NotOnAPage => "not on a page boundary",
            Self::NotAfterStart => "not after the start address",
            Self::Overlaps => "overlapping the mapping above",
            Self::Repeated => "repeated",
        })
    }
}

/// A text that is not what the kernel writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {field}: {problem}")]
pub struct MapsError {
    /// The line, counted from 1.
    pub line: usize,
    /// The part of it.
    pub field: Field,
    /// What is wrong with it.
    pub problem: Problem,
}

/// Why the mappings of a process could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadMapsError {
    /// The file could not be opened or read; `NotFound` or `ESRCH` when the process is gone.
    #[error("/proc/{pid}/{file} could not be read")]
    Io {
        /// The process.
        pid: i32,
        /// `maps` or `smaps`.
        file: &'static str,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// The file is longer than any that an address space can need.
    #[error("/proc/{pid}/{file} is longer than {limit_bytes} bytes")]
    TooLong {
        /// The process.
        pid: i32,
        /// `maps` or `smaps`.
        file: &'static str,
        /// The most that is read.
        limit_bytes: u64,
    },
    /// The text is not what the kernel writes.
    #[error("/proc/{pid}/{file} is not understood")]
    Parse {
        /// The process.
        pid: i32,
        /// `maps` or `smaps`.
        file: &'static str,
        /// Where and why.
        source: MapsError,
    },
}

/// Reads the whole text of a `maps` file.
///
/// # Errors
/// The first line that is not what the kernel writes, or a mapping that overlaps the one above it.
pub fn parse_maps(text: &[u8]) -> Result<Vec<Mapping>, MapsError> {
    let mut mappings = Vec::with_capacity(text.iter().filter(|&&byte| byte == b'\n').count());
    let mut lines = Lines::new(text);
    let mut floor = 0;
    while let Some((number, line)) = lines.next_line()? {
        let mapping = line::parse(line, number, floor)?;
        floor = mapping.end;
        mappings.push(mapping);
    }
    Ok(mappings)
}

/// The mappings of a process at present. A zombie and a kernel thread have none: the list is empty.
///
/// # Errors
/// When the process is gone, may not be looked at, or the text is not understood.
pub fn read_maps(pid: i32) -> Result<Vec<Mapping>, ReadMapsError> {
    let text = read_proc(pid, "maps")?;
    parse_maps(&text).map_err(|source| ReadMapsError::Parse { pid, file: "maps", source })
}

/// Reads a file of `/proc/PID` in few system calls: the kernel gives at most a page for each.
fn read_proc(pid: i32, file: &'static str) -> Result<Vec<u8>, ReadMapsError> {
    let mut text = Vec::with_capacity(FIRST_READ_BYTES);
    let path = format!("/proc/{pid}/{file}");
    std::fs::File::open(path)
        .and_then(|opened| opened.take(FILE_LIMIT_BYTES + 1).read_to_end(&mut text))
        .map_err(|source| ReadMapsError::Io { pid, file, source })?;
    if text.len() as u64 > FILE_LIMIT_BYTES {
        return Err(ReadMapsError::TooLong { pid, file, limit_bytes: FILE_LIMIT_BYTES });
    }
    Ok(text)
}

/// Walks over a text line by line, counting.
struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { rest: text, number: 0 }
    }

    /// The number and bytes of the line after the last one, without its newline.
    fn next_line(&mut self) -> Result<Option<(usize, &'a [u8])>, MapsError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let Some(length) = self.rest.iter().position(|&byte| byte == b'\n') else {
            return Err(MapsError { line: self.number, field: Field::LineEnd, problem: Problem::Missing });
        };
        let (line, rest) = self.rest.split_at(length);
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(Some((self.number, line)))
    }

    /// The line that [`Lines::next_line`] would give, without moving on.
    fn peek(&self) -> &'a [u8] {
        self.rest.split(|&byte| byte == b'\n').next().unwrap_or_default()
    }
}
