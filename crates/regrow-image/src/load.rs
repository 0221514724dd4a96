//! Loads the agent into a process that stands at its snapshot point, and writes the image's memfd.
//!
//! ```text
//!  reserved range of the process, next to what it has mapped already
//!  | agent code | image memfd (tables, saved pages) | keeper's private memory | control area |
//!    r-x private  r-- private                         rw- private of a memfd     rw- shared
//! ```
//!
//! The parts are mappings of different files, so that the kernel can merge none of them with a neighbour.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use regrow_sys::maps::Mapping;

use regrow_abi::{
    CONTROL_BYTES, ImageHeader, MAX_PATCHES, MAX_TID_WORDS, PAGE_BYTES, PRIVATE_BYTES, PROTOCOL_VERSION,
    PageEntry, Registers, VmaEntry, vma_flags,
};

use crate::envkey::KeyNames;
use crate::initial_stack::{InitialStack, StackPlan, at};
use crate::make::{AGENT, Dependencies, MakeError, Point, Recipe, fd};
use crate::remote::{self, Remote};
use crate::snapshot::{self, Memory, PatchKind};
use crate::trace::{self, AtPoint};

/// All that the engine must know of an image that has been made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) header: ImageHeader,
    pub(crate) memory: Memory,
    pub(crate) stack: StackPlan,
    pub(crate) patches: Vec<(u64, PatchKind)>,
    pub(crate) dependencies: Dependencies,
    pub(crate) learned: Vec<Vec<u8>>,
}

fn round_up(bytes: u64, to: u64) -> u64 {
    bytes.div_ceil(to) * to
}

/// Bytes of the agent's code, in whole pages.
pub(crate) fn code_bytes() -> u64 {
    round_up(AGENT.len() as u64, PAGE_BYTES)
}

/// Where the parts of the image memfd start.
struct Layout {
    vmas: u64,
    pages: u64,
    paths: u64,
    fp: u64,
    store: u64,
    end: u64,
}

impl Layout {
    fn new(memory: &Memory, agent_vmas: usize, paths: &Paths, fp_bytes: usize) -> Layout {
        let vmas_at = round_up(size_of::<ImageHeader>() as u64, 64);
        let pages_at = vmas_at + ((memory.vmas.len() + agent_vmas) * size_of::<VmaEntry>()) as u64;
        let paths_at = pages_at + (memory.pages.len() * size_of::<PageEntry>()) as u64;
        let fp = round_up(paths_at + paths.bytes.len() as u64, 64);
        let store = round_up(fp + fp_bytes as u64, PAGE_BYTES);
        let end = store + memory.pages.len() as u64 * PAGE_BYTES;
        Layout { vmas: vmas_at, pages: pages_at, paths: paths_at, fp, store, end }
    }
}

/// The paths of the mapped files, so that a reset can map again what a run unmapped.
#[derive(Default)]
struct Paths {
    bytes: Vec<u8>,
    /// Start of a mapping, and where its path stands in `bytes`.
    of: Vec<(u64, u64)>,
}

