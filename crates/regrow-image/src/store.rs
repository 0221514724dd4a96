//! An image's store: the memfd with its header, tables and saved pages, as `regrow-abi` draws it. This file alone computes
//! where a part of it stands.

#![allow(unsafe_code, reason = "plain types are written as the bytes that they are")]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use regrow_abi::{ImageHeader, PAGE_BYTES, PAGE_IN_SEED, PAGE_LEN, PageEntry, VmaEntry};
use regrow_sys::maps::Mapping;
use regrow_sys::raw;
use rustix::fs::{SealFlags, fcntl_add_seals};

/// What the header and the floating-point state are aligned to: a cache line, which loading the state wants.
const ALIGN_BYTES: u64 = 64;

/// Where the parts of the store start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreLayout {
    vmas: u64,
    pages: u64,
    paths: u64,
    float_state: u64,
    float_state_bytes: u32,
    saved: u64,
    end: u64,
}

impl StoreLayout {
    /// Lays out a store for so many mappings and saved pages.
    pub(crate) fn new(vmas: usize, pages: usize, paths: &PathTable, float_state: &[u8]) -> StoreLayout {
        let vmas_at = (size_of::<ImageHeader>() as u64).next_multiple_of(ALIGN_BYTES);
        let pages_at = vmas_at + (vmas * size_of::<VmaEntry>()) as u64;
        let paths_at = pages_at + (pages * size_of::<PageEntry>()) as u64;
        let float_state_at = (paths_at + paths.bytes.len() as u64).next_multiple_of(ALIGN_BYTES);
        let saved = (float_state_at + float_state.len() as u64).next_multiple_of(PAGE_BYTES);
        StoreLayout {
            vmas: vmas_at,
            pages: pages_at,
            paths: paths_at,
            float_state: float_state_at,
            float_state_bytes: u32::try_from(float_state.len()).unwrap_or(0),
            saved,
            end: saved + pages as u64 * PAGE_BYTES,
        }
    }

    /// Bytes of the store.
    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }

    /// Tells the agent where the parts are.
    pub(crate) fn note_in(&self, header: &mut ImageHeader) {
        header.vmas_offset = self.vmas;
        header.pages_offset = self.pages;
        header.float_state_offset = self.float_state;
        header.float_state_bytes = self.float_state_bytes;
        header.store_offset = self.saved;
    }
}

/// The paths of the mapped files, so that a reset can map again what a run unmapped.
#[derive(Debug, Default)]
pub(crate) struct PathTable {
    bytes: Vec<u8>,
    /// Start of a mapping, and where its path stands in `bytes`.
    of: Vec<(u64, u64)>,
}

impl PathTable {
    /// The paths of these mappings.
    pub(crate) fn new(mapped: &[Mapping]) -> PathTable {
        let mut paths = PathTable::default();
        let mut last: Option<(&Path, u64)> = None;
        for mapping in mapped.iter().filter(|mapping| !mapping.name.is_memfd()) {
            let Some(path) = mapping.name.path() else { continue };
            let at = match last {
                Some((known, at)) if known == path => at,
                _ => {
                    let at = paths.bytes.len() as u64;
                    paths.bytes.extend_from_slice(path.as_os_str().as_bytes());
                    paths.bytes.push(0);
                    at
                }
            };
            last = Some((path, at));
            paths.of.push((mapping.start, at));
        }
        paths
    }

    /// A mapping with the place of its path in the store.
    fn with_path(&self, vma: &VmaEntry, layout: &StoreLayout) -> VmaEntry {
        let at = self.of.iter().find(|path| path.0 == vma.start).map(|path| layout.paths + path.1);
        let path_offset = at.and_then(|at| u32::try_from(at).ok()).unwrap_or(0);
        VmaEntry { path_offset, ..*vma }
    }
}

/// What is written to a store.
pub(crate) struct StoreContents<'a> {
    pub(crate) header: &'a ImageHeader,
    pub(crate) vmas: &'a [VmaEntry],
    pub(crate) pages: &'a [PageEntry],
    pub(crate) paths: &'a PathTable,
    pub(crate) float_state: &'a [u8],
    /// What the saved pages hold, one after the other.
    pub(crate) saved: &'a [u8],
}

/// Writes a store, and seals it.
pub(crate) fn write(
    store: BorrowedFd<'_>,
    layout: &StoreLayout,
    contents: &StoreContents<'_>,
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(usize::try_from(layout.saved).unwrap_or(0));
    bytes.extend_from_slice(bytes_of_header(contents.header));
    pad(&mut bytes, layout.vmas);
    for vma in contents.vmas {
        bytes.extend_from_slice(bytes_of_vma(&contents.paths.with_path(vma, layout)));
    }
    for page in contents.pages {
        bytes.extend_from_slice(&page.address_and_flags.to_ne_bytes());
    }
    bytes.extend_from_slice(&contents.paths.bytes);
    pad(&mut bytes, layout.float_state);
    bytes.extend_from_slice(contents.float_state);
    pad(&mut bytes, layout.saved);
    let mut file = File::from(store.try_clone_to_owned()?);
    file.write_all(&bytes)?;
    file.write_all(contents.saved)?;
    seal(store)
}

