//! The reader of `/proc/PID/smaps`: a line of `maps`, then what the kernel counts and remembers of it.
//!
//! The flags of a mapping (`VmFlags`) are how a snapshot learns what `maps` does not say: wipe-on-fork,
//! locked, growing down, merged, sealed, advised. Kernels add keys and flags, so keys without a use here are
//! skipped and every two-letter flag is kept, known or not: two sets compare equal only when the kernel
//! would write the same.

use std::fmt;

use super::error::{Field, MapsError, Problem, ReadMapsError};
use super::line::{self, decimal};
use super::mapping::Mapping;
use super::text::{Lines, read_proc};

/// One entry of `smaps`. Amounts are in KiB, as the kernel counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmapsEntry {
    /// The mapping.
    pub mapping: Mapping,
    /// The kernel's flags of it.
    pub flags: VmFlags,
    /// The protection key; `None` on a machine without keys.
    pub protection_key: Option<u32>,
    /// Size of the pages that back it: above that of the machine in a mapping of huge pages.
    pub kernel_page_kib: u64,
    /// Present pages.
    pub rss_kib: u64,
    /// Present pages, each divided by how many share it.
    pub pss_kib: u64,
    /// Pages of this process alone that equal their file.
    pub private_clean_kib: u64,
    /// Pages of this process alone that were written.
    pub private_dirty_kib: u64,
    /// Pages that belong to no file.
    pub anonymous_kib: u64,
    /// Swapped pages.
    pub swap_kib: u64,
    /// Pages held by `mlock`.
    pub locked_kib: u64,
}

impl SmapsEntry {
    fn new(mapping: Mapping) -> Self {
        Self {
            mapping,
            flags: VmFlags::default(),
            protection_key: None,
            kernel_page_kib: 0,
            rss_kib: 0,
            pss_kib: 0,
            private_clean_kib: 0,
            private_dirty_kib: 0,
            anonymous_kib: 0,
            swap_kib: 0,
            locked_kib: 0,
        }
    }

    /// The place of an amount, `None` for a key without a use here.
    fn amount(&mut self, key: &[u8]) -> Option<&mut u64> {
        Some(match key {
            b"KernelPageSize" => &mut self.kernel_page_kib,
            b"Rss" => &mut self.rss_kib,
            b"Pss" => &mut self.pss_kib,
            b"Private_Clean" => &mut self.private_clean_kib,
            b"Private_Dirty" => &mut self.private_dirty_kib,
            b"Anonymous" => &mut self.anonymous_kib,
            b"Swap" => &mut self.swap_kib,
            b"Locked" => &mut self.locked_kib,
            _ => return None,
        })
    }
}

/// One flag of a mapping: the two letters that the kernel writes for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VmFlag([u8; 2]);

impl VmFlag {
    /// `ac`: counted against the memory that the system promises.
    pub const ACCOUNTED: Self = Self(*b"ac");
    /// `wf`: the kernel gives zeroes to a forked child.
    pub const WIPE_ON_FORK: Self = Self(*b"wf");
    /// `dc`: a forked child does not get the mapping.
    pub const DONT_COPY: Self = Self(*b"dc");
    /// `dd`: left out of core dumps.
    pub const DONT_DUMP: Self = Self(*b"dd");
    /// `de`: cannot be grown by `mremap`.
    pub const DONT_EXPAND: Self = Self(*b"de");
    /// `dp`: the kernel may drop the pages when memory is short.
    pub const DROPPABLE: Self = Self(*b"dp");
    /// `gd`: grows down.
    pub const GROWS_DOWN: Self = Self(*b"gd");
    /// `lo`: locked in memory.
    pub const LOCKED: Self = Self(*b"lo");
    /// `ht`: huge pages of `hugetlbfs`.
    pub const HUGETLB: Self = Self(*b"ht");
    /// `hg`: advised to use huge pages.
    pub const HUGE_PAGE: Self = Self(*b"hg");
    /// `nh`: advised against huge pages.
    pub const NO_HUGE_PAGE: Self = Self(*b"nh");
    /// `io`: memory of a device.
    pub const IO: Self = Self(*b"io");
    /// `pf`: page frames without a `struct page`.
    pub const PFN_MAP: Self = Self(*b"pf");
    /// `mm`: memory that holds pages of several kinds.
    pub const MIXED_MAP: Self = Self(*b"mm");
    /// `mg`: equal pages may be merged.
    pub const MERGEABLE: Self = Self(*b"mg");
    /// `nr`: no swap space is set aside.
    pub const NO_RESERVE: Self = Self(*b"nr");
    /// `rr`: advised to be read in no order.
    pub const RANDOM_READ: Self = Self(*b"rr");
    /// `sr`: advised to be read in order.
    pub const SEQUENTIAL_READ: Self = Self(*b"sr");
    /// `sd`: writes are tracked by the soft-dirty bit.
    pub const SOFT_DIRTY: Self = Self(*b"sd");
    /// `sf`: faults wait for the file's data on a device (`MAP_SYNC`).
    pub const SYNC: Self = Self(*b"sf");
    /// `sl`: sealed by `mseal`.
    pub const SEALED: Self = Self(*b"sl");
    /// `ss`: a shadow stack.
    pub const SHADOW_STACK: Self = Self(*b"ss");
    /// `um`: userfaultfd sees missing pages.
    pub const UFFD_MISSING: Self = Self(*b"um");
    /// `uw`: userfaultfd sees writes.
    pub const UFFD_WRITE_PROTECT: Self = Self(*b"uw");
    /// `ui`: userfaultfd sees minor faults.
    pub const UFFD_MINOR: Self = Self(*b"ui");
    /// `??`: a flag that the running kernel has no letters for.
    pub const UNNAMED: Self = Self(*b"??");