impl Paths {
    fn new(mapped: &[Mapping]) -> Paths {
        let mut paths = Paths::default();
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

    /// A mapping with the place of its path in the image memfd.
    fn with_path(&self, vma: &VmaEntry, layout: &Layout) -> VmaEntry {
        let at = self.of.iter().find(|path| path.0 == vma.start).map(|path| layout.paths + path.1);
        let path_offset = at.and_then(|at| u32::try_from(at).ok()).unwrap_or(0);
        VmaEntry { path_offset, ..*vma }
    }
}

/// Loads the agent and lets the process go on in it. `gate` is where a front end has its two words for the agent, or zero.
pub(crate) fn load(
    at_point: AtPoint,
    recipe: &Recipe<'_>,
    gate: u64,
    store: BorrowedFd<'_>,
) -> Result<Made, MakeError> {
    let AtPoint { remote, stack, startup } = at_point;
    let is_warm = recipe.point == Point::Warm;
    snapshot::check_task(remote.pid(), fd::COUNT + usize::from(is_warm), is_warm)?;
    let (remote, facts) = Facts::read(remote, recipe.point)?;
    let fp = remote.stopped().xstate().map_err(MakeError::tracing("reading vector registers"))?;
    let learned = forget_strings(&remote, &stack, recipe.point, startup.asked, facts.registers.rsp)?;
    let mut memory = snapshot::read_memory(&remote, facts.registers.rsp)?;
    let mapped = remote::mappings(remote.pid())?;
    let paths = Paths::new(&mapped);
    let layout = Layout::new(&memory, AGENT_PARTS, &paths, fp.len());
    let (remote, place) = Place::reserve(remote, &layout)?;
    memory.insert(&place.entries());
    let patches = match recipe.point {
        Point::Main => memory.patches(&stack, recipe.argv0.to_bytes(), &mapped),
        Point::Warm => memory.environment_patches(&stack),
        Point::Entry => Vec::new(),
    };
    if patches.len() > MAX_PATCHES {
        return Err(MakeError::Refused(format!("{} pointers into the argument block", patches.len())));
    }
    let mut header = facts.header(&remote, recipe, &memory, &place)?;
    header.gate_address = memory.checked_gate(gate)?;
    header.random_address = stack.aux(at::RANDOM).unwrap_or(0);
    header.vmas_offset = layout.vmas;
    header.pages_offset = layout.pages;
    header.fp_offset = layout.fp;
    header.store_offset = layout.store;
    header.fp_bytes = u32::try_from(fp.len()).unwrap_or(0);
    header.membarrier_tolerated = tolerated_registrations(&mapped);
    write_store(store, &header, &memory, &paths, &fp, &layout)
        .map_err(MakeError::tracing("writing the image"))?;
    // By every name that leads to a file: the kernel's name of a mapping has no links in it.
    let mut files = trace::mapped_files(&mapped);
    files.push(PathBuf::from(OsStr::from_bytes(recipe.path.to_bytes())));
    files.extend(startup.opened);
    place.start(remote)?;
    let dependencies = Dependencies { files, absent: startup.absent.into_iter().collect() };
    Ok(Made { header, memory, stack: stack_plan(&stack, recipe.point), patches, dependencies, learned })
}

/// Takes out of the stack what the image was made with and no run may find: arguments, and the environment but for the
/// variables that belong to the key. Returns the names that were learned to belong to it.
fn forget_strings(
    remote: &Remote,
    stack: &InitialStack,
    point: Point,
    asked: Vec<Vec<u8>>,
    stack_pointer: u64,
) -> Result<Vec<Vec<u8>>, MakeError> {
    let mut learned = asked;
    match point {
        Point::Entry => {
            stack.forget_environment(remote, |_| false)?;
            return Ok(learned);
        }
        // It was given nothing but what belongs to the key.
        Point::Warm => return Ok(learned),
        Point::Main => {}
    }
    stack.forget_arguments(remote)?;
    learned.extend(snapshot::read_memory(remote, stack_pointer)?.kept_variables(stack, remote)?);
    let names = KeyNames::with_learned(&learned);
    stack.forget_environment(remote, |name| names.contains(name))?;
    Ok(learned)
}

/// Where the blocks of runs go.
fn stack_plan(stack: &InitialStack, point: Point) -> StackPlan {
    let auxv = stack.auxv.clone();
    match point {
        Point::Main | Point::Warm => StackPlan {
            top: stack.pointer + crate::initial_stack::MAIN_ROOM_BYTES,
            floor: round_up(stack.arrays_end(), 16),
            auxv,
        },
        Point::Entry => {
            let room = regrow_abi::ARG_AREA_BYTES as u64 - PAGE_BYTES;
            StackPlan { top: stack.pointer, floor: stack.pointer.saturating_sub(room), auxv }
        }
    }
}

/// musl registers for `membarrier` with a program's first thread. That cannot be undone; it only lets a later run use what
/// it would have to register for.
fn tolerated_registrations(mapped: &[Mapping]) -> u32 {
    const REGISTER_PRIVATE_EXPEDITED: u32 = 1 << 4;
    let is_musl =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-musl"));
    let is_musl = |mapping: &Mapping| {
        let resolved = mapping.name.path().and_then(|path| fs::canonicalize(path).ok());
        let musl_dir = |path: &Path| {
            path.components().any(|part| part.as_os_str().as_encoded_bytes().ends_with(b"musl"))
        };
        mapping.name.path().is_some_and(is_musl) || resolved.is_some_and(|path| musl_dir(&path))
    };
    if mapped.iter().any(is_musl) { REGISTER_PRIVATE_EXPEDITED } else { 0 }
}

/// Mappings of the agent.
const AGENT_PARTS: usize = 4;

impl Memory {
    /// Adds the agent's mappings to the table.
    fn insert(&mut self, entries: &[VmaEntry]) {
        self.vmas.extend_from_slice(entries);
        self.vmas.sort_by_key(|vma| vma.start);
    }
}

/// The reserved range.
struct Place {
    base: u64,
    /// Length of each part.
    parts: [u64; 4],
}

impl Place {
    fn reserve(remote: Remote, layout: &Layout) -> Result<(Remote, Place), MakeError> {
        let parts =
            [code_bytes(), round_up(layout.end, PAGE_BYTES), PRIVATE_BYTES as u64, CONTROL_BYTES as u64];
        let total = parts.iter().sum();
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE).unsigned_abs();
        let args = [0, total, 0, u64::from(flags), u64::MAX, 0];
        let (remote, base) = remote.must("reserving room for the agent", libc::SYS_mmap, args)?;
        Ok((remote, Place { base, parts }))
    }