/// A copy of a store that has no content of some of its saved pages: they are holes, and their entries say so.
pub(crate) fn without(
    store: BorrowedFd<'_>,
    header: &ImageHeader,
    pages: &[PageEntry],
    left_out: &[bool],
) -> io::Result<OwnedFd> {
    let saved_at = header.store_offset;
    let copy = raw::memfd(NAME, saved_at + pages.len() as u64 * PAGE_BYTES)?;
    let (from, to) = (File::from(store.try_clone_to_owned()?), File::from(copy.try_clone()?));
    let mut tables = vec![0; usize::try_from(saved_at).unwrap_or(0)];
    from.read_exact_at(&mut tables, 0)?;
    let entries = tables.get_mut(usize::try_from(header.pages_offset).unwrap_or(0)..).unwrap_or_default();
    for ((entry, page), _) in entries.chunks_exact_mut(8).zip(pages).zip(left_out).filter(|(_, out)| **out) {
        entry.copy_from_slice(&(page.address_and_flags | PAGE_IN_SEED).to_ne_bytes());
    }
    to.write_all_at(&tables, 0)?;
    let mut page = [0; PAGE_LEN];
    for (index, _) in left_out.iter().enumerate().filter(|(_, left_out)| !**left_out) {
        read_saved(store, header, index, &mut page)?;
        to.write_all_at(&page, saved_at + index as u64 * PAGE_BYTES)?;
    }
    seal(copy.as_fd())?;
    Ok(copy)
}

/// The name of a store, as the kernel shows it.
pub(crate) const NAME: &str = "regrow-image";

fn seal(store: BorrowedFd<'_>) -> io::Result<()> {
    fcntl_add_seals(store, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(())
}

/// Reads saved pages of a store, from the one of this index on.
pub(crate) fn read_saved(
    store: BorrowedFd<'_>,
    header: &ImageHeader,
    index: usize,
    pages: &mut [u8],
) -> io::Result<()> {
    let mut at = header.store_offset + index as u64 * PAGE_BYTES;
    let mut rest = pages;
    while !rest.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::pread(store, &mut *rest, at))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => {
                at += got as u64;
                rest = rest.get_mut(got..).unwrap_or_default();
            }
        }
    }
    Ok(())
}

fn pad(bytes: &mut Vec<u8>, to: u64) {
    bytes.resize(usize::try_from(to).unwrap_or(bytes.len()), 0);
}

fn bytes_of_header(header: &ImageHeader) -> &[u8] {
    // SAFETY: `ImageHeader` is `repr(C)` of integers without padding (its size is asserted as their sum).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(header).cast(), size_of::<ImageHeader>()) }
}