    /// The flag of two letters; `None` when they are not two lower-case letters nor `??`.
    pub fn from_letters(letters: &[u8]) -> Option<Self> {
        match letters {
            [a @ b'a'..=b'z', b @ b'a'..=b'z'] => Some(Self([*a, *b])),
            b"??" => Some(Self::UNNAMED),
            _ => None,
        }
    }

    /// Its number: one for each pair of letters, the last for `??`.
    fn index(self) -> usize {
        match self.0 {
            [a @ b'a'..=b'z', b @ b'a'..=b'z'] => usize::from(a - b'a') * 26 + usize::from(b - b'a'),
            _ => 26 * 26,
        }
    }

    /// The flag of a number.
    fn from_index(index: usize) -> Self {
        let letter = |n: usize| b"abcdefghijklmnopqrstuvwxyz".get(n).copied().unwrap_or(b'?');
        if index == Self::UNNAMED.index() {
            Self::UNNAMED
        } else {
            Self([letter(index / 26), letter(index % 26)])
        }
    }
}

impl fmt::Display for VmFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).unwrap_or("??"))
    }
}

/// How many words hold one bit for each possible flag.
const FLAG_WORDS: usize = (26 * 26 + 1usize).div_ceil(64);

/// The flags of a mapping: a set of two-letter codes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct VmFlags([u64; FLAG_WORDS]);

impl VmFlags {
    /// Whether a flag is set.
    pub fn has(&self, flag: VmFlag) -> bool {
        let index = flag.index();
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Sets a flag.
    pub fn insert(&mut self, flag: VmFlag) {
        let index = flag.index();
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    /// Clears a flag, for comparisons that leave it out (`sd` changes by itself).
    pub fn remove(&mut self, flag: VmFlag) {
        let index = flag.index();
        if let Some(word) = self.0.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    /// The flags that are set, in the order of the alphabet.
    pub fn iter(&self) -> impl Iterator<Item = VmFlag> + '_ {
        (0..=VmFlag::UNNAMED.index()).map(VmFlag::from_index).filter(|flag| self.has(*flag))
    }
}

impl FromIterator<VmFlag> for VmFlags {
    fn from_iter<I: IntoIterator<Item = VmFlag>>(flags: I) -> Self {
        let mut set = Self::default();
        for flag in flags {
            set.insert(flag);
        }
        set
    }
}

impl fmt::Display for VmFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, flag) in self.iter().enumerate() {
            let space = if position == 0 { "" } else { " " };
            write!(f, "{space}{flag}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for VmFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VmFlags({self})")
    }
}

/// Reads the whole text of a `smaps` file.
///
/// # Errors
/// The first line that is not what the kernel writes, an entry without `VmFlags`, or a mapping that overlaps
/// the one above it.
pub fn parse_smaps(text: &[u8]) -> Result<Vec<SmapsEntry>, MapsError> {
    let mut entries = Vec::new();
    let mut lines = Lines::new(text);
    let mut floor = 0;
    while let Some((number, line)) = lines.next_line()? {
        let mapping = line::parse(line, number, floor)?;
        floor = mapping.end;
        entries.push(parse_values(&mut lines, mapping)?);
    }
    Ok(entries)
}

/// The mappings of a process at present, with what the kernel counts of each. Dearer than
/// [`read_maps`](super::read_maps): the kernel walks every page.
///
/// # Errors
/// When the process is gone, may not be looked at, or the text is not understood.
pub fn read_smaps(pid: i32) -> Result<Vec<SmapsEntry>, ReadMapsError> {
    let text = read_proc(pid, "smaps")?;
    parse_smaps(&text).map_err(|source| ReadMapsError::Parse { pid, file: "smaps", source })
}

/// The lines of an entry below its first: a key with a capital letter, a colon, spaces, a value.
fn parse_values(lines: &mut Lines<'_>, mapping: Mapping) -> Result<SmapsEntry, MapsError> {
    let first = lines.number;
    let mut entry = SmapsEntry::new(mapping);
    let mut flags_seen = false;
    while lines.peek().first().is_some_and(u8::is_ascii_uppercase) {
        let Some((number, line)) = lines.next_line()? else { break };
        let error = |field, problem| MapsError { line: number, field, problem };
        let colon = line
            .iter()
            .position(|&byte| byte == b':')
            .ok_or_else(|| error(Field::Key, Problem::Malformed))?;
        let (key, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if key == b"VmFlags" {
            if flags_seen {
                return Err(error(Field::VmFlags, Problem::Repeated));
            }
            flags_seen = true;
            entry.flags = parse_flags(value).ok_or_else(|| error(Field::VmFlags, Problem::Malformed))?;
        } else if key == b"ProtectionKey" {
            let number = decimal(value).map_err(|problem| error(Field::Value, problem))?;
            let key = u32::try_from(number).map_err(|_large| error(Field::Value, Problem::TooLarge))?;
            entry.protection_key = Some(key);
        } else if let Some(place) = entry.amount(key) {
            let digits = value.strip_suffix(b" kB").ok_or_else(|| error(Field::Value, Problem::Malformed))?;
            *place = decimal(digits).map_err(|problem| error(Field::Value, problem))?;
        }
    }
    if flags_seen {
        Ok(entry)
    } else {
        Err(MapsError { line: first, field: Field::VmFlags, problem: Problem::Missing })
    }
}

fn parse_flags(value: &[u8]) -> Option<VmFlags> {
    value.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).map(VmFlag::from_letters).collect()
}