    fn address(&self, part: usize) -> u64 {
        self.base + self.parts.iter().take(part).sum::<u64>()
    }

    fn end(&self) -> u64 {
        self.address(4)
    }

    fn entries(&self) -> Vec<VmaEntry> {
        let flags = vma_flags::HANDS_OFF | vma_flags::FILE;
        (0..4)
            .map(|part| VmaEntry {
                start: self.address(part),
                end: self.address(part + 1),
                flags,
                ..VmaEntry::default()
            })
            .collect()
    }

    /// Maps the parts, closes the descriptors that they came from, and lets the process run as the seed.
    fn start(&self, mut remote: Remote) -> Result<(), MakeError> {
        let (read, write, exec) = (1u64, 2u64, 4u64);
        let (shared, private, fixed) = (1u64, 2u64, 0x10u64);
        let maps = [
            (read | exec, private | fixed, fd::CODE, 0),
            (read, private | fixed, fd::STORE, 0),
            (read | write, private | fixed, fd::CODE, code_bytes()),
            (read | write, shared | fixed, fd::CONTROL, 0),
        ];
        for (part, (prot, flags, fd, offset)) in maps.into_iter().enumerate() {
            let bytes = self.parts.get(part).copied().unwrap_or(0);
            let args = [self.address(part), bytes, prot, flags, u64::from(fd.unsigned_abs()), offset];
            (remote, _) = remote.must("mapping the agent", libc::SYS_mmap, args)?;
        }
        let socket = u64::from(fd::SOCKET.unsigned_abs());
        for (first, last) in [(0, socket - 1), (socket + 1, u64::from(u32::MAX))] {
            let args = [first, last, 0, 0, 0, 0];
            (remote, _) = remote.must("closing descriptors", libc::SYS_close_range, args)?;
        }
        let mut registers = remote.stopped().registers().map_err(MakeError::tracing("reading registers"))?;
        registers.rip = self.address(0);
        registers.rdi = self.address(1);
        // As at a call: the stack is 16-byte aligned before the return address.
        registers.rsp = self.address(3) - 64 - 8;
        registers.eflags &= !(1 << 10);
        let stopped = remote.release().0;
        stopped.set_registers(registers).map_err(MakeError::tracing("setting registers"))?;
        stopped.detach().map_err(MakeError::tracing("detaching"))
    }
}

/// What the image's header says of the task and the address space.
struct Facts {
    registers: regrow_sys::ptrace::Registers,
    rseq: regrow_sys::ptrace::RseqConfig,
    robust_list: (u64, u64),
    tid_address: u64,
    signal_stack: [u64; 3],
    brk: u64,
    dumpable: u32,
    thp_disable: u32,
    memory_merge: u32,
    membarrier: u32,
    coredump_filter: u32,
    stat: Vec<u64>,
}

