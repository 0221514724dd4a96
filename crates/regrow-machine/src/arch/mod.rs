//! What unwinding must know of the machine. One folder per architecture; all others use its items by the neutral names.
//!
//! A folder for an architecture provides:
//!
//! | item | what it is |
//! |---|---|
//! | `REGISTER_BYTES`, `registers` | the general registers as the kernel saves them at a system call, and how they are read |
//! | `REGISTERS`, `STACK_POINTER`, `FRAME_POINTER`, `RETURN_ADDRESS` | how many registers call frame information knows, and the numbers of three |
//! | `return_of_leaf` | where a function without a frame, in which a system call was made, returns to |
//! | `call_before`, [`Call`] | the call that ends where some bytes end |
//! | `frame_may_have` | whether a function's first instructions make a frame of a size |
//! | `keeps_frame_pointer` | whether a function saves its caller's frame pointer below its return address |
//! | `first_transfer` | the first direct call or jump of a start function |

mod code;
#[cfg(target_arch = "x86_64")]
mod x86_64;
pub(crate) use code::{Call, LeafReturn};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    FRAME_POINTER, LONGEST_CALL_BYTES, REGISTER_BYTES, REGISTERS, RETURN_ADDRESS, STACK_POINTER, call_before,
    first_transfer, frame_may_have, keeps_frame_pointer, registers, return_of_leaf,
};
