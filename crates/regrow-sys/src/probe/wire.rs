//! Structures and numbers of the kernel's interface that the trials use and that libc does not have.
//!
//! Each structure has its size in the request number, so the sizes are asserted.

/// `CLONE_PIDFD`: the child comes with a descriptor.
pub(super) const CLONE_PIDFD: u64 = 1 << 12;
/// `CLONE_CLEAR_SIGHAND`: for `clone3` alone, it does not fit the flags of `clone`.
pub(super) const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;

/// `struct clone_args` as far as the first kernels with `clone3` have it.
#[repr(C)]
#[derive(Default)]
pub(super) struct CloneArgs {
    pub(super) flags: u64,
    pub(super) pidfd: u64,
    pub(super) child_tid: u64,
    pub(super) parent_tid: u64,
    pub(super) exit_signal: u64,
    pub(super) stack: u64,
    pub(super) stack_size: u64,
    pub(super) tls: u64,
}

/// `KCMP_VM`: compare address spaces.
pub(super) const KCMP_VM: usize = 1;

/// `MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED`.
pub(super) const MEMBARRIER_REGISTER: usize = 1 << 4;
/// `MEMBARRIER_CMD_GET_REGISTRATIONS`.
pub(super) const MEMBARRIER_GET_REGISTRATIONS: usize = 1 << 9;

/// `PR_SET_MM` and its operations on the whole map.
pub(super) const PR_SET_MM: usize = 35;
pub(super) const PR_SET_MM_MAP: usize = 14;
pub(super) const PR_SET_MM_MAP_SIZE: usize = 15;
/// Memory-deny-write-execute: set, get, and the flag that refuses to make writable memory executable.
pub(super) const PR_SET_MDWE: usize = 65;
pub(super) const PR_GET_MDWE: usize = 66;
pub(super) const PR_MDWE_REFUSE_EXEC_GAIN: usize = 1;
/// Merging of equal pages: set and get.
pub(super) const PR_SET_MEMORY_MERGE: usize = 67;
pub(super) const PR_GET_MEMORY_MERGE: usize = 68;

/// `RSEQ_FLAG_UNREGISTER`.
pub(super) const RSEQ_UNREGISTER: usize = 1;
/// The signature that C libraries register with.
pub(super) const RSEQ_SIGNATURE: usize = 0x5305_3053;

/// The number of an ioctl that reads and writes its argument.
const fn read_write(kind: u8, number: u8, bytes: usize) -> usize {
    3 << 30 | bytes << 16 | (kind as usize) << 8 | number as usize
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
pub(super) struct ScanArgs {
    pub(super) size: u64,
    pub(super) flags: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) walk_end: u64,
    pub(super) vec: u64,
    pub(super) vec_len: u64,
    pub(super) max_pages: u64,
    pub(super) category_inverted: u64,
    pub(super) category_mask: u64,
    pub(super) category_anyof_mask: u64,
    pub(super) return_mask: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageRegion {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) categories: u64,
}

pub(super) const PAGEMAP_SCAN: usize = read_write(b'f', 16, size_of::<ScanArgs>());
pub(super) const PAGE_IS_FILE: u64 = 1 << 2;
pub(super) const PAGE_IS_PRESENT: u64 = 1 << 3;
pub(super) const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// The bit of an entry of `/proc/PID/pagemap` for a page that is write-protected by userfaultfd.
pub(super) const PAGEMAP_WRITE_PROTECTED: u64 = 1 << 57;

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
pub(super) struct ProcmapQuery {
    pub(super) size: u64,
    pub(super) query_flags: u64,
    pub(super) query_addr: u64,
    pub(super) vma_start: u64,
    pub(super) vma_end: u64,
    pub(super) vma_flags: u64,
    pub(super) vma_page_size: u64,
    pub(super) vma_offset: u64,
    pub(super) inode: u64,
    pub(super) dev_major: u32,
    pub(super) dev_minor: u32,
    pub(super) vma_name_size: u32,
    pub(super) build_id_size: u32,
    pub(super) vma_name_addr: u64,
    pub(super) build_id_addr: u64,
}

pub(super) const PROCMAP_QUERY: usize = read_write(b'f', 17, size_of::<ProcmapQuery>());
/// Protection bits in `query_flags` (a filter, unused here) and `vma_flags` (the answer).
pub(super) const VMA_READABLE: u64 = 1;
pub(super) const VMA_WRITABLE: u64 = 1 << 1;
pub(super) const VMA_EXECUTABLE: u64 = 1 << 2;

/// `UFFD_USER_MODE_ONLY`: a userfaultfd that needs no privilege.
pub(super) const UFFD_USER_MODE_ONLY: usize = 1;
pub(super) const UFFD_API: u64 = 0xaa;
pub(super) const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
pub(super) const UFFD_FEATURE_MOVE: u64 = 1 << 16;
pub(super) const UFFD_REGISTER_MISSING: u64 = 1;
pub(super) const UFFD_REGISTER_WP: u64 = 1 << 1;
pub(super) const UFFD_WRITE_PROTECT: u64 = 1;

/// `struct uffdio_api`.
#[repr(C)]
#[derive(Default)]
pub(super) struct UffdApi {
    pub(super) api: u64,
    pub(super) features: u64,
    pub(super) ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
#[derive(Default)]
pub(super) struct UffdRegister {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) mode: u64,
    pub(super) ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
#[derive(Default)]
pub(super) struct UffdWriteProtect {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) mode: u64,
}

/// `struct uffdio_move`.
#[repr(C)]
#[derive(Default)]
pub(super) struct UffdMove {
    pub(super) dst: u64,
    pub(super) src: u64,
    pub(super) len: u64,
    pub(super) mode: u64,
    pub(super) moved: i64,
}

pub(super) const UFFDIO_API: usize = read_write(0xaa, 0x3f, size_of::<UffdApi>());
pub(super) const UFFDIO_REGISTER: usize = read_write(0xaa, 0, size_of::<UffdRegister>());
pub(super) const UFFDIO_WRITEPROTECT: usize = read_write(0xaa, 6, size_of::<UffdWriteProtect>());
pub(super) const UFFDIO_MOVE: usize = read_write(0xaa, 5, size_of::<UffdMove>());

/// `struct prctl_mm_map`.
#[repr(C)]
#[derive(Default)]
pub(super) struct MmMap {
    pub(super) start_code: u64,
    pub(super) end_code: u64,
    pub(super) start_data: u64,
    pub(super) end_data: u64,
    pub(super) start_brk: u64,
    pub(super) brk: u64,
    pub(super) start_stack: u64,
    pub(super) arg_start: u64,
    pub(super) arg_end: u64,
    pub(super) env_start: u64,
    pub(super) env_end: u64,
    pub(super) auxv: u64,
    pub(super) auxv_size: u32,
    pub(super) exe_fd: u32,
}

const _: () = assert!(size_of::<CloneArgs>() == 64);
const _: () = assert!(size_of::<ScanArgs>() == 96 && PAGEMAP_SCAN == 0xc060_6610);
const _: () = assert!(size_of::<PageRegion>() == 24);
const _: () = assert!(size_of::<ProcmapQuery>() == 104 && PROCMAP_QUERY == 0xc068_6611);
const _: () = assert!(UFFDIO_API == 0xc018_aa3f && UFFDIO_REGISTER == 0xc020_aa00);
const _: () = assert!(UFFDIO_WRITEPROTECT == 0xc018_aa06 && UFFDIO_MOVE == 0xc028_aa05);
const _: () = assert!(size_of::<MmMap>() == 104);
