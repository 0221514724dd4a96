//! What the system calls must know of the machine. One folder per architecture; all others use its items by the neutral
//! names.
//!
//! A folder for an architecture provides:
//!
//! | item | what it is |
//! |---|---|
//! | `syscall` | one system call, without `errno` |
//! | `thread_pointer` | the address of the calling thread's thread-local storage |
//! | `thread_storage` | the addresses of the calling thread's static storage |
//! | `has_shadow_stack` | whether the calling thread has a second stack, against which its return addresses are checked |
//! | `Start`, `start_thread`, `end_thread` | threads that the C library does not know |
//! | [`TaskRegisters`] | the general registers of a stopped task: read and set with ptrace; the instruction and stack pointer, the arguments of the function or the system call at whose start the task stands, the result of a call, the thread pointer |
//! | `float_state` | the floating-point and vector registers of a stopped task, as the kernel saves them |
//! | `set_first_argument` | changes the first argument of a system call at whose start a task stands |
//! | `BREAKPOINTS`, `set_breakpoint`, `take_fired_breakpoints` | hardware breakpoints of a stopped task |
//! | `passed_to_libc` | the address of `main`, as the first instructions of a program pass it to the C library |
//! | `EXTENDED_STATE`, [`ExtendedState`] | the name that users know the extended floating-point state by; the size of the floating-point state, where it holds more than the oldest registers |

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::{
    BREAKPOINTS, ExtendedState, TaskRegisters, has_shadow_stack, passed_to_libc, syscall, thread_pointer,
};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    EXTENDED_STATE, Start, end_thread, float_state, set_breakpoint, set_first_argument, start_thread,
    take_fired_breakpoints, thread_storage,
};
