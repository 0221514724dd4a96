//! Reads what an image keeps of a process that stands at its snapshot point: mappings, pages, pointers into the argument
//! block. Refuses states that could not be kept.

use std::fs;

use regrow_abi::{MAX_TID_WORDS, PAGE_BYTES, PAGE_WAS_ANONYMOUS, PageEntry, VmaEntry, vma_flags};
use regrow_sys::maps::{Mapping, SmapsEntry, VmFlag, read_smaps};

use crate::initial_stack::{InitialStack, at};
use crate::make::MakeError;
use crate::remote::Remote;
use crate::vmas::vma_table;

/// Bytes in a page, to index with.
const PAGE: usize = 4096;
const _: () = assert!(PAGE as u64 == PAGE_BYTES);

/// A pointer into the argument block (or the number of arguments), found in the image's writable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// To the first element of `argv`.
    Argv,
    /// No pointer, but the number of arguments.
    Argc,
    /// To the first element of `envp`.
    Envp,
    /// To this offset of the first argument's string.
    Argv0(u64),
    /// To the path that was given to exec; the value is the image's own.
    ExecPath(u64),
}

/// Mappings and pages of a process.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) vmas: Vec<VmaEntry>,
    pub(crate) pages: Vec<PageEntry>,
    /// Content of `pages`, in the same order.
    pub(crate) content: Vec<u8>,
}

impl Memory {
    /// The address of a front end's gate, if two words that can be written to are there.
    pub(crate) fn checked_gate(&self, address: u64) -> Result<u64, MakeError> {
        const BYTES: u64 = 16;
        let holds = |vma: &VmaEntry| {
            vma.start <= address && address.checked_add(BYTES).is_some_and(|end| end <= vma.end)
        };
        let is_its_own = |vma: &VmaEntry| {
            vma.flags & (vma_flags::WRITE | vma_flags::HANDS_OFF | vma_flags::SHARED) == vma_flags::WRITE
        };
        let is_fit = address.is_multiple_of(8) && self.vmas.iter().any(|vma| holds(vma) && is_its_own(vma));
        if address == 0 || is_fit {
            return Ok(address);
        }
        refuse(format!("its gate is at {address:x}, where it has no words that it can write to"))
    }
}

fn refuse<T>(what: impl Into<String>) -> Result<T, MakeError> {
    Err(MakeError::Refused(what.into()))
}

