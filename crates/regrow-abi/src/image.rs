//! The image memfd, as the agent reads it: header, table of mappings, table of saved pages.

use crate::arch::{PAGE_BYTES, Registers};

/// Most places that hold the thread id of the process (its thread descriptor).
pub const MAX_TID_WORDS: usize = 4;

/// Bits of [`VmaEntry::flags`].
pub mod vma_flags {
    /// Readable.
    pub const READ: u32 = 1 << 0;
    /// Writable.
    pub const WRITE: u32 = 1 << 1;
    /// Executable.
    pub const EXEC: u32 = 1 << 2;
    /// Shared, not private.
    pub const SHARED: u32 = 1 << 3;
    /// Backed by a file.
    pub const FILE: u32 = 1 << 8;
    /// The main stack.
    pub const STACK: u32 = 1 << 9;
    /// Belongs to the kernel (vdso, vvar) or to the agent: compared, never touched.
    pub const HANDS_OFF: u32 = 1 << 10;
    /// Wiped on fork: zeroed at each reset.
    pub const WIPE: u32 = 1 << 11;
    /// Left out of core dumps.
    pub const NO_DUMP: u32 = 1 << 12;
    /// Advised against huge pages, as the kernel does with mappings for stacks (`MAP_STACK`, Linux 6.7).
    pub const NO_HUGE: u32 = 1 << 13;
    /// Protection and sharing bits.
    pub const PROTECTION: u32 = READ | WRITE | EXEC | SHARED;
}

/// One mapping of the image. Neighbours that differ in nothing are one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VmaEntry {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Inode of the file, or zero.
    pub inode: u64,
    /// Device of the file.
    pub dev_major: u32,
    /// Device of the file.
    pub dev_minor: u32,
    /// [`vma_flags`].
    pub flags: u32,
    /// Offset of the file's NUL-terminated path in the image memfd, or zero.
    pub path_offset: u32,
}

/// One saved page of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PageEntry {
    /// Its address; bit 0 is [`PAGE_WAS_ANONYMOUS`], bit 1 [`PAGE_IN_SEED`].
    pub address_and_flags: u64,
}

/// The page was anonymous at the snapshot: when it is not there after a run, it must be written again. A saved page
/// without this bit was still the file's own, so that a clean page needs nothing.
pub const PAGE_WAS_ANONYMOUS: u64 = 1;

/// The image memfd has a hole in the place of the page's content: the seed's memory alone has it.
pub const PAGE_IN_SEED: u64 = 2;

impl PageEntry {
    /// The page's address.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.address_and_flags & !(PAGE_BYTES - 1)
    }

    /// Whether the page was anonymous at the snapshot.
    #[must_use]
    pub const fn was_anonymous(self) -> bool {
        self.address_and_flags & PAGE_WAS_ANONYMOUS != 0
    }

    /// Whether the seed alone has the page's content.
    #[must_use]
    pub const fn is_in_seed(self) -> bool {
        self.address_and_flags & PAGE_IN_SEED != 0
    }
}

/// The snapshot points that the agent tells apart.
pub mod point {
    /// After exec, before the first instruction.
    pub const ENTRY: u32 = 0;
    /// At the call of `main`.
    pub const MAIN: u32 = 1;
    /// Where the program stopped itself.
    pub const WARM: u32 = 2;
}

/// Bits of [`ImageHeader::features`]: what the agent may use (the kernel has it, and it is not turned off).
pub mod features {
    /// `PAGEMAP_SCAN`; else `/proc/self/pagemap` is read.
    pub const PAGEMAP_SCAN: u32 = 1 << 0;
    /// `PROCMAP_QUERY`; else `/proc/self/maps` is read.
    pub const PROCMAP_QUERY: u32 = 1 << 1;
    /// The processor keeps more than the oldest floating-point registers, and the kernel saves all of it.
    pub const EXTENDED_STATE: u32 = 1 << 2;
    /// Protection keys: free those that a run allocated.
    pub const PKEYS: u32 = 1 << 3;
    /// `MEMBARRIER_CMD_GET_REGISTRATIONS`.
    pub const MEMBARRIER: u32 = 1 << 4;
    /// userfaultfd with `WP_ASYNC`: a reset looks at the pages that the run has written, not at all.
    pub const TRACK_WRITES: u32 = 1 << 5;
}

