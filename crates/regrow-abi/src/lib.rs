//! The wire types between the engine and the agent inside a body.
//!
//! Two memory areas carry them, and both sides map both:
//!
//! ```text
//! image memfd (sealed, read-only, one per image)      control memfd (shared, read-write, one per body)
//! +--------------+ 0                                  +-------------------+ 0
//! | ImageHeader  |                                    | Control           |  state word, pid, order
//! +--------------+ vmas_offset                        +-------------------+ ARG_AREA_OFFSET
//! | VmaEntry ... |  sorted by start                   | arg area          |  the run's stack block, its
//! +--------------+ pages_offset                       |                   |  working directory
//! | PageEntry... |  sorted by address                 +-------------------+ CONTROL_BYTES
//! +--------------+ fp_offset (64-byte aligned)
//! | XSAVE area   |
//! +--------------+ store_offset (page aligned)
//! | saved pages  |
//! +--------------+
//! ```
//!
//! Invariants: every type is `repr(C)`, without implicit padding, of a size that is asserted below; a change of any
//! of them raises [`PROTOCOL_VERSION`]. The agent trusts the sealed image. The engine trusts nothing that it reads
//! from a control memfd, because the program that ran in the body can write there: it is only a hint.

#![no_std]

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Raised by every change of a type in this crate; the agent refuses to keep an image of another version.
pub const PROTOCOL_VERSION: u32 = 5;

/// Bytes in a page.
pub const PAGE_BYTES: u64 = 4096;

/// Where the arg area starts in the control memfd.
pub const ARG_AREA_OFFSET: usize = 8192;

/// Bytes of the arg area (the papers' work area): what a run's stack block and working directory must fit in.
pub const ARG_AREA_BYTES: usize = 256 * 1024;

/// Bytes of the control memfd.
pub const CONTROL_BYTES: usize = ARG_AREA_OFFSET + ARG_AREA_BYTES;

/// Bytes of the keeper's private memory: its stack, the armed process's stack and the scan buffers.
pub const PRIVATE_BYTES: usize = 256 * 1024;

/// Most pointers into the argument block that an image may have to patch in each run.
pub const MAX_PATCHES: usize = 32;

/// Most descriptors that an order may pass.
pub const MAX_FDS: usize = 64;

/// Most places that hold the thread id of the process (its thread descriptor).
pub const MAX_TID_WORDS: usize = 4;

/// The resource limits that Linux has (`RLIMIT_CPU` to `RLIMIT_RTTIME`).
pub const LIMITS: usize = 16;

/// What a body is doing. The value of [`Control::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// The keeper has not come to its loop.
    Starting = 0,
    /// The keeper makes the next process.
    Arming = 1,
    /// A process waits for its order.
    Armed = 2,
    /// The engine has taken the armed process and is about to send its order.
    Taken = 3,
    /// The program runs.
    Running = 4,
    /// The run has left the body; the keeper puts it back.
    Resetting = 5,
    /// The body is put back and waits to be compared (verify mode).
    Clean = 6,
    /// The keeper gave the body up: see [`Control::broken`].
    Broken = 7,
}

impl State {
    /// The state that a raw word stands for, if any.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<State> {
        Some(match raw {
            0 => State::Starting,
            1 => State::Arming,
            2 => State::Armed,
            3 => State::Taken,
            4 => State::Running,
            5 => State::Resetting,
            6 => State::Clean,
            7 => State::Broken,
            _ => return None,
        })
    }
}

/// Why a keeper gave its body up. The value of [`Control::broken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Broken {
    /// The image is of another protocol version.
    Version = 1,
    /// The next process could not be made.
    Clone = 2,
    /// A process that is not the run still shares the memory.
    Shared = 3,
    /// A mapping of a file went missing and cannot be mapped again from inside.
    MappingLost = 4,
    /// The mappings differ from the image after everything was tried.
    Mappings = 5,
    /// A page could not be put back.
    Pages = 6,
    /// The program break could not be put back.
    Brk = 7,
    /// The address space carries state that cannot be undone (an LDT, membarrier, memory-deny-write-execute, …).
    Sticky = 8,
    /// `/proc` is not there or refuses.
    Proc = 9,
    /// More mappings than the agent keeps room for.
    TooManyMappings = 10,
    /// A fault point of the tests was hit.
    Fault = 11,
    /// A process died with its order, before it was the run.
    Died = 12,
}