fn bytes_of_vma(vma: &VmaEntry) -> &[u8] {
    // SAFETY: `VmaEntry` is `repr(C)` of integers without padding (its size is asserted as their sum).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(vma).cast(), size_of::<VmaEntry>()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::mem::MaybeUninit;

    use regrow_abi::PAGE_WAS_ANONYMOUS;
    use regrow_sys::maps::parse_maps;

    use super::*;

    /// A header of zeros.
    pub(crate) fn header() -> ImageHeader {
        // SAFETY: integers, of which zero is one.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }

    fn paths() -> PathTable {
        let text = b"1000-2000 r-xp 00000000 00:01 7                          /lib/a\n\
            2000-3000 rw-p 00001000 00:01 7                          /lib/a\n\
            3000-4000 rw-p 00000000 00:00 0 \n\
            4000-5000 r--p 00000000 00:01 8                          /lib/b\n";
        PathTable::new(&parse_maps(text).expect("as the kernel writes it"))
    }

    #[test]
    fn the_parts_follow_one_another_and_are_aligned() {
        for (vmas, pages, float_bytes) in [(0, 0, 0), (1, 3, 576), (7, 2, 2696), (40, 300, 11_008)] {
            let (paths, float_state) = (paths(), vec![0; float_bytes]);
            let layout = StoreLayout::new(vmas, pages, &paths, &float_state);
            assert!(layout.vmas >= size_of::<ImageHeader>() as u64);
            assert_eq!(layout.pages, layout.vmas + 48 * vmas as u64);
            assert_eq!(layout.paths, layout.pages + 8 * pages as u64);
            assert!(layout.float_state >= layout.paths + paths.bytes.len() as u64);
            assert!(layout.saved >= layout.float_state + float_bytes as u64);
            assert_eq!(layout.bytes(), layout.saved + pages as u64 * PAGE_BYTES);
            assert!(layout.vmas.is_multiple_of(8) && layout.float_state.is_multiple_of(64));
            assert!(layout.saved.is_multiple_of(PAGE_BYTES));
        }
    }

    #[test]
    fn the_path_of_a_file_stands_once_and_is_found_by_its_mappings() {
        let paths = paths();
        assert_eq!(paths.bytes, b"/lib/a\0/lib/b\0");
        let layout = StoreLayout::new(4, 0, &paths, &[]);
        let offset = |start: u64| {
            let vma = VmaEntry { start, ..VmaEntry::default() };
            u64::from(paths.with_path(&vma, &layout).path_offset)
        };
        assert_eq!((offset(0x1000), offset(0x2000)), (layout.paths, layout.paths));
        assert_eq!((offset(0x3000), offset(0x4000)), (0, layout.paths + 7));
    }

    #[test]
    fn what_is_written_is_read_back_and_cannot_be_changed() {
        let (paths, float_state) = (paths(), [7; 100]);
        let vmas = [VmaEntry { start: 0x1000, end: 0x2000, ..VmaEntry::default() }];
        let pages = [PageEntry { address_and_flags: 0x1001 }, PageEntry { address_and_flags: 0x2000 }];
        let layout = StoreLayout::new(vmas.len(), pages.len(), &paths, &float_state);
        let mut header = header();
        layout.note_in(&mut header);
        assert_eq!(header.float_state_bytes, 100);
        let saved: Vec<u8> = [vec![1; PAGE_LEN], vec![2; PAGE_LEN]].concat();
        let store = regrow_sys::raw::memfd("regrow-test", 0).expect("a memfd");
        let contents = StoreContents {
            header: &header,
            vmas: &vmas,
            pages: &pages,
            paths: &paths,
            float_state: &float_state,
            saved: &saved,
        };
        write(store.as_fd(), &layout, &contents).expect("there is memory");
        let mut both = vec![0; 2 * PAGE_LEN];
        read_saved(store.as_fd(), &header, 0, &mut both).expect("they are there");
        assert!(both == saved);
        let mut second = vec![0; PAGE_LEN];
        read_saved(store.as_fd(), &header, 1, &mut second).expect("it is there");
        assert!(second == saved[PAGE_LEN..]);
        assert!(read_saved(store.as_fd(), &header, 1, &mut both).is_err());
        let file = File::from(store);
        let mut word = [0; 8];
        file.read_exact_at(&mut word, header.pages_offset).expect("the table of pages");
        assert_eq!(u64::from_ne_bytes(word), 0x1001);
        file.read_exact_at(&mut word, header.vmas_offset + 8).expect("the table of mappings");
        assert_eq!(u64::from_ne_bytes(word), 0x2000);
        file.read_exact_at(&mut word, header.float_state_offset).expect("the floating-point state");
        assert_eq!(word, [7; 8]);
        assert_eq!(file.metadata().expect("it is open").len(), layout.bytes());
        assert!(file.write_at(&[0], 0).is_err());
    }

    #[test]
    fn what_is_left_out_of_a_copy_is_a_hole_and_noted() {
        const PAGES: usize = 64;
        let (paths, float_state) = (paths(), [7; 100]);
        let pages: Vec<_> = (1..=PAGES as u64)
            .map(|page| PageEntry { address_and_flags: (page * PAGE_BYTES) | PAGE_WAS_ANONYMOUS })
            .collect();
        let layout = StoreLayout::new(0, pages.len(), &paths, &float_state);
        let mut header = header();
        layout.note_in(&mut header);
        let saved: Vec<u8> = (1..=64).flat_map(|byte| [byte; PAGE_LEN]).collect();
        let store = raw::memfd("regrow-test", 0).expect("a memfd");
        let contents = StoreContents {
            header: &header,
            vmas: &[],
            pages: &pages,
            paths: &paths,
            float_state: &float_state,
            saved: &saved,
        };
        write(store.as_fd(), &layout, &contents).expect("there is memory");
        let left_out: Vec<bool> = (0..PAGES).map(|index| index % 8 != 0).collect();
        let copy = without(store.as_fd(), &header, &pages, &left_out).expect("there is memory");
        let mut read = vec![0; PAGES * PAGE_LEN];
        read_saved(copy.as_fd(), &header, 0, &mut read).expect("a hole is read as zeros");
        let (store, copy) = (File::from(store), File::from(copy));
        let mut word = [0; 8];
        for (index, page) in read.chunks_exact(PAGE_LEN).enumerate() {
            let is_there = index % 8 == 0;
            assert_eq!(page[9], if is_there { saved[index * PAGE_LEN] } else { 0 });
            copy.read_exact_at(&mut word, header.pages_offset + index as u64 * 8)
                .expect("the table of pages");
            let entry = PageEntry { address_and_flags: u64::from_ne_bytes(word) };
            assert_eq!((entry.address(), entry.is_in_seed()), (pages[index].address(), !is_there));
        }
        let allocated = |file: &File| rustix::fs::fstat(file).expect("it is open").st_blocks * 512 / 4096;
        assert_eq!(allocated(&store) - allocated(&copy), 56);
        assert_eq!(copy.metadata().expect("it is open").len(), layout.bytes());
        assert!(copy.write_at(&[0], 0).is_err());
    }
}
