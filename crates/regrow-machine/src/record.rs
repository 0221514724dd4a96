//! The records of the kernel's side, read: `bpf/records.h` says what they are.
//!
//! A record that is too short for its kind, or of a kind that is not known, is none.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use regrow_sites::{ProcessKey, Usage};

use crate::arch::REGISTER_BYTES;

/// How many kinds there are, 0 among them, which is none.
pub(crate) const KINDS: usize = 7;
/// Where the far part of a stack begins, behind the near one.
const NEAR_BYTES: usize = 1024;
/// Bytes of a page, as the kernel counts resident memory.
const PAGE_KIB: u64 = 4;

/// The kinds: what the numbers of `enum kind` mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Created = 1,
    Mapping = 2,
    Image = 3,
    Executed = 4,
    Exited = 5,
    Ended = 6,
}

/// A process, as the kernel tells it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// In nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) start_ns: u64,
}

impl Process {
    pub(crate) fn key(self) -> ProcessKey {
        ProcessKey { pid: self.pid, created_us: self.start_ns / 1_000 }
    }
}

/// A file, as the kernel has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileIdentity {
    pub(crate) inode: u64,
    pub(crate) ctime_s: i64,
    pub(crate) ctime_ns: u32,
    pub(crate) size_bytes: u64,
    /// Major and minor number.
    pub(crate) device: (u32, u32),
}

impl FileIdentity {
    /// As the tables of the programs have it: `struct identity`.
    pub(crate) fn words(&self) -> [u64; 4] {
        let device = u64::from(self.device.0 << 20 | self.device.1);
        let last = device | u64::from(self.ctime_ns) << 32;
        [self.inode, self.ctime_s.cast_unsigned(), self.size_bytes, last]
    }
}

/// A file that a process has mapped for execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MappedFile {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    pub(crate) file: FileIdentity,
}

/// What a process has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accounts {
    pub(crate) cpu_ns: u64,
    pub(crate) peak_pages: u64,
}

impl Accounts {
    /// As a usage, of a process that lived so long.
    pub(crate) fn usage(self, life_ns: u64) -> Usage {
        let peak_kib = self.peak_pages.saturating_mul(PAGE_KIB);
        Usage { cpu_us: self.cpu_ns / 1_000, life_us: life_ns / 1_000, peak_kib, startup_us: None }
    }
}

/// A process was created.
#[derive(Debug)]
pub(crate) struct Created<'a> {
    pub(crate) child: Process,
    pub(crate) parent: Process,
    /// The file that the parent executes; `None` for a thread of the kernel.
    pub(crate) image: Option<FileIdentity>,
    /// The parent's registers, as the kernel saved them.
    pub(crate) registers: &'a [u8; REGISTER_BYTES],
    /// The parent's stack, from its pointer upwards.
    pub(crate) near: &'a [u8],
    /// The address of a part of it further up, and that.
    pub(crate) far: (u64, &'a [u8]),
}

/// What the kernel's side tells.
#[derive(Debug)]
pub(crate) enum Record<'a> {
    Created(Created<'a>),
    Mapping {
        process: Process,
        mapping: MappedFile,
        /// It is the first of a list, which takes the place of the last one.
        first: bool,
    },
    Image {
        process: Process,
        file: FileIdentity,
        /// Where it is mapped; `None`: it is what the process executes.
        mapped: Option<(u64, u64)>,
        /// `None`: it has more components than are told.
        path: Option<PathBuf>,
    },
    Executed {
        process: Process,
        time_ns: u64,
        image: FileIdentity,
        /// Each with its zero; `None`: they are too long to be told.
        arguments: Option<&'a [u8]>,
    },
    Exited {
        process: Process,
        time_ns: u64,
        accounts: Accounts,
    },
    Ended {
        process: Process,
        accounts: Accounts,
    },
}

impl<'a> Record<'a> {
    /// Reads one.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        let kind = rest.u32()?;
        let process = Process { pid: rest.u32()?, start_ns: rest.u64()? };
        Some(match kind {
            1 => Self::Created(rest.created(process)?),
            2 => {
                let (start, end, offset) = (rest.u64()?, rest.u64()?, rest.u64()?);
                let mapping = MappedFile { start, end, offset, file: rest.file()?? };
                Self::Mapping { process, mapping, first: rest.u64()? == 0 }
            }
            3 => {
                let file = rest.file()??;
                let (start, end) = (rest.u64()?, rest.u64()?);
                Self::Image { process, file, mapped: (end != 0).then_some((start, end)), path: rest.path()? }
            }
            4 => {
                let (time_ns, image) = (rest.u64()?, rest.file()??);
                Self::Executed { process, time_ns, image, arguments: rest.arguments()? }
            }
            5 => Self::Exited { process, time_ns: rest.u64()?, accounts: rest.accounts()? },
            6 => Self::Ended { process, accounts: rest.accounts()? },
            _ => return None,
        })
    }
}

