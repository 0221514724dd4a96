//! What has no safe form: contexts of the C library, its character streams, and stacks for corosensei.

#![allow(unsafe_code, reason = "contexts and streams of the C library, and stacks by their address")]

use std::cell::Cell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use corosensei::stack::{Stack, StackPointer};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::error::BenchError;

/// Two contexts of the C library, which pass a number there and back.
pub(super) struct Contexts {
    own: Box<libc::ucontext_t>,
    other: Box<libc::ucontext_t>,
    _stack: Vec<u128>,
}

thread_local! {
    /// What the function of a context has: both contexts, and the number.
    static SHARED: Cell<(*mut libc::ucontext_t, *mut libc::ucontext_t, usize)> =
        const { Cell::new((ptr::null_mut(), ptr::null_mut(), 0)) };
}

extern "C" fn add_for_ever() {
    loop {
        let (own, other, number) = SHARED.get();
        SHARED.set((own, other, number + 1));
        // SAFETY: both are contexts of this thread: `Contexts::there_and_back` has set them.
        unsafe { libc::swapcontext(other, own) };
    }
}

impl Contexts {
    pub(super) fn new() -> Result<Self, BenchError> {
        let mut stack = vec![0_u128; 4096];
        // SAFETY: zeros are a context, which `getcontext` fills; the stack lives as long as the context, whose function never returns.
        unsafe {
            let own = Box::new(MaybeUninit::<libc::ucontext_t>::zeroed().assume_init());
            let mut other = own.clone();
            if libc::getcontext(&raw mut *other) != 0 {
                return Err(BenchError::system("there are no contexts")(std::io::Error::last_os_error()));
            }
            other.uc_stack.ss_sp = stack.as_mut_ptr().cast();
            other.uc_stack.ss_size = size_of_val(stack.as_slice());
            libc::makecontext(&raw mut *other, add_for_ever, 0);
            Ok(Self { own, other, _stack: stack })
        }
    }

    /// The next number.
    pub(super) fn there_and_back(&mut self, number: usize) -> usize {
        let (own, other) = (&raw mut *self.own, &raw mut *self.other);
        SHARED.set((own, other, number));
        // SAFETY: both are contexts: `new` has made them.
        unsafe { libc::swapcontext(own, other) };
        SHARED.get().2
    }
}

/// Stacks for corosensei, mapped in one piece and without guard pages: its own are two mappings each, of which a process may have 65,530.
pub(super) struct Stacks {
    start: NonNull<u8>,
    bytes: usize,
    stack_bytes: usize,
}

/// One of them.
pub(super) struct OneStack {
    base: StackPointer,
    limit: StackPointer,
}

impl Stacks {
    pub(super) fn map(count: usize, stack_bytes: usize) -> Result<Self, BenchError> {
        let bytes = count * stack_bytes;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        // SAFETY: the kernel chooses the address: nothing is there.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, flags) };
        let start = start.map_err(|error| BenchError::system("no memory for stacks")(error.into()))?;
        // SAFETY: it was mapped just now. Of a huge page a coroutine would use the least part.
        let _ = unsafe { rustix::mm::madvise(start, bytes, rustix::mm::Advice::LinuxNoHugepage) };
        let start = NonNull::new(start.cast()).ok_or_else(|| BenchError::WrongRun {
            program: "ladder".to_owned(),
            what: "memory at address 0".to_owned(),
        })?;
        Ok(Self { start, bytes, stack_bytes })
    }

    /// A stack by its number; each is taken once.
    pub(super) fn stack(&self, number: usize) -> Option<OneStack> {
        let limit = self.start.as_ptr() as usize + number * self.stack_bytes;
        let base = StackPointer::new(limit + self.stack_bytes)?;
        Some(OneStack { base, limit: StackPointer::new(limit)? })
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `map`; who has a stack of it has ended before.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: base and limit are those of memory that is mapped as long as `Stacks` is there, which outlives the coroutines.
unsafe impl Stack for OneStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

/// A character stream of the C library.
#[derive(Clone, Copy)]
pub(super) struct Stream(*mut libc::FILE);

impl Stream {
    /// Opens a file; `mode` is that of `fopen`.
    pub(super) fn open(path: &CStr, mode: &CStr) -> Result<Self, BenchError> {
        // SAFETY: both are texts that end in a zero.
        let file = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
        if file.is_null() {
            return Err(BenchError::system("a file cannot be opened")(std::io::Error::last_os_error()));
        }
        Ok(Self(file))
    }

    /// The next byte.
    #[inline]
    pub(super) fn get(self) -> Option<u8> {
        // SAFETY: it is open until `close`, which takes the last copy.
        u8::try_from(unsafe { libc::fgetc(self.0) }).ok()
    }

    /// Writes a byte.
    #[inline]
    pub(super) fn put(self, byte: u8) {
        // SAFETY: as in `get`.
        unsafe { libc::fputc(i32::from(byte), self.0) };
    }

    /// Closes it. Nobody uses a copy afterwards.
    pub(super) fn close(self) {
        // SAFETY: it is open.
        unsafe { libc::fclose(self.0) };
    }
}
