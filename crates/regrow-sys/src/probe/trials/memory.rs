//! Trials about an address space: what is in it, and what belongs to it as a whole.

#![allow(unsafe_code, reason = "maps memory and asks the kernel about it")]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::probe::child::arg;
use crate::probe::outcome::{TrialError, TrialResult, expect};
use crate::probe::sheet::Sheet;
use crate::probe::wire::{self, MmMap, PageRegion, ProcmapQuery, ScanArgs};
use crate::raw;

/// Some pages of anonymous private memory, mapped for one trial.
pub(super) struct Pages {
    start: *mut u8,
    bytes: usize,
}

impl Pages {
    /// Maps so many pages, none of them present.
    pub(super) fn map(count: usize) -> Result<Self, TrialError> {
        let bytes = count * page_bytes();
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no memory in use is replaced.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, MapFlags::PRIVATE)? };
        Ok(Self { start: start.cast(), bytes })
    }

    /// The address of a page, or the end.
    pub(super) fn address(&self, page: usize) -> u64 {
        (self.start.addr() + page * page_bytes()) as u64
    }

    /// How many bytes there are.
    pub(super) fn len_bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Writes the first byte of a page.
    pub(super) fn write(&mut self, page: usize, value: u8) {
        // SAFETY: see `place`.
        unsafe { self.place(page).write_volatile(value) };
    }

    /// Reads the first byte of a page.
    pub(super) fn read(&self, page: usize) -> u8 {
        // SAFETY: see `place`.
        unsafe { self.place(page).read_volatile() }
    }

    /// The first byte of a page as the kernel would write it: a place for one byte.
    pub(super) fn first_byte(&mut self, page: usize) -> &mut [u8] {
        // SAFETY: see `place`; the borrow of the pages keeps others away.
        unsafe { std::slice::from_raw_parts_mut(self.place(page), 1) }
    }

    /// A byte that is mapped, readable and writable, as long as the value lives.
    fn place(&self, page: usize) -> *mut u8 {
        let last_page = self.bytes / page_bytes() - 1;
        self.start.wrapping_add(page.min(last_page) * page_bytes())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `map` mapped the range, and nothing outlives the value. A sealed mapping stays, and goes
        // with the examiner.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

/// Bytes of a page. The caller of the probe has asked before, so this is a load from memory.
fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Opens a file for reading, without an allocation.
pub(super) fn open_file(path: &CStr) -> Result<OwnedFd, TrialError> {
    Ok(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// An ioctl whose argument is a structure that the kernel reads and writes.
///
/// # Safety
/// The number is that of an ioctl with this structure, and every address in it is valid for what it does.
pub(super) unsafe fn ioctl<T>(file: &OwnedFd, number: usize, argument: &mut T) -> Result<usize, TrialError> {
    let place = (&raw mut *argument).expose_provenance();
    // SAFETY: the structure lives until the call returns; the rest is the caller's contract.
    let result = unsafe { raw::syscall(libc::SYS_ioctl, [arg(file.as_raw_fd()), number, place, 0, 0, 0]) };
    Ok(raw::check(result)?)
}

/// `prctl` with numbers.
///
/// # Safety
/// No argument is an address.
unsafe fn prctl(operation: usize, argument: usize) -> Result<usize, TrialError> {
    // SAFETY: the caller's contract.
    Ok(raw::check(unsafe { raw::syscall(libc::SYS_prctl, [operation, argument, 0, 0, 0, 0]) })?)
}

/// Of four pages, the one that was written is found.
pub(super) fn pagemap_scan(_: &Sheet) -> TrialResult {
    let mut pages = Pages::map(4)?;
    pages.write(2, 1);
    let pagemap = open_file(c"/proc/self/pagemap")?;
    let mut regions = [PageRegion::default(); 4];
    let mut args = ScanArgs {
        size: size_of::<ScanArgs>() as u64,
        start: pages.address(0),
        end: pages.address(4),
        vec: regions.as_mut_ptr().expose_provenance() as u64,
        vec_len: regions.len() as u64,
        category_inverted: wire::PAGE_IS_FILE,
        category_mask: wire::PAGE_IS_FILE,
        category_anyof_mask: wire::PAGE_IS_PRESENT | wire::PAGE_IS_SWAPPED,
        return_mask: wire::PAGE_IS_PRESENT,
        ..ScanArgs::default()
    };
    // SAFETY: the kernel writes at most `vec_len` regions to the array, which lives until the call returns.
    let found = unsafe { ioctl(&pagemap, wire::PAGEMAP_SCAN, &mut args)? };
    let written =
        PageRegion { start: pages.address(2), end: pages.address(3), categories: wire::PAGE_IS_PRESENT };
    expect(found == 1 && regions.first() == Some(&written))
}

/// The mapping of some pages is found, with its bounds and protection.
pub(super) fn procmap_query(_: &Sheet) -> TrialResult {
    let pages = Pages::map(2)?;
    let maps = open_file(c"/proc/self/maps")?;
    let mut query = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_addr: pages.address(1),
        ..ProcmapQuery::default()
    };
    // SAFETY: the query asks for no name and no build id, so there is no address in it to write to.
    unsafe { ioctl(&maps, wire::PROCMAP_QUERY, &mut query)? };
    let prot = wire::VMA_READABLE | wire::VMA_WRITABLE | wire::VMA_EXECUTABLE;
    expect(query.vma_start <= pages.address(0) && query.vma_end >= pages.address(2))?;
    expect(query.vma_flags & prot == wire::VMA_READABLE | wire::VMA_WRITABLE && query.inode == 0)
}

/// The bounds of the address space are set to what they are, as the kernel shows them.
pub(super) fn prctl_mm_map(_: &Sheet) -> TrialResult {
    let mut size: u32 = 0;
    let call = |operation: usize, place: usize, bytes: usize| {
        // SAFETY: `place` is that of a live `u32`, or of a live `MmMap` with its size; the kernel checks the
        // bounds in it, and they are those in force.
        raw::check(unsafe { raw::syscall(libc::SYS_prctl, [wire::PR_SET_MM, operation, place, bytes, 0, 0]) })
    };
    call(wire::PR_SET_MM_MAP_SIZE, (&raw mut size).expose_provenance(), 0)?;
    expect(size as usize >= size_of::<MmMap>())?;
    let map = own_bounds()?;
    call(wire::PR_SET_MM_MAP, (&raw const map).expose_provenance(), size_of::<MmMap>())?;
    let after = own_bounds()?;
    expect(after.arg_start == map.arg_start && after.env_end == map.env_end && after.brk == map.brk)
}

/// The bounds in force, from `/proc/self/stat`; its fields are counted from 1 in `proc_pid_stat(5)`.
fn own_bounds() -> Result<MmMap, TrialError> {
    let mut text = [0; 2048];
    let length = rustix::io::read(open_file(c"/proc/self/stat")?, &mut text)?;
    let text = text.get(..length).unwrap_or_default();
    // The second field is the name in parentheses, which may hold anything; no other has a parenthesis.
    let name_end = text.iter().rposition(|&byte| byte == b')').ok_or(TrialError::Misbehaves)?;
    let rest = text.get(name_end + 2..).unwrap_or_default().trim_ascii_end();
    let mut fields = [0; 52];
    for (field, word) in fields.iter_mut().skip(3).zip(rest.split(|&byte| byte == b' ')) {
        // Fields that are not numbers above zero (the state, priorities) are not used.
        *field = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()).unwrap_or_default();
    }
    // SAFETY: asks where the break is: 0 is never a place for it.
    let brk = raw::check(unsafe { raw::syscall(libc::SYS_brk, [0; 6]) })?;
    Ok(MmMap {
        start_code: fields[26],
        end_code: fields[27],
        start_stack: fields[28],
        start_data: fields[45],
        end_data: fields[46],
        start_brk: fields[47],
        arg_start: fields[48],
        arg_end: fields[49],
        env_start: fields[50],
        env_end: fields[51],
        brk: brk as u64,
        auxv: 0,
        auxv_size: 0,
        exe_fd: u32::MAX,
    })
}

/// A sealed mapping cannot be unmapped.
pub(super) fn mseal(_: &Sheet) -> TrialResult {
    let pages = Pages::map(1)?;
    let (start, bytes) = (pages.start, pages.bytes);
    // SAFETY: the range is a mapping of this trial; being sealed it stays until the examiner ends.
    raw::check(unsafe { raw::syscall(libc::SYS_mseal, [start.addr(), bytes, 0, 0, 0, 0]) })?;
    // SAFETY: nothing uses the range after this, whether it is unmapped or not.
    expect(unsafe { munmap(start.cast(), bytes) } == Err(rustix::io::Errno::PERM))
}

/// After it is set, memory cannot be made writable and executable.
pub(super) fn mdwe(_: &Sheet) -> TrialResult {
    // SAFETY: numbers only, which concern the examiner's address space alone.
    let get = || unsafe { prctl(wire::PR_GET_MDWE, 0) };
    get()?;
    // SAFETY: as above.
    unsafe { prctl(wire::PR_SET_MDWE, wire::PR_MDWE_REFUSE_EXEC_GAIN)? };
    expect(get()? & wire::PR_MDWE_REFUSE_EXEC_GAIN != 0)?;
    let prot = ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC;
    // SAFETY: the kernel chooses the place; nothing uses the mapping if there is one.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), page_bytes(), prot, MapFlags::PRIVATE) };
    expect(mapped == Err(rustix::io::Errno::ACCESS))
}

/// Merging can be turned on, is seen, and can be turned off again.
pub(super) fn memory_merge(_: &Sheet) -> TrialResult {
    // SAFETY: numbers only, which concern the examiner's address space alone.
    let get = || unsafe { prctl(wire::PR_GET_MEMORY_MERGE, 0) };
    // SAFETY: as above.
    let set = |on: usize| unsafe { prctl(wire::PR_SET_MEMORY_MERGE, on) };
    let before = get()?;
    set(1)?;
    expect(get()? == 1)?;
    set(0)?;
    expect(get()? == 0)?;
    set(before)?;
    Ok(())
}

/// The kernel knows contexts: it refuses one for no requests as an argument that is not valid.
///
/// None is made, because taking one down takes 20 to 30 ms: the kernel waits for all who might look at it.
pub(super) fn aio(_: &Sheet) -> TrialResult {
    let mut context: usize = 0;
    let place = (&raw mut context).expose_provenance();
    // SAFETY: the kernel writes at most one word to `context`, which lives and is zero, as it must be.
    match raw::check(unsafe { raw::syscall(libc::SYS_io_setup, [0, place, 0, 0, 0, 0]) }) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_context) => Err(TrialError::Misbehaves),
    }
}

/// A key can be allocated and freed.
pub(super) fn pkeys(_: &Sheet) -> TrialResult {
    // SAFETY: numbers only: no flags, no restriction of access.
    let key = raw::check(unsafe { raw::syscall(libc::SYS_pkey_alloc, [0; 6]) })?;
    // SAFETY: the key that was just allocated and that no memory has.
    raw::check(unsafe { raw::syscall(libc::SYS_pkey_free, [key, 0, 0, 0, 0, 0]) })?;
    expect(key != 0)
}
