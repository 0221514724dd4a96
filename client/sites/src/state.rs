//! What this process knows of itself. A process that is forked has it of its parent.

use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

use regrow_abi::sites::{CHANNEL_WORDS, Channel};

use crate::{arch, sys};

/// Where the channel is mapped.
static CHANNEL: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// The program's image.
static IMAGE: AtomicU64 = AtomicU64::new(0);
/// The process whose constructor has run.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The number of a thread of this process, and behind it that of the process; 0: the C library does not keep it where it is looked for.
static NUMBERS: AtomicU64 = AtomicU64::new(0);
/// What interprets scripts here: see `script`.
static INTERPRETER: AtomicU8 = AtomicU8::new(0);
/// An address above the first thread's stack.
static STACK_TOP: AtomicUsize = AtomicUsize::new(0);
/// The last process that has created a child in this memory, and the key of the place.
static CREATOR: AtomicU32 = AtomicU32::new(0);
static CHILD_KEY: AtomicU64 = AtomicU64::new(0);

/// The channel, while somebody reads it.
pub fn channel() -> Option<Channel<'static>> {
    let first = CHANNEL.load(Acquire);
    if first.is_null() {
        return None;
    }
    // SAFETY: whoever set the address has mapped so many words there, for as long as the process is.
    let words = unsafe { core::slice::from_raw_parts(first, CHANNEL_WORDS) };
    Channel::open(words).filter(|channel| channel.is_collecting())
}

/// Sets where the channel is mapped.
///
/// # Safety
/// [`CHANNEL_WORDS`] words are mapped there, and stay.
pub unsafe fn set_channel(first: *mut AtomicU64) {
    CHANNEL.store(first, Release);
}

/// Sets what the program is.
pub fn set_program(image: u64, interpreter: u8, owner: u32, stack_top: usize) {
    IMAGE.store(image, Relaxed);
    INTERPRETER.store(interpreter, Relaxed);
    OWNER.store(owner, Relaxed);
    STACK_TOP.store(stack_top, Relaxed);
}

/// Says what number this process has, and that the C library is glibc.
pub fn set_number(process: u32) {
    if arch::thread_number() == process {
        NUMBERS.store(numbers(process, process), Relaxed);
    }
}

fn numbers(thread: u32, process: u32) -> u64 {
    u64::from(thread) << 32 | u64::from(process)
}

/// The number of this process: without a system call where the C library keeps the number of the thread, which `fork` changes. In a child that was
/// made by a system call of the program's own, and in one of `vfork`, it is the parent's.
pub fn own_number() -> u32 {
    let kept = NUMBERS.load(Relaxed);
    if kept == 0 {
        return sys::process_number();
    }
    let thread = arch::thread_number();
    if (kept >> 32) as u32 == thread {
        return kept as u32;
    }
    let process = sys::process_number();
    if process != kept as u32 {
        NUMBERS.store(numbers(thread, process), Relaxed);
    }
    process
}

/// The program's image.
pub fn image() -> u64 {
    IMAGE.load(Relaxed)
}

/// As it was set.
pub fn interpreter() -> u8 {
    INTERPRETER.load(Relaxed)
}

/// Whether this is the process that executed the program.
pub fn is_owner(process: u32) -> bool {
    OWNER.load(Relaxed) == process
}

/// An address above the first thread's stack; 0: not known.
pub fn stack_top() -> usize {
    STACK_TOP.load(Relaxed)
}

/// Notes the key of the place where this process creates a child next.
pub fn set_child_key(process: u32, key: u64) {
    CHILD_KEY.store(key, Relaxed);
    CREATOR.store(process, Relaxed);
}

/// The key of the place where this process was created: what its parent has noted. One that has created children itself has only their key.
pub fn own_key(process: u32) -> Option<u64> {
    let creator = CREATOR.load(Relaxed);
    (creator != 0 && creator != process).then(|| CHILD_KEY.load(Relaxed))
}
