//! What the agent knows: the sealed image, the body's control area, and its own private memory.

use core::sync::atomic::Ordering::Relaxed;

use regrow_abi::{
    Broken, Control, ImageHeader, KEEPER_SOCKET_FD, MappedSizes, PAGE_BYTES, PRIVATE_BYTES, PageEntry, State,
    VmaEntry, features, purpose, vma_flags,
};

use crate::arch::nr;
use crate::sys::{self, FdRoom, ReceivedMessage};

/// Room for the current mappings of a body, when they differ from the image's.
pub const MAX_VMAS: usize = 4096;
/// Page ranges that one scan returns at most.
pub const MAX_SCAN: usize = 256;
/// Ranges of neighbouring mappings of an image that are advised at once.
pub const MAX_RANGES: usize = 128;
/// Bytes of the text buffer (for kernels without `PROCMAP_QUERY`, or `PAGEMAP_SCAN`).
pub const TEXT_BYTES: usize = 64 * 1024;
/// Words of what a keeper has as a task.
pub const ATTRIBUTE_WORDS: usize = 55;
/// Room for an auxiliary vector: the kernel's own has less.
pub const AUXV_BYTES: usize = 512;
const STACK_BYTES: usize = 32 * 1024;

/// One range of a `PAGEMAP_SCAN` answer (the kernel's `struct page_region`).
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PageRegion {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// What the pages are.
    pub categories: u64,
}

/// The keeper's private memory. It is a private mapping of a memfd, so that the kernel can merge it with no neighbour,
/// and so that a body made by `fork` has its own.
#[repr(C)]
pub struct Private {
    /// Bounds that the address space was last given.
    pub bounds: [u64; 5],
    /// Descriptor of `/proc/self/pagemap`.
    pub pagemap: i32,
    /// Descriptor of `/proc/self/maps`.
    pub maps: i32,
    /// Descriptor of `/proc/self/clear_refs`.
    pub clear_refs: i32,
    /// Descriptor of `/proc/self/coredump_filter`.
    pub coredump_filter: i32,
    /// The userfaultfd that tracks what runs write, or -1.
    pub uffd: i32,
    /// Where writes are tracked: a scan for what was written tells also what never was there.
    pub tells_holes: u32,
    /// The armed process saw that the engine is gone.
    pub engine_gone: u32,
    /// The body has been put back, or trimmed: what is mapped in it now is what a run has left there.
    pub was_reset: u32,
    /// How guard pages are found ([`crate::reset::guards`]).
    pub guards: u32,
    /// How many resets there were, where some of them look closer.
    pub resets: u32,
    /// The next reset keeps no page that the image does not have.
    pub trims: u32,
    /// The program is unmapped: a process of this body can only execute another one.
    pub is_shell: u32,
    /// The signals that the keeper ignores, and so each process that it makes; bit 0 is signal 1.
    pub ignored: u64,
    /// Descriptor of `/proc/self/oom_score_adj`.
    pub oom_score: i32,
    /// Its content when the body was made.
    pub oom_score_text: [u8; 8],
    /// Descriptor of `/proc/self/status`, where runs are trusted.
    pub status: i32,
    /// How much was mapped when the mappings were last found to be the image's; zeros: not known.
    pub sizes: MappedSizes,
    /// What the keeper had as a task when the body was made ([`crate::attributes`]), and what it has.
    pub attributes: [[u64; ATTRIBUTE_WORDS]; 2],
    /// Bytes of `auxv`.
    pub auxv_bytes: u32,
    /// The auxiliary vector that the kernel shows, when the image was made.
    pub auxv: [u8; AUXV_BYTES],
    /// Which mappings of the image the program has sealed itself, a bit each.
    pub sealed: [u64; MAX_VMAS / 64],
    /// Mappings as they are, as many as were found.
    pub vmas: [VmaEntry; MAX_VMAS],
    /// A scan's answer.
    pub scan: [PageRegion; MAX_SCAN],
    /// Ranges of neighbouring mappings: start and length.
    pub ranges: [(u64, u64); MAX_RANGES],
    /// Text of `/proc` files.
    pub text: [u8; TEXT_BYTES],
    /// A saved page that was read from the seed.
    pub fetched: Page,
    armed_stack: Stack,
    keeper_stack: Stack,
}

/// The numbers of a keeper's descriptors beside its socket: no memory has to be believed for them.
pub mod fd {
    use regrow_abi::KEEPER_SOCKET_FD;

