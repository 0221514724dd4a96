//! How the mappings of a body are compared with those of its image. No system call: the agent asks the kernel and hands in what it says.
//!
//! Both lists are sorted by address, and neighbours that differ in nothing count as one. The kernel does not tell advice, by which
//! neighbours of an image can differ: of these it tells as one.

use crate::image::{VmaEntry, vma_flags};

/// What decides whether a mapping is the image's.
const BACKING: u32 = vma_flags::SHARED | vma_flags::FILE;

impl VmaEntry {
    /// Whether `next` continues this mapping with nothing that differs.
    #[must_use]
    pub const fn joins(&self, next: &VmaEntry) -> bool {
        self.end == next.start
            && self.flags == next.flags
            && self.inode == next.inode
            && self.dev_major == next.dev_major
            && self.dev_minor == next.dev_minor
            && (next.inode == 0 || next.offset == self.offset.wrapping_add(self.end - self.start))
    }

    /// Whether what is mapped is the same as in this mapping of an image, wherever the two overlap.
    #[must_use]
    pub const fn has_backing_of(&self, have: &VmaEntry) -> bool {
        if self.flags & vma_flags::HANDS_OFF != 0 {
            return true;
        }
        (self.flags ^ have.flags) & BACKING == 0
            && self.inode == have.inode
            && self.dev_major == have.dev_major
            && self.dev_minor == have.dev_minor
            && (self.inode == 0
                || self.offset.wrapping_sub(self.start) == have.offset.wrapping_sub(have.start))
    }

    /// Whether the protection is the same as in this mapping of an image.
    #[must_use]
    pub const fn has_protection_of(&self, have: &VmaEntry) -> bool {
        self.flags & vma_flags::HANDS_OFF != 0 || (self.flags ^ have.flags) & vma_flags::PROTECTION == 0
    }
}

/// A comparison of mappings that come one after another with those of an image.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// The image's mappings that none was compared with.
    want: &'a [VmaEntry],
    /// The flags that each mapping has that is compared.
    kind: u32,
    /// The last mapping, which the next one may join.
    last: Option<VmaEntry>,
    is_equal: bool,
}

impl<'a> Comparison<'a> {
    /// With all mappings of an image.
    #[must_use]
    pub const fn with_all(want: &'a [VmaEntry]) -> Comparison<'a> {
        Comparison { want, kind: 0, last: None, is_equal: true }
    }

    /// With those that can be written to. Others must not be handed in.
    #[must_use]
    pub const fn with_writable(want: &'a [VmaEntry]) -> Comparison<'a> {
        Comparison { want, kind: vma_flags::WRITE, last: None, is_equal: true }
    }

    /// Compares the next mapping. False as soon as it is known that the two lists differ.
    pub fn add(&mut self, have: VmaEntry) -> bool {
        match &mut self.last {
            Some(last) if last.joins(&have) => last.end = have.end,
            last => {
                let before = last.replace(have);
                self.is_equal = self.is_equal && before.is_none_or(|before| self.is_wanted(&before));
            }
        }
        self.is_equal
    }

    /// Whether the lists are equal, now that all mappings have been handed in.
    #[must_use]
    pub fn is_equal(mut self) -> bool {
        let last = self.last.take();
        self.is_equal && last.is_none_or(|last| self.is_wanted(&last)) && self.first().is_none()
    }

    /// The image's next mapping.
    fn first(&mut self) -> Option<&'a VmaEntry> {
        while let [first, rest @ ..] = self.want {
            if first.flags & self.kind == self.kind {
                return Some(first);
            }
            self.want = rest;
        }
        None
    }

    /// The image's next mapping, which is taken, if it begins at `start` and is as `have`.
    fn take(&mut self, start: u64, have: &VmaEntry) -> Option<&'a VmaEntry> {
        let first = self.first()?;
        if first.start != start || !first.has_backing_of(have) || !first.has_protection_of(have) {
            return None;
        }
        self.want = self.want.get(1..)?;
        Some(first)
    }

    /// Whether a mapping is the image's next one, or its next ones that differ in what the kernel does not tell.
    fn is_wanted(&mut self, have: &VmaEntry) -> bool {
        let Some(first) = self.take(have.start, have) else { return false };
        let mut end = first.end;
        while end < have.end {
            let Some(next) = self.take(end, have) else { return false };
            end = next.end;
        }
        end == have.end
    }
}

/// How much is mapped, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MappedSizes {
    /// All mappings.
    pub all: u64,
    /// Those that can be executed and not written to.
    pub executable: u64,
}

impl MappedSizes {
    /// Reads the text of `/proc/PID/status`. Nothing where a line is missing.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<MappedSizes> {
        let (mut all, mut own, mut of_libraries) = (None, None, None);
        for line in text.split(|&byte| byte == b'\n') {
            if let Some(rest) = line.strip_prefix(b"VmSize:") {
                all = number(rest);
            } else if let Some(rest) = line.strip_prefix(b"VmExe:") {
                own = number(rest);
            } else if let Some(rest) = line.strip_prefix(b"VmLib:") {
                of_libraries = number(rest);
                break;
            }
        }
        // The program's own share is what the bounds say that a run can move, and the rest is the libraries'.
        Some(MappedSizes { all: all?, executable: own?.checked_add(of_libraries?)? })
    }
}