impl Facts {
    fn read(remote: Remote, point: Point) -> Result<(Remote, Facts), MakeError> {
        const PR_GET_TID_ADDRESS: u64 = 40;
        const MEMBARRIER_GET_REGISTRATIONS: u64 = 1 << 9;
        let registers = remote.stopped().registers().map_err(MakeError::tracing("reading registers"))?;
        let prctl = |remote: Remote, option: i32| {
            let args = [u64::from(option.unsigned_abs()), 0, 0, 0, 0, 0];
            remote
                .syscall(libc::SYS_prctl, args)
                .map(|(remote, result)| (remote, u32::try_from(result).unwrap_or(0)))
        };
        let (remote, dumpable) = prctl(remote, libc::PR_GET_DUMPABLE)?;
        let (remote, thp_disable) = prctl(remote, libc::PR_GET_THP_DISABLE)?;
        let (remote, memory_merge) = prctl(remote, 68)?;
        let (remote, brk) = remote.must("reading the break", libc::SYS_brk, [0; 6])?;
        let args = [MEMBARRIER_GET_REGISTRATIONS, 0, 0, 0, 0, 0];
        let (mut remote, membarrier) = remote.syscall(libc::SYS_membarrier, args)?;
        let mut tid_address = 0;
        let mut signal_stack = [0; 3];
        let (mut rseq, mut robust_list) = Default::default();
        if point != Point::Entry {
            // Memory below the red zone is free for use at a call, system calls included.
            let scratch = (registers.rsp - 1024) & !15;
            (remote, signal_stack) = read_signal_stack(remote, scratch)?;
            let args = [PR_GET_TID_ADDRESS, scratch, 0, 0, 0, 0];
            (remote, _) = remote.must("reading the tid address", libc::SYS_prctl, args)?;
            let mut word = [0; 8];
            remote.read_into(scratch, &mut word)?;
            remote.write(scratch, &[0; 8])?;
            tid_address = u64::from_ne_bytes(word);
            rseq = remote.stopped().rseq().map_err(MakeError::tracing("reading its rseq area"))?;
            robust_list =
                remote.stopped().robust_list().map_err(MakeError::tracing("reading its robust list"))?;
        }
        let filter =
            fs::read_to_string(format!("/proc/{}/coredump_filter", remote.pid())).unwrap_or_default();
        let facts = Facts {
            registers,
            rseq,
            robust_list,
            tid_address,
            signal_stack,
            brk,
            dumpable,
            thp_disable,
            memory_merge,
            membarrier: u32::try_from(membarrier).unwrap_or(0),
            coredump_filter: u32::from_str_radix(filter.trim(), 16).unwrap_or(0),
            stat: stat_fields(remote.pid())?,
        };
        Ok((remote, facts))
    }

    fn header(
        &self,
        remote: &Remote,
        recipe: &Recipe<'_>,
        memory: &Memory,
        place: &Place,
    ) -> Result<ImageHeader, MakeError> {
        let field = |number: usize| self.stat.get(number - 3).copied().unwrap_or(0);
        let fs_base = self.registers.fs_base;
        let mut tid_words = [0; MAX_TID_WORDS];
        let found = match recipe.point {
            Point::Main | Point::Warm => memory.tid_words(remote, fs_base, self.tid_address)?,
            Point::Entry => Vec::new(),
        };
        for (to, from) in tid_words.iter_mut().zip(&found) {
            *to = *from;
        }
        Ok(ImageHeader {
            version: PROTOCOL_VERSION,
            point: recipe.point.number(),
            features: recipe.features,
            vma_count: u32::try_from(memory.vmas.len()).unwrap_or(u32::MAX),
            page_count: u32::try_from(memory.pages.len()).unwrap_or(u32::MAX),
            fp_bytes: 0,
            tid_word_count: u32::try_from(found.len()).unwrap_or(0),
            rseq_bytes: if self.rseq.address == 0 { 0 } else { self.rseq.bytes },
            rseq_signature: self.rseq.signature,
            dumpable: self.dumpable,
            membarrier: self.membarrier,
            memory_merge: self.memory_merge,
            thp_disable: self.thp_disable,
            coredump_filter: self.coredump_filter,
            hot_zero_pages: recipe.hot_zero_pages,
            membarrier_tolerated: 0,
            vmas_offset: 0,
            pages_offset: 0,
            fp_offset: 0,
            store_offset: 0,
            brk: self.brk,
            rseq_address: self.rseq.address,
            robust_list: self.robust_list.0,
            robust_list_bytes: self.robust_list.1,
            tid_address: self.tid_address,
            tid_words,
            signal_stack: self.signal_stack,
            random_address: 0,
            canary_address: self.canary(remote, recipe.point)?,
            fs_base,
            agent_start: place.base,
            agent_end: place.end(),
            control_address: place.address(3),
            private_address: place.address(2),
            gate_address: 0,
            layout: [field(26), field(27), field(45), field(46), field(47)],
            bounds: [field(28), field(48), field(49), field(50), field(51)],
            registers: self.registers(),
        })
    }

