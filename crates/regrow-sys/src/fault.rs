//! Being told of an access to memory that may not be accessed, before the process dies of it.
//!
//! One function is told of the address; what was the action for `SIGSEGV` before follows, with the same arguments. A thread can tell of the
//! end of its own stack only on another stack: [`AlternateStack`] gives it one.

#![allow(unsafe_code, reason = "a signal is handled, and gets a stack of its own")]

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Once, OnceLock};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// How large an alternate stack is, in bytes.
const ALTERNATE_BYTES: usize = 64 << 10;

/// What is told of the address. It runs in a signal handler: it takes no lock and no memory.
pub type OnFault = fn(address: usize);

static TOLD: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Has a function told of each such access from now on; the first one that is given stays.
pub fn on_fault(told: OnFault) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        TOLD.store(told as *mut c_void, Ordering::Release);
        // SAFETY: zeros are an action; the handler does only what a handler may.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            let mut before: libc::sigaction = MaybeUninit::zeroed().assume_init();
            if libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut before) == 0 {
                let _ = BEFORE.set(before);
                libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
            }
        }
    });
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a live siginfo; TOLD holds null or a function of this type. The earlier action is
    // called as it asked to be.
    unsafe {
        let told = TOLD.load(Ordering::Acquire);
        if !told.is_null() {
            let told: OnFault = std::mem::transmute(told);
            told((*info).si_addr() as usize);
        }
        match BEFORE.get() {
            Some(before) if before.sa_sigaction != libc::SIG_DFL && before.sa_sigaction != libc::SIG_IGN => {
                if before.sa_flags & libc::SA_SIGINFO != 0 {
                    let next: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) =
                        std::mem::transmute(before.sa_sigaction);
                    next(signal, info, context);
                } else {
                    let next: extern "C" fn(i32) = std::mem::transmute(before.sa_sigaction);
                    next(signal);
                }
            }
            // The access is repeated, and ends the process.
            _ => {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            }
        }
    }
}

/// A stack for signal handlers of this thread, unless it has one; it goes when this is dropped, on the same thread.
#[derive(Debug)]
pub struct AlternateStack {
    own: Option<NonNull<c_void>>,
}

impl AlternateStack {
    /// Sees that this thread has one.
    ///
    /// # Errors
    /// As `mmap(2)`.
    pub fn for_this_thread() -> io::Result<Self> {
        // SAFETY: zeros are a stack_t, and the kernel writes the present one into it. The new stack is memory that nobody else has.
        unsafe {
            let mut present: libc::stack_t = MaybeUninit::zeroed().assume_init();
            if libc::sigaltstack(ptr::null(), &raw mut present) != 0 {
                return Err(io::Error::last_os_error());
            }
            if present.ss_flags & libc::SS_DISABLE == 0 {
                return Ok(Self { own: None });
            }
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let start = mmap_anonymous(ptr::null_mut(), ALTERNATE_BYTES, access, MapFlags::PRIVATE)?;
            let stack = libc::stack_t { ss_sp: start, ss_flags: 0, ss_size: ALTERNATE_BYTES };
            if libc::sigaltstack(&raw const stack, ptr::null_mut()) != 0 {
                let error = io::Error::last_os_error();
                munmap(start, ALTERNATE_BYTES)?;
                return Err(error);
            }
            Ok(Self { own: NonNull::new(start) })
        }
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let Some(start) = self.own else { return };
        // SAFETY: the memory is this thread's stack for handlers, which it is not on now, and is that no more when it is unmapped.
        unsafe {
            let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            if libc::sigaltstack(&raw const none, ptr::null_mut()) == 0 {
                let _ = munmap(start.as_ptr(), ALTERNATE_BYTES);
            }
        }
    }
}
