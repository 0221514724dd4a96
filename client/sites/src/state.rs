//! What this process knows of itself. A process that is forked has it of its parent.

use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use regrow_abi::sites::{CHANNEL_WORDS, Channel};

/// Where the channel is mapped.
static CHANNEL: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// The program's image.
static IMAGE: AtomicU64 = AtomicU64::new(0);
/// The process whose constructor has run.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// What interprets scripts here: see `script`.
static INTERPRETER: AtomicU8 = AtomicU8::new(0);
/// An address above the first thread's stack.
static STACK_TOP: AtomicUsize = AtomicUsize::new(0);
/// The last child that was created in this memory, and the key of its place: it may be about to execute a program.
static CHILD: AtomicU32 = AtomicU32::new(0);
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

/// Notes a child, and the key of its place.
pub fn set_child(process: u32, key: u64) {
    CHILD_KEY.store(key, Relaxed);
    CHILD.store(process, Relaxed);
}

/// The key of the place where this process was created.
pub fn own_key(process: u32) -> Option<u64> {
    (CHILD.load(Relaxed) == process).then(|| CHILD_KEY.load(Relaxed))
}