    /// See [`Private::pagemap`](super::Private::pagemap); so the others.
    pub const PAGEMAP: i32 = KEEPER_SOCKET_FD + 1;
    #[allow(missing_docs, reason = "named as the field")]
    pub const MAPS: i32 = KEEPER_SOCKET_FD + 2;
    #[allow(missing_docs, reason = "named as the field")]
    pub const CLEAR_REFS: i32 = KEEPER_SOCKET_FD + 3;
    #[allow(missing_docs, reason = "named as the field")]
    pub const COREDUMP_FILTER: i32 = KEEPER_SOCKET_FD + 4;
    #[allow(missing_docs, reason = "named as the field")]
    pub const OOM_SCORE: i32 = KEEPER_SOCKET_FD + 5;
    #[allow(missing_docs, reason = "named as the field")]
    pub const UFFD: i32 = KEEPER_SOCKET_FD + 6;
    /// The seed's memory, to be read. The seed opens it, which nobody can forbid it, and a body has it from there.
    pub const SEED_MEMORY: i32 = KEEPER_SOCKET_FD + 7;
    #[allow(missing_docs, reason = "named as the field")]
    pub const STATUS: i32 = KEEPER_SOCKET_FD + 8;
}

impl Private {
    /// Writes the numbers of the descriptors again, which a run can have changed. One that could not be opened is a closed one.
    pub fn put_back_descriptors(&mut self, tracks: bool) {
        self.pagemap = fd::PAGEMAP;
        self.maps = fd::MAPS;
        self.clear_refs = fd::CLEAR_REFS;
        self.coredump_filter = fd::COREDUMP_FILTER;
        self.oom_score = fd::OOM_SCORE;
        self.status = fd::STATUS;
        self.uffd = if tracks { fd::UFFD } else { -1 };
    }
}

/// A page, aligned to a cache line.
#[repr(C, align(64))]
pub struct Page([u8; PAGE_BYTES as usize]);

/// A stack, aligned as the calling convention wants it.
#[repr(C, align(64))]
struct Stack([u8; STACK_BYTES]);

const _: () = assert!(size_of::<Private>() <= PRIVATE_BYTES && align_of::<Private>() <= PAGE_BYTES as usize);

/// Handle on the three areas. Cheap to pass; valid for the life of the process.
pub struct Agent {
    image: *const ImageHeader,
}

impl Agent {
    /// A handle on the areas of an image.
    ///
    /// # Safety
    /// `image` is the start of a mapped image memfd whose header names the other mapped areas.
    pub const unsafe fn new(image: *const ImageHeader) -> Agent {
        Agent { image }
    }

    /// The image's header.
    pub fn image(&self) -> &ImageHeader {
        // SAFETY: by the contract of `new`; the image is sealed, so that nobody writes it.
        unsafe { &*self.image }
    }

    /// Where the image's header is.
    pub fn image_address(&self) -> u64 {
        self.image as u64
    }

    /// The body's control area.
    pub fn control(&self) -> &Control {
        // SAFETY: mapped at this address by the contract of `new`; all that is written while shared is atomic, and
        // the order is only written while the state is `Taken`, before the message that this side reads.
        unsafe { &*(self.image().control_address as *const Control) }
    }

    /// Start of the arg area.
    pub fn args(&self) -> *const u8 {
        (self.image().control_address as usize + regrow_abi::ARG_AREA_OFFSET) as *const u8
    }

    /// The private memory.
    pub fn private(&self) -> *mut Private {
        self.image().private_address as *mut Private
    }

    /// Keeps a run's forks from having the agent's areas, and a run from unmapping, replacing or protecting them (Linux 6.10). A body
    /// that is to be broken up has no run before, and unmaps the image itself.
    pub fn guard_areas(&self) {
        const MADV_DONTFORK: u32 = 10;
        let (start, end) = (self.image().agent_start, self.image().agent_end);
        let canary = self.canary();
        // SAFETY: the agent's own areas, which this keeps as they are; the canary is the last page, which forks have.
        unsafe {
            sys::madvise(start, canary - start, MADV_DONTFORK);
            if self.control().purpose.load(Relaxed) != purpose::SHELL {
                sys::raw(nr::MSEAL, [start as usize, (end - start) as usize, 0, 0, 0, 0]);
            }
        }
    }

    /// A page of the body's own that its forks have and that no program uses.
    pub fn canary(&self) -> u64 {
        self.image().agent_end - PAGE_BYTES
    }

    /// Top of the armed process's stack and its size.
    pub fn armed_stack(&self) -> (u64, u64) {
        // SAFETY: takes an address inside the private area, reads nothing.
        let start = unsafe { &raw const (*self.private()).armed_stack } as u64;
        (start, STACK_BYTES as u64)
    }

    /// The image's mappings.
    pub fn vmas(&self) -> &[VmaEntry] {
        let header = self.image();
        // SAFETY: the engine wrote `vma_count` entries at this offset of the sealed image.
        unsafe { self.table(header.vmas_offset, header.vma_count as usize) }
    }