/// The number that follows some blanks.
fn number(text: &[u8]) -> Option<u64> {
    let mut value = None;
    for byte in text.trim_ascii_start() {
        let digit = match byte {
            b'0'..=b'9' => u64::from(byte - b'0'),
            _ => return value,
        };
        value = Some(value.unwrap_or(0u64).checked_mul(10)?.checked_add(digit)?);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use vma_flags::{EXEC, FILE, HANDS_OFF, READ, WIPE, WRITE};

    fn of_file(start: u64, end: u64, flags: u32) -> VmaEntry {
        VmaEntry { start, end, offset: start - 0x1000, inode: 7, flags: flags | FILE, ..VmaEntry::default() }
    }

    fn anonymous(start: u64, end: u64, flags: u32) -> VmaEntry {
        VmaEntry { start, end, flags, ..VmaEntry::default() }
    }

    fn heap(start: u64, end: u64, flags: u32) -> VmaEntry {
        anonymous(start, end, READ | WRITE | flags)
    }

    /// A library, a heap of which a part is wiped on fork, and what belongs to the kernel.
    fn image() -> [VmaEntry; 7] {
        [
            of_file(0x1000, 0x2000, READ),
            of_file(0x2000, 0x5000, READ | EXEC),
            of_file(0x5000, 0x6000, READ | WRITE),
            heap(0x8000, 0x9000, 0),
            heap(0x9000, 0xa000, WIPE),
            heap(0xa000, 0xc000, 0),
            anonymous(0xf000, 0x1_1000, READ | EXEC | HANDS_OFF),
        ]
    }

    /// As the kernel tells the image's mappings.
    fn body() -> [VmaEntry; 6] {
        [
            of_file(0x1000, 0x2000, READ),
            of_file(0x2000, 0x5000, READ | EXEC),
            of_file(0x5000, 0x6000, READ | WRITE),
            heap(0x8000, 0x9000, 0),
            heap(0x9000, 0xc000, 0),
            anonymous(0xf000, 0x1_1000, READ),
        ]
    }

    fn equals(mut comparison: Comparison<'_>, have: &[VmaEntry]) -> bool {
        for vma in have {
            comparison.add(*vma);
        }
        comparison.is_equal()
    }

    /// Whether all mappings are told to be equal, and those that can be written to.
    fn verdicts(have: &[VmaEntry]) -> (bool, bool) {
        let image = image();
        let mut writable = Comparison::with_writable(&image);
        for vma in have.iter().filter(|vma| vma.flags & WRITE != 0) {
            writable.add(*vma);
        }
        (equals(Comparison::with_all(&image), have), writable.is_equal())
    }

    #[test]
    fn mappings_that_a_body_was_given_are_equal() {
        assert_eq!(verdicts(&body()), (true, true));
        assert!(equals(Comparison::with_all(&[]), &[]));
        // Split where nobody sees a difference.
        let [a, b, c, d, _, f] = body();
        let split = [a, b, c, d, heap(0x9000, 0xb000, 0), heap(0xb000, 0xc000, 0), f];
        assert_eq!(verdicts(&split), (true, true));
    }

    #[test]
    fn what_is_missing_or_new_or_moved_differs() {
        for at in 0..6 {
            let can_be_written = body()[at].flags & WRITE != 0;
            let mut left = body().to_vec();
            left.remove(at);
            assert_eq!(verdicts(&left), (false, !can_be_written), "without {at}");
            let mut protected = body();
            protected[at].flags ^= WRITE;
            let is_ours = at != 5;
            assert_eq!(verdicts(&protected), (!is_ours, false), "{at} protected");
            let mut moved = body();
            moved[at].end -= 0x800;
            assert_eq!(verdicts(&moved), (false, !can_be_written), "{at} is shorter");
        }
        let mut more = body().to_vec();
        more.push(heap(0x20_0000, 0x20_1000, 0));
        assert_eq!(verdicts(&more), (false, false));
        more.pop();
        more.insert(0, anonymous(0, 0x1000, READ));
        assert_eq!(verdicts(&more), (false, true));
    }

    #[test]
    fn another_file_or_another_place_in_it_differs() {
        for change in [
            |vma: &mut VmaEntry| vma.inode += 1,
            |vma: &mut VmaEntry| vma.dev_minor += 1,
            |vma: &mut VmaEntry| vma.offset += 0x1000,
            |vma: &mut VmaEntry| vma.flags |= vma_flags::SHARED,
        ] {
            let mut other = body();
            change(&mut other[2]);
            assert_eq!(verdicts(&other), (false, false));
            let mut other = body();
            change(&mut other[1]);
            assert_eq!(verdicts(&other), (false, true));
        }
    }

    #[test]
    fn a_difference_is_told_as_soon_as_it_is_known() {
        let image = image();
        let mut comparison = Comparison::with_writable(&image);
        assert!(comparison.add(heap(0x3000, 0x4000, 0)), "the next one may belong to it");
        assert!(!comparison.add(heap(0x8000, 0x9000, 0)));
        assert!(!comparison.add(heap(0x9000, 0xc000, 0)));
        assert!(!comparison.is_equal());
    }

    #[test]
    fn sizes_are_read_from_a_status() {
        let text =
            b"Name:\tpython3\nVmPeak:\t   99 kB\nVmSize:\t   19884 kB\nVmData:\t  360 kB\nVmStk:\t 132 kB\n\
            VmExe:\t      32 kB\nVmLib:\t    1764 kB\nVmPTE:\t      76 kB\n";
        let sizes = MappedSizes { all: 19884, executable: 1796 };
        assert_eq!(MappedSizes::read(text), Some(sizes));
        // Cut off, of a task without memory, or too large to be true.
        assert_eq!(MappedSizes::read(&text[..60]), None);
        assert_eq!(MappedSizes::read(b"Name:\tkthreadd\nState:\tS (sleeping)\n"), None);
        assert_eq!(
            MappedSizes::read(b"VmSize:\t99999999999999999999 kB\nVmExe:\t0 kB\nVmLib:\t0 kB\n"),
            None
        );
        assert_eq!(MappedSizes::read(b"VmSize:\t kB\nVmExe:\t0 kB\nVmLib:\t0 kB\n"), None);
    }
}
