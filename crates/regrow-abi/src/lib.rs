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
//! | PageEntry... |  sorted by address                 +-------------------+ EXCHANGE_OFFSET
//! +--------------+ float_state_offset                 | Exchange          |  what caller and program say
//! | float state  |  (64-byte aligned)                 |                   |  to each other
//! +--------------+ store_offset (page aligned)        +-------------------+ CONTROL_BYTES
//! | saved pages  |
//! +--------------+
//! ```
//!
//! Invariants: every type is `repr(C)`, without implicit padding, of a size that is asserted below; a change of any
//! of them raises [`PROTOCOL_VERSION`]. The agent trusts the sealed image. The engine trusts nothing that it reads
//! from a control memfd, because the program that ran in the body can write there: it is only a hint. What the engine
//! acts on comes as a [`Report`] on the body's socket, which no program has open.

#![no_std]

mod arch;
pub mod client;
mod exchange;
pub mod fault;
mod image;
mod mappings;
mod report;
mod scheduling;
pub mod sites;
mod state;
pub mod task;

pub use arch::{PAGE_BYTES, PAGE_LEN, Registers};
pub use exchange::{EXCHANGE_BYTES, Exchange, MOST_ANSWER_BYTES, MOST_ORDER_BYTES};
pub use image::{
    ImageHeader, MAX_TID_WORDS, PAGE_IN_SEED, PAGE_WAS_ANONYMOUS, PageEntry, VmaEntry, features, point,
    vma_flags,
};
pub use mappings::{Comparison, MappedSizes};
pub use report::{REPORT_WORDS, Report};
pub use scheduling::SchedAttr;
pub use state::{Broken, Refused, State};

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use task::Task;

/// Raised by every change of a type in this crate; the agent refuses to keep an image of another version.
pub const PROTOCOL_VERSION: u32 = 9;

/// Where the arg area starts in the control memfd.
pub const ARG_AREA_OFFSET: usize = 8192;

/// Bytes of the arg area (the papers' work area): what a run's stack block and working directory must fit in.
pub const ARG_AREA_BYTES: usize = 256 * 1024;

/// Where the [`Exchange`] starts in the control memfd.
pub const EXCHANGE_OFFSET: usize = ARG_AREA_OFFSET + ARG_AREA_BYTES;

/// Bytes of the control memfd.
pub const CONTROL_BYTES: usize = EXCHANGE_OFFSET + EXCHANGE_BYTES;

/// Bytes of the keeper's private memory: its stack, the armed process's stack and the scan buffers.
pub const PRIVATE_BYTES: usize = 512 * 1024;

/// Most pointers into the argument block that an image may have to patch in each run.
pub const MAX_PATCHES: usize = 32;

/// Most descriptors that an order may pass.
pub const MAX_FDS: usize = 64;

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

/// Numbers in [`Control::purpose`]: what a body is made for.
pub mod purpose {
    /// For one run after the other.
    pub const RUNS: u32 = 0;
    /// To be broken up: its agent's memory is not sealed.
    pub const SHELL: u32 = 1;
    /// For one run: what only a reset needs is not made ready.
    pub const ONE_RUN: u32 = 2;
}

/// Bit of the bytes of a range for [`command::PREFAULT`]: its pages are only read.
pub const PREFAULT_READ: u64 = 1;

/// Bits of [`Order::flags`].
pub mod order_flags {
    /// Descriptors are to be moved to the numbers in `fd_targets` (else they are 0, 1, 2).
    pub const PLACE_FDS: u32 = 1 << 0;
    /// `chdir` to the NUL-terminated path at `cwd_offset` of the arg area.
    pub const CWD: u32 = 1 << 1;
    /// The bounds of arguments and environment differ from the body's last.
    pub const BOUNDS: u32 = 1 << 2;
    /// Write the time of the jump to `Control::main_ns`.
    pub const TIMES: u32 = 1 << 3;
    /// Name the task `comm`.
    pub const COMM: u32 = 1 << 4;
    /// Of a shell: execute the program whose path is at `block_address`, with the arrays at `argv` and `envp`.
    pub const EXEC: u32 = 1 << 5;
    /// The body serves no other run: when this one has left, the keeper ends. A hint that saves a reset; the engine drops the body
    /// whatever the keeper does.
    pub const SINGLE_USE: u32 = 1 << 6;
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
    /// Which order of the body it is, from 1 on.
    pub serial: u64,
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
    /// Name of the task, NUL-terminated, for [`order_flags::COMM`].
    pub comm: [u8; 16],
    /// Offset of the working directory's path in the arg area.
    pub cwd_offset: u32,
    /// Valid entries of `fd_targets`: how many descriptors come with the message.
    pub fd_count: u32,
    /// The process that the order is for.
    pub pid: i32,
    /// With [`order_flags::EXEC`]: the descriptor that is closed by the execution, so that the engine sees it.
    pub exec_fd: i32,
    /// What the run is told to be beyond what its keeper is.
    pub task: Task,
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
    /// The errno that goes with `broken`.
    pub errno: AtomicI32,
    /// 1: after a reset wait in [`State::Clean`] until the engine says [`State::Arming`].
    pub verify: AtomicU32,
    /// 1: a process has a session of its own before it has an order, and takes none for a task without one.
    pub sessions: AtomicU32,
    /// 1: a reset believes what the kernel has noted of writes, which a run could have forged.
    pub trusts_runs: AtomicU32,
    /// Number of the [`fault::FaultPoint`] that the agent is to fail at, or zero (tests).
    pub fault: AtomicU32,
    /// [`command`].
    pub command: AtomicU32,
    /// [`purpose`]. The keeper reads it before it makes its first process.
    pub purpose: AtomicU32,
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

/// A message to a seed (an image's first keeper, which never runs the program): make a body by `fork`. The control
/// memfd and the body's end of its socket come with it as descriptors.
pub const SEED_FORK: u8 = b'f';
/// A message to a seed: map the image memfd that comes with it in the place of the one that is mapped. It differs in the pages of which the seed
/// alone has the content ([`PAGE_IN_SEED`]). The answer is zero or a negative errno.
pub const SEED_IMAGE: u8 = b'i';
/// The exit status of a process that has refused its order. A program can end so too: its [`Report`] alone tells the two apart.
pub const REFUSED_STATUS: i32 = 125;
/// A message to an armed process: the order stands in the control area.
pub const ARMED_GO: u8 = b'g';

/// The one descriptor that a keeper holds for orders, and tells its [`Report`]s on.
pub const KEEPER_SOCKET_FD: i32 = 3;

const _: () = {
    assert!(size_of::<Patch>() == 16);
    assert!(size_of::<Order>() == 928 + size_of::<Task>());
    assert!(size_of::<Control>() == 104 + size_of::<Order>());
    assert!(size_of::<Control>() <= ARG_AREA_OFFSET);
};