/// Checks what the task itself carries: one thread, no children, nothing blocked, only the descriptors that it was started
/// with, and no handlers, unless each run gets them (`handlers`).
pub(crate) fn check_task(pid: i32, fds: usize, handlers: bool) -> Result<(), MakeError> {
    let io = |what: &'static str| move |source| MakeError::Tracing { step: what, source };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(io("reading its threads"))?.count();
    if tasks != 1 {
        return refuse(format!("{tasks} threads at the snapshot point"));
    }
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    if !children.is_empty() {
        return refuse(format!("it has children at the snapshot point: {children}"));
    }
    let open: Vec<_> =
        fs::read_dir(format!("/proc/{pid}/fd")).map_err(io("reading its descriptors"))?.flatten().collect();
    if open.len() != fds {
        let names = open.iter().filter_map(|entry| fs::read_link(entry.path()).ok());
        let names = names.map(|name| name.display().to_string()).collect::<Vec<_>>().join(", ");
        let count = open.len().abs_diff(fds);
        return refuse(format!(
            "{count} descriptors were opened before the snapshot point; open are {names}"
        ));
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(io("reading its status"))?;
    let checked = [("SigBlk:", "blocked signals"), ("Seccomp:", "seccomp"), ("SigCgt:", "signal handlers")];
    for (field, what) in checked.into_iter().filter(|checked| !(handlers && checked.0 == "SigCgt:")) {
        let value = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0").trim();
        if value.bytes().any(|byte| byte != b'0') {
            return refuse(format!("{what} at the snapshot point ({value})"));
        }
    }
    Ok(())
}

/// Refuses mappings that a reset could not keep.
fn check_mapping(entry: &SmapsEntry) -> Result<(), MakeError> {
    const UNFIT: &[(VmFlag, &str)] = &[
        (VmFlag::DONT_COPY, "is not copied by fork"),
        (VmFlag::LOCKED, "is locked"),
        (VmFlag::HUGETLB, "is of huge pages"),
        (VmFlag::IO, "is of a device"),
        (VmFlag::PFN_MAP, "is of a device"),
        (VmFlag::SEALED, "is sealed"),
        (VmFlag::SHADOW_STACK, "is a shadow stack"),
        (VmFlag::UFFD_MISSING, "is watched by a userfaultfd"),
        (VmFlag::UFFD_WRITE_PROTECT, "is watched by a userfaultfd"),
        (VmFlag::MERGEABLE, "is merged by KSM"),
        (VmFlag::RANDOM_READ, "has advice"),
        (VmFlag::SEQUENTIAL_READ, "has advice"),
        (VmFlag::HUGE_PAGE, "has advice"),
    ];
    let mapping = &entry.mapping;
    let place = || format!("mapping {:x}-{:x}", mapping.start, mapping.end);
    if mapping.shared && mapping.write {
        return refuse(format!("{} is shared and writable", place()));
    }
    match UNFIT.iter().find(|unfit| entry.flags.has(unfit.0)) {
        Some(unfit) => refuse(format!("{} {}", place(), unfit.1)),
        None => Ok(()),
    }
}

/// Bytes below the stack pointer that a function may use without moving it.
const RED_ZONE_BYTES: u64 = 128;

/// Reads all that the image keeps. `stack_pointer` tells what of the stack is in use: pages wholly below are left out,
/// so that they are zero in every run.
pub(crate) fn read_memory(remote: &Remote, stack_pointer: u64) -> Result<Memory, MakeError> {
    let smaps = read_smaps(remote.pid())?;
    for entry in smaps.iter().filter(|entry| !entry.mapping.name.is_kernel_made()) {
        check_mapping(entry)?;
    }
    let mut memory = Memory { vmas: vma_table(&smaps, (0, 0)), ..Memory::default() };
    let pagemap = fs::File::open(format!("/proc/{}/pagemap", remote.pid()));
    let pagemap = pagemap.map_err(MakeError::tracing("opening its pagemap"))?;
    for index in 0..memory.vmas.len() {
        let Some(&vma) = memory.vmas.get(index) else { break };
        if vma.flags & (vma_flags::HANDS_OFF | vma_flags::SHARED | vma_flags::WIPE) == 0 {
            let live = if vma.flags & vma_flags::STACK == 0 { 0 } else { stack_pointer - RED_ZONE_BYTES };
            save_pages(remote, &pagemap, &vma, live & !(PAGE_BYTES - 1), &mut memory)?;
        }
    }
    Ok(memory)
}

/// Saves the pages of a mapping from the address `live` on.
fn save_pages(
    remote: &Remote,
    pagemap: &fs::File,
    vma: &VmaEntry,
    live: u64,
    memory: &mut Memory,
) -> Result<(), MakeError> {
    const PRESENT_OR_SWAPPED: u64 = 3 << 62;
    const FILE_OR_SHARED: u64 = 1 << 61;
    let pages = (vma.end - vma.start) / PAGE_BYTES;
    let mut words = vec![0u8; usize::try_from(pages * 8).unwrap_or(0)];
    crate::trace::read_exact_at(pagemap, vma.start / PAGE_BYTES * 8, &mut words)
        .map_err(MakeError::tracing("reading its pagemap"))?;
    let file = vma.flags & vma_flags::FILE != 0;
    let writable = vma.flags & vma_flags::WRITE != 0;
    for (index, word) in words.chunks_exact(8).enumerate() {
        let word = word.try_into().map_or(0, u64::from_ne_bytes);
        let anonymous = word & PRESENT_OR_SWAPPED != 0 && word & FILE_OR_SHARED == 0;
        // A clean page of a writable file mapping is saved too: the first run that writes it needs no lookup.
        let unsaved = !(anonymous || file && writable);
        if unsaved {
            continue;
        }
        if vma.flags & vma_flags::READ == 0 {
            return refuse(format!("mapping {:x} has pages but is not readable", vma.start));
        }
        let address = vma.start + index as u64 * PAGE_BYTES;
        if address < live {
            continue;
        }
        let mut page = [0u8; PAGE];
        if remote.read_into(address, &mut page).is_err() {
            // Beyond the end of its file: no process can have read or written it.
            continue;
        }
        // An untouched, or all-zero, page of an anonymous mapping needs no copy: zero is what it is reset to.
        if !file && page.iter().all(|&byte| byte == 0) {
            continue;
        }
        let flag = if anonymous { PAGE_WAS_ANONYMOUS } else { 0 };
        memory.pages.push(PageEntry { address_and_flags: address | flag });
        memory.content.extend_from_slice(&page);
    }
    Ok(())
}

impl Memory {
    fn is_writable(&self, address: u64) -> bool {
        self.vmas
            .iter()
            .any(|vma| vma.start <= address && address < vma.end && vma.flags & vma_flags::WRITE != 0)
    }

    /// All aligned words of saved, writable pages.
    fn words(&self) -> impl Iterator<Item = (u64, u64)> {
        let pages = self.pages.iter().zip(self.content.chunks_exact(PAGE));
        pages.filter(|(page, _)| self.is_writable(page.address())).flat_map(|(page, bytes)| {
            let words = bytes.chunks_exact(8).enumerate();
            words.map(move |(index, word)| {
                (page.address() + index as u64 * 8, word.try_into().map_or(0, u64::from_ne_bytes))
            })
        })
    }

    /// The pointers into the argument block that a run must get anew. The block's own arrays are not among them.
    ///
    /// A number that stands in the file already (`files` are the mappings) is a constant of the program.
    pub(crate) fn patches(
        &self,
        stack: &InitialStack,
        argv0: &[u8],
        files: &[Mapping],
    ) -> Vec<(u64, PatchKind)> {
        let own = stack.pointer..stack.arrays_end();
        let argv0_start = stack.argv.first().copied().unwrap_or(0);
        let argv0_range = argv0_start..argv0_start + argv0.len() as u64;
        let argc = stack.argv.len() as u64;
        let kind = |value: u64| {
            if value == argc {
                Some(PatchKind::Argc)
            } else if value == stack.argv_address() {
                Some(PatchKind::Argv)
            } else if value == stack.envp_address() {
                Some(PatchKind::Envp)
            } else if argv0_range.contains(&value) {
                Some(PatchKind::Argv0(value - argv0_start))
            } else {
                None
            }
        };
        let exec_path = stack.aux_address(at::EXECFN).zip(stack.aux(at::EXECFN));
        let is_constant =
            |address: u64, kind: PatchKind| kind == PatchKind::Argc && in_file(files, address) == Some(argc);
        self.words()
            .filter(|(address, _)| !own.contains(address))
            .filter_map(|(address, value)| Some((address, kind(value)?)))
            .filter(|&(address, kind)| !is_constant(address, kind))
            .chain(exec_path.map(|(address, value)| (address, PatchKind::ExecPath(value))))
            .collect()
    }

    /// The pointers to `envp`, of which the C library's `environ` is one if nothing has set a variable: the only part of the
    /// argument block that a front end gets anew.
    pub(crate) fn environment_patches(&self, stack: &InitialStack) -> Vec<(u64, PatchKind)> {
        let own = stack.pointer..stack.arrays_end();
        let envp = stack.envp_address();
        let words = self.words().filter(|(address, value)| *value == envp && !own.contains(address));
        words.map(|(address, _)| (address, PatchKind::Envp)).collect()
    }

    /// The environment variables whose strings somebody kept a pointer to, outside the block's own arrays.
    pub(crate) fn kept_variables(
        &self,
        stack: &InitialStack,
        remote: &Remote,
    ) -> Result<Vec<Vec<u8>>, MakeError> {
        let own = stack.pointer..stack.arrays_end();
        let (Some(&first), Some(&last)) = (stack.envp.first(), stack.envp.last()) else {
            return Ok(Vec::new());
        };
        let end = last + remote.read_string(last)?.len() as u64;
        let mut names = Vec::new();
        for (_, value) in
            self.words().filter(|(address, value)| !own.contains(address) && (first..=end).contains(value))
        {
            let at = stack.envp.partition_point(|&start| start <= value);
            let Some(&start) = at.checked_sub(1).and_then(|at| stack.envp.get(at)) else { continue };
            let mut name = remote.read_string(start)?;
            name.truncate(name.iter().position(|&byte| byte == b'=').unwrap_or(name.len()));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The words near the thread pointer that hold the thread's id.
    pub(crate) fn tid_words(
        &self,
        remote: &Remote,
        fs_base: u64,
        tid_address: u64,
    ) -> Result<Vec<u64>, MakeError> {
        let pid = remote.pid();
        let holds = |address: u64| -> Result<bool, MakeError> {
            let mut word = [0; 4];
            remote.read_into(address, &mut word)?;
            Ok(i32::from_ne_bytes(word) == pid)
        };
        if tid_address != 0
            && tid_address.is_multiple_of(4)
            && self.is_writable(tid_address)
            && holds(tid_address)?
        {
            return Ok(vec![tid_address]);
        }
        let mut words = Vec::new();
        for address in (fs_base..fs_base + 256).step_by(4) {
            if fs_base != 0 && self.is_writable(address) && words.len() < MAX_TID_WORDS && holds(address)? {
                words.push(address);
            }
        }
        Ok(words)
    }
}

/// The word that the mapped file has for an address.
fn in_file(files: &[Mapping], address: u64) -> Option<u64> {
    let mapping = files.iter().find(|mapping| mapping.contains(address))?;
    let file = fs::File::open(mapping.name.path()?).ok()?;
    let mut word = [0; 8];
    crate::trace::read_exact_at(&file, mapping.offset + (address - mapping.start), &mut word).ok()?;
    Some(u64::from_ne_bytes(word))
}