    /// Where the stack canary is: both libcs keep it at this offset of the thread pointer, with a zero in its lowest byte
    /// (glibc) or the one above (musl). What is as small as a number or a pointer is none.
    fn canary(&self, remote: &Remote, point: Point) -> Result<u64, MakeError> {
        const OFFSET: u64 = 0x28;
        // Where a program stops itself there are calls under way that have saved it.
        if point != Point::Main || self.registers.fs_base == 0 {
            return Ok(0);
        }
        let address = self.registers.fs_base + OFFSET;
        let mut word = [0; 8];
        remote.read_into(address, &mut word)?;
        let value = u64::from_ne_bytes(word);
        let is_canary = value >> 48 != 0 && (value & 0xff == 0 || value & 0xff00 == 0);
        Ok(if is_canary { address } else { 0 })
    }

    fn registers(&self) -> Registers {
        let r = &self.registers;
        Registers {
            general: [
                r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12,
                r.r13, r.r14, r.r15,
            ],
            instruction: r.rip,
            flags: r.eflags,
        }
    }
}

/// The stack that the process has for signal handlers. `scratch` is memory that nobody uses.
fn read_signal_stack(remote: Remote, scratch: u64) -> Result<(Remote, [u64; 3]), MakeError> {
    let args = [0, scratch, 0, 0, 0, 0];
    let (remote, _) = remote.must("reading its signal stack", libc::SYS_sigaltstack, args)?;
    let mut bytes = [0; 24];
    remote.read_into(scratch, &mut bytes)?;
    remote.write(scratch, &[0; 24])?;
    let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    let (address, flags, size) =
        (words.next().unwrap_or(0), words.next().unwrap_or(0), words.next().unwrap_or(0));
    // The flags are 32 bits; what follows them is undefined.
    let flags = flags & 0xffff_ffff;
    let none = u64::from(libc::SS_DISABLE.unsigned_abs());
    Ok((remote, if flags & none == 0 { [address, flags, size] } else { [0; 3] }))
}

/// The numbers of `/proc/PID/stat` from its third field on.
pub(crate) fn stat_fields(pid: i32) -> Result<Vec<u64>, MakeError> {
    let text =
        fs::read_to_string(format!("/proc/{pid}/stat")).map_err(MakeError::tracing("reading its stat"))?;
    let rest = text.rsplit_once(')').map_or("", |parts| parts.1);
    Ok(rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
}

fn write_store(
    store: BorrowedFd<'_>,
    header: &ImageHeader,
    memory: &Memory,
    paths: &Paths,
    fp: &[u8],
    layout: &Layout,
) -> std::io::Result<()> {
    use rustix::fs::{SealFlags, fcntl_add_seals};
    let mut bytes = Vec::with_capacity(usize::try_from(layout.store).unwrap_or(0));
    crate::wire::push_header(&mut bytes, header);
    pad(&mut bytes, layout.vmas);
    memory.vmas.iter().for_each(|vma| crate::wire::push_vma(&mut bytes, &paths.with_path(vma, layout)));
    memory.pages.iter().for_each(|page| bytes.extend_from_slice(&page.address_and_flags.to_ne_bytes()));
    bytes.extend_from_slice(&paths.bytes);
    pad(&mut bytes, layout.fp);
    bytes.extend_from_slice(fp);
    pad(&mut bytes, layout.store);
    let mut file = fs::File::from(store.as_fd().try_clone_to_owned()?);
    file.write_all(&bytes)?;
    file.write_all(&memory.content)?;
    fcntl_add_seals(store, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(())
}

fn pad(bytes: &mut Vec<u8>, to: u64) {
    bytes.resize(usize::try_from(to).unwrap_or(bytes.len()), 0);
}