impl Broken {
    /// The reason that a raw word stands for, if any.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Broken> {
        Some(match raw {
            1 => Broken::Version,
            2 => Broken::Clone,
            3 => Broken::Shared,
            4 => Broken::MappingLost,
            5 => Broken::Mappings,
            6 => Broken::Pages,
            7 => Broken::Brk,
            8 => Broken::Sticky,
            9 => Broken::Proc,
            10 => Broken::TooManyMappings,
            11 => Broken::Fault,
            12 => Broken::Died,
            _ => return None,
        })
    }
}

/// Which step of an order the agent could not carry out. The value of [`Control::refused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Refused {
    /// Placing the descriptors.
    Descriptors = 1,
    /// A session of its own.
    Session = 2,
    /// The process group.
    ProcessGroup = 3,
    /// A resource limit.
    Limit = 4,
    /// The niceness.
    Nice = 5,
    /// The working directory.
    Directory = 6,
    /// A private copy of root, working directory and umask.
    Filesystem = 7,
    /// The bounds of arguments and environment.
    Bounds = 8,
    /// Scheduling policy or affinity.
    Scheduling = 9,
    /// Executing the program in a shell.
    Exec = 10,
}

impl Refused {
    /// The step that a raw word stands for, if any.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Refused> {
        Some(match raw {
            1 => Refused::Descriptors,
            2 => Refused::Session,
            3 => Refused::ProcessGroup,
            4 => Refused::Limit,
            5 => Refused::Nice,
            6 => Refused::Directory,
            7 => Refused::Filesystem,
            8 => Refused::Bounds,
            9 => Refused::Scheduling,
            10 => Refused::Exec,
            _ => return None,
        })
    }
}

/// What a keeper is to do while its armed process waits. The value of [`Control::command`].
///
/// The engine takes the armed process ([`State::Taken`]), writes the command and rings; the keeper clears the command when
/// it is done, and a process is armed again. For [`command::BREAK_UP`] the engine ends the armed process before it rings.
pub mod command {
    /// Nothing.
    pub const NONE: u32 = 0;
    /// Give all pages back that the image does not have.
    pub const TRIM: u32 = 1;
    /// Map the pages of the ranges at the start of the arg area: pairs of first address and bytes, ended by two zeros. They
    /// are mapped to be written, but for those with [`PREFAULT_READ`](super::PREFAULT_READ) in their bytes.
    pub const PREFAULT: u32 = 2;
    /// Unmap the program: the body becomes a shell, whose processes can execute any program, and no other order.
    pub const BREAK_UP: u32 = 3;
}

/// Bit of the bytes of a range for [`command::PREFAULT`]: its pages are only read.
pub const PREFAULT_READ: u64 = 1;

/// Bits of [`Order::flags`].
pub mod order_flags {
    /// Descriptors are to be moved to the numbers in `fd_targets` (else they are 0, 1, 2).
    pub const PLACE_FDS: u32 = 1 << 0;
    /// `setsid`.
    pub const SETSID: u32 = 1 << 1;
    /// `setpgid(0, pgroup)`.
    pub const PGROUP: u32 = 1 << 2;
    /// `umask(umask)`.
    pub const UMASK: u32 = 1 << 3;
    /// `setpriority(PRIO_PROCESS, 0, nice)`.
    pub const NICE: u32 = 1 << 4;
    /// `chdir` to the NUL-terminated path at `cwd_offset` of the arg area.
    pub const CWD: u32 = 1 << 5;
    /// The limits whose bit is set in `limit_mask`.
    pub const LIMITS: u32 = 1 << 6;
    /// The bounds of arguments and environment differ from the body's last.
    pub const BOUNDS: u32 = 1 << 7;
    /// The signals of `ignore_mask` are ignored, all others are default.
    pub const IGNORES: u32 = 1 << 8;
    /// Write the time of the jump to `Control::main_ns`.
    pub const TIMES: u32 = 1 << 9;
    /// Name the task `comm`.
    pub const COMM: u32 = 1 << 10;
    /// Set the processors that the run may use to `affinity`.
    pub const AFFINITY: u32 = 1 << 11;
    /// Of a shell: execute the program whose path is at `block_address`, with the arrays at `argv` and `envp`.
    pub const EXEC: u32 = 1 << 12;
}