/// What is left of a record.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        self.take(N)?.first_chunk()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// `Some(None)`: there is no file.
    #[expect(clippy::option_option, reason = "a record that is too short is not a record without a file")]
    fn file(&mut self) -> Option<Option<FileIdentity>> {
        let (inode, ctime_s, size_bytes) = (self.u64()?, self.u64()?.cast_signed(), self.u64()?);
        let (device, ctime_ns) = (self.u32()?, self.u32()?);
        let device = (device >> 20, device & 0xf_ffff);
        Some((inode != 0).then_some(FileIdentity { inode, ctime_s, ctime_ns, size_bytes, device }))
    }

    /// `Some(None)`: they were too long to be told, or there are none.
    #[expect(
        clippy::option_option,
        reason = "a record that is too short is not one whose arguments are too long"
    )]
    fn arguments(&mut self) -> Option<Option<&'a [u8]>> {
        let (_all, told) = (self.u32()?, usize::try_from(self.u32()?).ok()?);
        let arguments = self.take(told)?;
        Some((told > 0).then_some(arguments))
    }

    fn accounts(&mut self) -> Option<Accounts> {
        Some(Accounts { cpu_ns: self.u64()?, peak_pages: self.u64()? })
    }

    fn created(&mut self, child: Process) -> Option<Created<'a>> {
        let start_ns = self.u64()?;
        let parent = Process { pid: self.u32()?, start_ns };
        let near_bytes = usize::try_from(self.u32()?).ok()?;
        let far_at = self.u64()?;
        let far_bytes = usize::try_from(self.u64()?).ok()?;
        let image = self.file()?;
        let registers = self.array()?;
        let stack = self.0;
        let far = stack.get(NEAR_BYTES..).unwrap_or_default();
        Some(Created {
            child,
            parent,
            image,
            registers,
            near: stack.get(..near_bytes)?,
            far: (far_at, far.get(..far_bytes)?),
        })
    }

    /// The components, the last one first, each with a zero behind it.
    #[expect(clippy::option_option, reason = "a record that is too short is not one whose path is too long")]
    fn path(&mut self) -> Option<Option<PathBuf>> {
        let bytes = usize::try_from(self.u32()?).ok()?;
        let is_cut = self.u32()? != 0;
        let components = self.take(bytes)?;
        if is_cut {
            return Some(None);
        }
        let mut path = Vec::with_capacity(bytes + 1);
        let whole = components.strip_suffix(&[0]).unwrap_or(components);
        for component in whole.rsplit(|&byte| byte == 0) {
            path.push(b'/');
            path.extend(component);
        }
        Some(Some(PathBuf::from(OsString::from_vec(path))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: Kind) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((kind as u32).to_le_bytes());
        bytes.extend(7_u32.to_le_bytes());
        bytes.extend(5_000_u64.to_le_bytes());
        bytes
    }

    fn file(inode: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [inode, 1_700_000_000, 4096] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend((254_u32 << 20 | 3).to_le_bytes());
        bytes.extend(9_u32.to_le_bytes());
        bytes
    }

    #[test]
    fn a_path_is_told_from_its_end() {
        let mut bytes = head(Kind::Image);
        bytes.extend(file(11));
        bytes.extend([0; 16]);
        bytes.extend(12_u32.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(b"ls\0bin\0usr\0\0\0\0\0");
        let Some(Record::Image { file, path: Some(path), mapped: None, .. }) = Record::read(&bytes) else {
            panic!("an image")
        };
        assert_eq!(path, PathBuf::from("/usr/bin/ls"));
        assert_eq!((file.inode, file.device, file.ctime_ns), (11, (254, 3), 9));
    }

    #[test]
    fn a_record_that_is_cut_off_is_none() {
        let mut bytes = head(Kind::Executed);
        bytes.extend(8_u64.to_le_bytes());
        bytes.extend(file(11));
        bytes.extend(5_u32.to_le_bytes());
        bytes.extend(5_u32.to_le_bytes());
        bytes.extend(b"ls\0a\0");
        let told = |bytes: &[u8]| match Record::read(bytes) {
            Some(Record::Executed { time_ns: 8, arguments, .. }) => arguments.map(<[u8]>::to_vec),
            _ => None,
        };
        assert_eq!(told(&bytes), Some(b"ls\0a\0".to_vec()));
        for length in 0..bytes.len() {
            assert!(Record::read(&bytes[..length]).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn a_kind_that_is_not_known_is_none() {
        let mut bytes = vec![0; 4096];
        assert!(Record::read(&bytes).is_none());
        bytes[0] = 7;
        assert!(Record::read(&bytes).is_none());
    }

    #[test]
    fn a_parent_without_a_file_is_a_thread_of_the_kernel() {
        let mut bytes = head(Kind::Created);
        bytes.extend(1_000_u64.to_le_bytes());
        bytes.extend(2_u32.to_le_bytes());
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend(file(0));
        bytes.extend([0; REGISTER_BYTES]);
        bytes.extend([1, 2, 3]);
        let Some(Record::Created(created)) = Record::read(&bytes) else { panic!("a creation") };
        assert_eq!(created.image, None);
        assert_eq!((created.near, created.far.1), (&[1, 2, 3][..], &[][..]));
        assert_eq!(created.parent.key(), ProcessKey { pid: 2, created_us: 1 });
        bytes.pop();
        assert!(Record::read(&bytes).is_none(), "the stack is shorter than it says");
    }
}
