//! The executable and the libraries of this process, by an address in their code.
//!
//! glibc tells the module of an address without a lock (`_dl_find_object`, 2.35); its first page has the rest. Other C libraries list all modules.
//! What a module is, is worked out once, and kept in a table that has room for [`KEPT`] of them.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use regrow_abi::sites::{image_of_build_id, image_of_file};

use crate::sys;

/// Where the kernel tells the program's file.
pub const OWN_FILE: &CStr = c"/proc/self/exe";

/// Modules that are kept.
const KEPT: usize = 32;

/// Kinds of program headers, and of the note with the build id.
const LOADED: u32 = 1;
const NOTE: u32 = 4;
const FRAMES: u32 = 0x6474_e550;
const BUILD_ID: u32 = 3;

/// A program header.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    bytes: u64,
    alignment: u64,
}

/// A module.
#[derive(Clone, Copy)]
pub struct Module {
    /// Where it begins, and the byte behind its end.
    start: usize,
    end: usize,
    /// What is added to the addresses of its file.
    base: usize,
    /// A C string; of the program it is empty.
    name: *const u8,
    headers: *const Header,
    count: usize,
}

/// What is kept of a module. The first word is written last.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    name: AtomicUsize,
    identity: AtomicU64,
}

static ENTRIES: [Entry; KEPT] = [const {
    Entry {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        name: AtomicUsize::new(0),
        identity: AtomicU64::new(0),
    }
}; KEPT];
/// How many entries were taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// glibc's `struct dl_find_object`.
#[repr(C)]
struct Found {
    flags: u64,
    start: usize,
    end: usize,
    map: *const LinkMap,
    frames: usize,
    rest: [u64; 8],
}

/// The public part of the loader's `struct link_map`.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const u8,
}

/// `struct dl_phdr_info`.
#[repr(C)]
struct Listed {
    base: usize,
    name: *const u8,
    headers: *const Header,
    count: u16,
}

type Find = unsafe extern "C" fn(usize, *mut Found) -> c_int;
type Each = unsafe extern "C" fn(
    unsafe extern "C" fn(*const Listed, usize, *mut c_void) -> c_int,
    *mut c_void,
) -> c_int;

unsafe extern "C" {
    static sites_find_object: Option<Find>;
    static sites_each_object: Option<Each>;
}

/// What is looked for in the list of modules.
struct Search {
    address: usize,
    found: Option<Module>,
}

/// Whether the C library is glibc.
pub fn is_glibc() -> bool {
    // SAFETY: a word that the loader has set before any code here runs.
    unsafe { sites_find_object }.is_some()
}

impl Module {
    /// The module that has an address.
    pub fn at(address: usize) -> Option<Module> {
        // SAFETY: words that the loader has set before any code here runs.
        if let Some(find) = unsafe { sites_find_object } {
            return Module::find(find, address);
        }
        // SAFETY: as above.
        let each = unsafe { sites_each_object }?;
        let mut search = Search { address, found: None };
        // SAFETY: the function is called with the structure, and with it only.
        unsafe { each(compare, (&raw mut search).cast()) };
        search.found
    }

    fn find(find: Find, address: usize) -> Option<Module> {
        let mut found = Found { flags: 0, start: 0, end: 0, map: core::ptr::null(), frames: 0, rest: [0; 8] };
        // SAFETY: the structure is live, and not smaller than the C library's.
        if unsafe { find(address, &raw mut found) } != 0 || found.map.is_null() {
            return None;
        }
        let first: *const u8 = core::ptr::with_exposed_provenance(found.start);
        // SAFETY: the module has the address, so it is loaded; its first page is mapped, and its map is the loader's.
        unsafe {
            let map = found.map.read();
            let (headers, count) = headers_of(first)?;
            Some(Module {
                start: found.start,
                end: found.end,
                base: map.base,
                name: map.name,
                headers,
                count,
            })
        }
    }

    /// What is added to the addresses of its file.
    pub fn base(&self) -> usize {
        self.base
    }

    /// The path that the loader has for it; empty: it is the program.
    pub fn name(&self) -> &[u8] {
        // SAFETY: the loader's string, which lives as long as the module.
        unsafe { crate::text::bytes_of(self.name) }
    }

    /// The module's image, and whether this process meets it for the first time.
    pub fn meet(&self) -> (u64, bool) {
        if let Some(entry) = ENTRIES.iter().find(|entry| self.is_in(entry)) {
            return (entry.identity.load(Relaxed), false);
        }
        let identity = self.look_at_identity();
        if let Some(entry) = ENTRIES.get(TAKEN.fetch_add(1, Relaxed).min(KEPT)) {
            entry.end.store(self.end, Relaxed);
            entry.name.store(self.name as usize, Relaxed);
            entry.identity.store(identity, Relaxed);
            entry.start.store(self.start, Release);
        }
        (identity, true)
    }