/// One pointer that a run gets anew: `*(u64 *)address = value`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Patch {
    /// Where, in the body.
    pub address: u64,
    /// What.
    pub value: u64,
}

/// What a run is to be given. Written by the engine while the state is [`State::Taken`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Order {
    /// [`order_flags`].
    pub flags: u32,
    /// Valid entries of `patches`.
    pub patch_count: u32,
    /// Where the block at the start of the arg area goes: the initial stack's arrays and strings.
    pub block_address: u64,
    /// Its length in bytes.
    pub block_bytes: u64,
    /// Stack pointer of the run (at `entry`; at `main` the image's own is used).
    pub stack_pointer: u64,
    /// First argument of `main`.
    pub argc: u64,
    /// Second argument of `main`.
    pub argv: u64,
    /// Third argument of `main`.
    pub envp: u64,
    /// `arg_start`, `arg_end`, `env_start`, `env_end` of the address space.
    pub bounds: [u64; 4],
    /// `start_stack` of the address space.
    pub start_stack: u64,
    /// Fresh bytes: 16 for `AT_RANDOM`, 8 for the stack canary.
    pub random: [u64; 3],
    /// Signals to ignore, bit 0 is signal 1.
    pub ignore_mask: u64,
    /// Signals that are blocked when the run starts.
    pub signal_mask: u64,
    /// Name of the task, NUL-terminated, for [`order_flags::COMM`].
    pub comm: [u8; 16],
    /// Processors that the run may use, the first 1,024.
    pub affinity: [u64; 16],
    /// Offset of the working directory's path in the arg area.
    pub cwd_offset: u32,
    /// Process group for `setpgid`.
    pub pgroup: i32,
    /// File mode creation mask.
    pub umask: u32,
    /// Niceness.
    pub nice: i32,
    /// Valid entries of `fd_targets`: how many descriptors come with the message.
    pub fd_count: u32,
    /// Which limits are to be set.
    pub limit_mask: u32,
    /// The process that the order is for.
    pub pid: i32,
    /// With [`order_flags::EXEC`]: the descriptor that is closed by the execution, so that the engine sees it.
    pub exec_fd: i32,
    /// Soft and hard limits.
    pub limits: [[u64; 2]; LIMITS],
    /// The number that each descriptor of the message gets.
    pub fd_targets: [i32; MAX_FDS],
    /// Pointers to be set.
    pub patches: [Patch; MAX_PATCHES],
}

/// What a reset did. Written by the keeper, in the body's order of work.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ResetCounters {
    /// Pages that were compared.
    pub compared: AtomicU32,
    /// Pages that were copied from the image.
    pub copied: AtomicU32,
    /// Pages that were zeroed in place.
    pub zeroed: AtomicU32,
    /// Pages that were given back to the kernel.
    pub dropped: AtomicU32,
    /// Ranges that were unmapped, mapped or re-protected.
    pub mappings: AtomicU32,
}