/// Start of the image memfd: all that the agent must know.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ImageHeader {
    /// [`PROTOCOL_VERSION`](crate::PROTOCOL_VERSION).
    pub version: u32,
    /// [`point`].
    pub point: u32,
    /// [`features`].
    pub features: u32,
    /// Length of the table of mappings.
    pub vma_count: u32,
    /// Length of the table of saved pages.
    pub page_count: u32,
    /// Bytes of the floating-point state.
    pub float_state_bytes: u32,
    /// Valid entries of `tid_words`.
    pub tid_word_count: u32,
    /// Size for `rseq`, or zero: none is registered.
    pub rseq_bytes: u32,
    /// Signature for `rseq`.
    pub rseq_signature: u32,
    /// `dumpable` at the snapshot.
    pub dumpable: u32,
    /// `membarrier` registrations at the snapshot.
    pub membarrier: u32,
    /// Memory merge (KSM) setting at the snapshot.
    pub memory_merge: u32,
    /// Transparent huge pages turned off at the snapshot.
    pub thp_disable: u32,
    /// Core dump filter at the snapshot.
    pub coredump_filter: u32,
    /// Most anonymous pages that were zero at the snapshot and stay mapped after a reset.
    pub hot_zero_pages: u32,
    /// `membarrier` registrations that a run may leave (musl registers one with the first thread).
    pub membarrier_tolerated: u32,
    /// Offset of the table of mappings in the image memfd.
    pub vmas_offset: u64,
    /// Offset of the table of saved pages.
    pub pages_offset: u64,
    /// Offset of the floating-point state.
    pub float_state_offset: u64,
    /// Offset of the first saved page.
    pub store_offset: u64,
    /// Program break at the snapshot.
    pub brk: u64,
    /// `struct rseq` of the main thread.
    pub rseq_address: u64,
    /// Robust futex list head, or zero.
    pub robust_list: u64,
    /// Its size.
    pub robust_list_bytes: u64,
    /// `clear_child_tid`, or zero.
    pub tid_address: u64,
    /// 32-bit words that hold the thread's id.
    pub tid_words: [u64; MAX_TID_WORDS],
    /// Where `AT_RANDOM` points to.
    pub random_address: u64,
    /// Where the stack canary is, or zero.
    pub canary_address: u64,
    /// The stack for signal handlers: address, flags, bytes (`stack_t`); no bytes: none.
    pub signal_stack: [u64; 3],
    /// The thread pointer.
    pub thread_pointer: u64,
    /// The process whose children seed, keepers and armed processes are. They end with it.
    pub parent: u64,
    /// First address of the agent's own mappings.
    pub agent_start: u64,
    /// One past their last address.
    pub agent_end: u64,
    /// The control area.
    pub control_address: u64,
    /// The keeper's private memory.
    pub private_address: u64,
    /// Two words of a front end's, for the address of the agent's function that waits for the order, and for its argument: the front
    /// end is woken ahead of its order, and calls it. Zero: it is woken when its process has the order.
    pub gate_address: u64,
    /// `start_code`, `end_code`, `start_data`, `end_data`, `start_brk`.
    pub layout: [u64; 5],
    /// `start_stack`, `arg_start`, `arg_end`, `env_start`, `env_end` at the snapshot.
    pub bounds: [u64; 5],
    /// Registers at the snapshot point.
    pub registers: Registers,
}

const _: () = {
    assert!(size_of::<VmaEntry>() == 48);
    assert!(size_of::<PageEntry>() == 8);
    assert!(size_of::<ImageHeader>() == 488);
    assert!(size_of::<ImageHeader>() <= PAGE_BYTES as usize);
};

#[cfg(test)]
mod tests {
    use core::mem::{align_of, offset_of};

    use super::*;

    #[test]
    fn an_address_and_its_bits_are_told_apart() {
        for address in [0, PAGE_BYTES, 0x7fff_ffff_f000] {
            let file = PageEntry { address_and_flags: address };
            let own = PageEntry { address_and_flags: address | PAGE_WAS_ANONYMOUS };
            let given_back = PageEntry { address_and_flags: address | PAGE_WAS_ANONYMOUS | PAGE_IN_SEED };
            assert_eq!((file.address(), file.was_anonymous(), file.is_in_seed()), (address, false, false));
            assert_eq!((own.address(), own.was_anonymous(), own.is_in_seed()), (address, true, false));
            assert_eq!(given_back.address(), address);
            assert!(given_back.was_anonymous() && given_back.is_in_seed());
        }
    }

    #[test]
    fn the_flags_of_a_mapping_do_not_overlap() {
        use vma_flags::{
            EXEC, FILE, HANDS_OFF, NO_DUMP, NO_HUGE, PROTECTION, READ, SHARED, STACK, WIPE, WRITE,
        };
        let all = [READ, WRITE, EXEC, SHARED, FILE, STACK, HANDS_OFF, WIPE, NO_DUMP, NO_HUGE];
        assert_eq!(all.iter().fold(0, |sum, flag| sum | flag).count_ones() as usize, all.len());
        assert_eq!(PROTECTION, READ | WRITE | EXEC | SHARED);
    }

    #[test]
    fn the_features_do_not_overlap() {
        use features::{EXTENDED_STATE, MEMBARRIER, PAGEMAP_SCAN, PKEYS, PROCMAP_QUERY, TRACK_WRITES};
        let all = [PAGEMAP_SCAN, PROCMAP_QUERY, EXTENDED_STATE, PKEYS, MEMBARRIER, TRACK_WRITES];
        assert_eq!(all.iter().fold(0, |sum, flag| sum | flag).count_ones() as usize, all.len());
    }

    #[test]
    fn the_header_has_no_padding() {
        let registers = offset_of!(ImageHeader, registers);
        assert_eq!(registers + size_of::<Registers>(), size_of::<ImageHeader>());
        // Sixteen words of 32 bits come first, and all others have 64.
        assert_eq!(offset_of!(ImageHeader, vmas_offset), 16 * 4);
        assert_eq!((size_of::<ImageHeader>() - 16 * 4) % 8, 0);
        assert_eq!(align_of::<ImageHeader>(), 8);
    }

    #[test]
    fn tables_of_entries_have_no_gaps() {
        assert_eq!(size_of::<[VmaEntry; 3]>(), 3 * 48);
        assert_eq!(offset_of!(VmaEntry, path_offset) + 4, size_of::<VmaEntry>());
        assert_eq!(size_of::<[PageEntry; 3]>(), 3 * 8);
    }
}