    /// The stretches of address space that are the program's: from the first to the last mapping between two that are
    /// `HANDS_OFF`, holes included.
    pub fn spans(&self) -> impl Iterator<Item = (u64, u64)> {
        let ours = |vma: &VmaEntry| vma.flags & vma_flags::HANDS_OFF == 0;
        let mut rest = self.vmas().iter().peekable();
        core::iter::from_fn(move || {
            let first = rest.find(|vma| ours(vma))?;
            let mut end = first.end;
            while let Some(vma) = rest.next_if(|vma| ours(vma)) {
                end = vma.end;
            }
            Some((first.start, end))
        })
    }

    /// The image's saved pages.
    pub fn pages(&self) -> &[PageEntry] {
        let header = self.image();
        // SAFETY: the engine wrote `page_count` entries at this offset of the sealed image.
        unsafe { self.table(header.pages_offset, header.page_count as usize) }
    }

    /// The content of saved page `index`, unless the seed alone has it ([`PageEntry::is_in_seed`]).
    pub fn saved(&self, index: usize) -> *const u8 {
        (self.image as u64 + self.image().store_offset + index as u64 * PAGE_BYTES) as *const u8
    }

    /// A NUL-terminated path of the image.
    pub fn path(&self, offset: u32) -> *const u8 {
        (self.image as u64 + u64::from(offset)) as *const u8
    }

    /// The floating-point state.
    pub fn float_state(&self) -> *const u8 {
        (self.image as u64 + self.image().float_state_offset) as *const u8
    }

    /// Waits for a message of the engine; without a result above zero the engine is gone. A forked copy of the engine may have the other end
    /// of the socket open for ever, so it is looked from time to time whose child this task is. Somebody may stop this task and have it go on,
    /// or trace it: then the kernel breaks off the wait (`EINTR`), whatever signals are blocked.
    pub fn receive(&self, room: &mut FdRoom) -> ReceivedMessage {
        loop {
            let message = sys::receive(KEEPER_SOCKET_FD, room, 0);
            let is_broken_off = matches!(message.result, sys::EAGAIN | sys::EINTR);
            if !is_broken_off || sys::getppid() as u64 != self.image().parent {
                return message;
            }
        }
    }

    /// Whether the agent may use a kernel feature ([`features`]).
    pub fn has(&self, feature: u32) -> bool {
        self.image().features & feature != 0
    }

    /// Whether the image is a front end's, which has stopped itself.
    pub fn is_warm(&self) -> bool {
        self.image().point == regrow_abi::point::WARM
    }

    /// Whether the body serves one run. The engine has its own account of that: a run can write the word.
    pub fn is_for_one_run(&self) -> bool {
        self.control().purpose.load(Relaxed) == purpose::ONE_RUN
    }

    /// Whether the reset believes what the kernel has noted of a run's writes. A run could have forged it on purpose.
    pub fn trusts_runs(&self) -> bool {
        self.control().trusts_runs.load(Relaxed) != 0
    }

    /// Whether the processes of this body have a session of their own before they have an order.
    pub fn has_sessions(&self) -> bool {
        self.control().sessions.load(Relaxed) != 0
    }

    /// Whether the image's runs are woken before they have their order.
    pub fn is_woken_ahead(&self) -> bool {
        self.image().gate_address != 0
    }

    /// Whether this body is a shell: its program is unmapped.
    pub fn is_shell(&self) -> bool {
        // SAFETY: the private area is this body's own; it is written while there is one task only.
        unsafe { (*self.private()).is_shell != 0 }
    }

    /// Whether the floating-point state holds more than the oldest registers.
    pub fn has_extended_state(&self) -> bool {
        self.has(features::EXTENDED_STATE)
    }

    /// Sets the state word and wakes whoever sleeps on it.
    pub fn set_state(&self, state: State) {
        use core::sync::atomic::Ordering::{AcqRel, SeqCst};
        let control = self.control();
        control.state.store(state as u32, SeqCst);
        if control.waiters.swap(0, AcqRel) != 0 {
            sys::futex_wake(&control.state);
        }
    }

    /// Gives the body up and ends this task.
    pub fn give_up(&self, why: Broken, errno: i32) -> ! {
        use core::sync::atomic::Ordering::Relaxed;
        let control = self.control();
        control.broken.store(why as u32, Relaxed);
        control.errno.store(errno, Relaxed);
        self.set_state(State::Broken);
        sys::exit(0)
    }

    /// A table of the image.
    ///
    /// # Safety
    /// `count` values of this type stand at this offset of the image.
    unsafe fn table<T>(&self, offset: u64, count: usize) -> &[T] {
        // SAFETY: the caller names a table of the sealed image.
        unsafe { core::slice::from_raw_parts((self.image as u64 + offset) as *const T, count) }
    }
}