/// The shared page of a body.
#[derive(Debug)]
#[repr(C)]
pub struct Control {
    /// [`State`]; a futex word (not private).
    pub state: AtomicU32,
    /// Set by a side that sleeps on `state`, so that the other side knows that it must wake it.
    pub waiters: AtomicU32,
    /// The armed or running process. Written by the kernel when it makes it.
    pub pid: AtomicI32,
    /// The keeper.
    pub keeper: AtomicI32,
    /// [`Broken`], when the state says so.
    pub broken: AtomicU32,
    /// [`Refused`] of the last order, or zero.
    pub refused: AtomicU32,
    /// The process that has refused it.
    pub refused_pid: AtomicI32,
    /// The errno that goes with `broken` or `refused`.
    pub errno: AtomicI32,
    /// 1: after a reset wait in [`State::Clean`] until the engine says [`State::Arming`].
    pub verify: AtomicU32,
    /// 1: a process has a session of its own before it has an order, and takes none without [`order_flags::SETSID`].
    pub sessions: AtomicU32,
    /// Number of the fault point that the agent is to fail at, or zero (tests).
    pub fault: AtomicU32,
    /// [`command`].
    pub command: AtomicU32,
    /// A futex word that the keeper sleeps on: raised by the engine when it has waited for the run, and at the end.
    pub bell: AtomicU32,
    /// Times on the monotonic clock in nanoseconds: jump to the program, run seen gone, body armed again.
    pub main_ns: AtomicU64,
    /// See `main_ns`.
    pub left_ns: AtomicU64,
    /// See `main_ns`.
    pub armed_ns: AtomicU64,
    /// What the last reset did.
    pub reset: ResetCounters,
    /// The order of the run.
    pub order: Order,
}

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
    /// Its address; bit 0 is [`PAGE_WAS_ANONYMOUS`].
    pub address_and_flags: u64,
}

/// The page was anonymous at the snapshot: when it is not there after a run, it must be written again. A saved page
/// without this bit was still the file's own, so that a clean page needs nothing.
pub const PAGE_WAS_ANONYMOUS: u64 = 1;

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
}

/// General registers at the snapshot point, in the order in which the agent loads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15.
    pub general: [u64; 16],
    /// rip.
    pub instruction: u64,
    /// rflags.
    pub flags: u64,
}

/// Index of rsp and the three argument registers in [`Registers::general`].
pub mod register {
    /// Third argument.
    pub const RDX: usize = 3;
    /// Second argument.
    pub const RSI: usize = 4;
    /// First argument.
    pub const RDI: usize = 5;
    /// Stack pointer.
    pub const RSP: usize = 7;
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
    /// XSAVE; else FXSAVE.
    pub const XSAVE: u32 = 1 << 2;
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
    /// [`PROTOCOL_VERSION`].
    pub version: u32,
    /// [`point`].
    pub point: u32,
    /// [`features`].
    pub features: u32,
    /// Length of the table of mappings.
    pub vma_count: u32,
    /// Length of the table of saved pages.
    pub page_count: u32,
    /// Bytes of the XSAVE area.
    pub fp_bytes: u32,
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
    /// Offset of the XSAVE area.
    pub fp_offset: u64,
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
    /// FS base.
    pub fs_base: u64,
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

/// A message to a seed (an image's first keeper, which never runs the program): make a body by `fork`. The control
/// memfd and the body's end of its socket come with it as descriptors.
pub const SEED_FORK: u8 = b'f';
/// A message to an armed process: the order stands in the control area.
pub const ARMED_GO: u8 = b'g';

/// The descriptor through which a front end reports, and finds its order in a run (`docs/warm.md`).
pub const WARM_FD: i32 = 63;

/// The one descriptor that a keeper holds for orders.
pub const KEEPER_SOCKET_FD: i32 = 3;

const _: () = {
    assert!(size_of::<Patch>() == 16);
    assert!(size_of::<VmaEntry>() == 48);
    assert!(size_of::<PageEntry>() == 8);
    assert!(size_of::<Registers>() == 144);
    assert!(size_of::<Order>() == 1336);
    assert!(size_of::<Control>() == 1440);
    assert!(size_of::<Control>() <= ARG_AREA_OFFSET);
    assert!(size_of::<ImageHeader>() == 480);
    assert!(size_of::<ImageHeader>() <= PAGE_BYTES as usize);
};