    /// A library that was loaded where another one was has another end, or another string for its name.
    fn is_in(&self, entry: &Entry) -> bool {
        entry.start.load(Acquire) == self.start
            && entry.end.load(Relaxed) == self.end
            && entry.name.load(Relaxed) == self.name as usize
    }

    fn look_at_identity(&self) -> u64 {
        if let Some(build_id) = self.build_id() {
            return image_of_build_id(build_id);
        }
        // SAFETY: the loader's string.
        let is_program = unsafe { *self.name } == 0;
        let path = if is_program { OWN_FILE.as_ptr().cast() } else { self.name };
        sys::identity(path)
            .map_or(0, |(device, inode, changed, size)| image_of_file(device, inode, changed, size))
    }

    /// The program headers of a kind.
    fn of_kind(&self, kind: u32) -> impl Iterator<Item = Header> {
        let headers = self.headers;
        // SAFETY: the loader has mapped so many headers there.
        (0..self.count).map(move |at| unsafe { *headers.add(at) }).filter(move |header| header.kind == kind)
    }

    /// Part of the module, if it lies in it.
    fn part(&self, address: u64, bytes: u64) -> Option<&[u8]> {
        let (from, bytes) = (self.base.wrapping_add(address as usize), bytes as usize);
        let is_inside = from >= self.start && from.checked_add(bytes)? <= self.end;
        // SAFETY: it is part of what the loader has mapped, and nobody writes to notes and tables.
        is_inside
            .then(|| unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(from), bytes) })
    }

    /// The build id of a note: name and description stand behind their lengths, each filled up to four bytes.
    fn build_id(&self) -> Option<&[u8]> {
        for header in self.of_kind(NOTE) {
            let mut rest = self.part(header.address, header.bytes)?;
            while let Some((head, behind)) = rest.split_first_chunk::<12>() {
                let word = |at: usize| {
                    head.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
                };
                let (name_bytes, bytes) = (word(0) as usize, word(4) as usize);
                let Some((name, behind)) = behind.split_at_checked(name_bytes.next_multiple_of(4)) else {
                    break;
                };
                let Some(description) = behind.get(..bytes) else { break };
                if word(8) == BUILD_ID && name.starts_with(b"GNU\0") && !description.is_empty() {
                    return Some(description);
                }
                rest = behind.get(bytes.next_multiple_of(4)..).unwrap_or(&[]);
            }
        }
        None
    }

    /// The table by which frames are found, and the segment that it stands in from there on.
    pub fn frames(&self) -> Option<(&[u8], &[u8])> {
        let header = self.of_kind(FRAMES).next()?;
        let table = self.part(header.address, header.bytes)?;
        let is_around = |segment: &Header| {
            (segment.address..segment.address.saturating_add(segment.bytes)).contains(&header.address)
        };
        let segment = self.of_kind(LOADED).find(is_around)?;
        Some((table, self.part(segment.address, segment.bytes)?))
    }
}

/// The program headers behind the first page of a file that is mapped.
///
/// # Safety
/// The page is mapped.
unsafe fn headers_of(first: *const u8) -> Option<(*const Header, usize)> {
    const MAGIC: [u8; 5] = *b"\x7fELF\x02";
    const TABLE_AT: usize = 32;
    const SIZE_AT: usize = 54;
    const COUNT_AT: usize = 56;
    const PAGE: usize = 4096;
    // SAFETY: see the contract.
    unsafe {
        if first.cast::<[u8; 5]>().read() != MAGIC {
            return None;
        }
        let table = first.add(TABLE_AT).cast::<u64>().read() as usize;
        let size = usize::from(first.add(SIZE_AT).cast::<u16>().read());
        let count = usize::from(first.add(COUNT_AT).cast::<u16>().read());
        let is_there = size == size_of::<Header>()
            && table.is_multiple_of(8)
            && table < PAGE
            && table + count * size <= PAGE;
        is_there.then(|| (first.add(table).cast(), count))
    }
}

/// Looks whether a module of the list has the address.
unsafe extern "C" fn compare(listed: *const Listed, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the C library's structure, and the one that was handed over.
    let (listed, search) = unsafe { (&*listed, &mut *search.cast::<Search>()) };
    let mut module = Module {
        start: usize::MAX,
        end: 0,
        base: listed.base,
        name: listed.name,
        headers: listed.headers,
        count: usize::from(listed.count),
    };
    let (mut start, mut end) = (usize::MAX, 0);
    for segment in module.of_kind(LOADED) {
        let from = listed.base.wrapping_add(segment.address as usize);
        start = start.min(from);
        end = end.max(from.wrapping_add(segment.bytes as usize));
    }
    (module.start, module.end) = (start, end);
    let has = (start..end).contains(&search.address);
    if has {
        search.found = Some(module);
    }
    c_int::from(has)
}
