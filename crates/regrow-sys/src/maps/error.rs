//! What can be wrong with a list of mappings: line, field and problem.

use std::fmt;

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
