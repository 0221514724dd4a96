//! What can go wrong with fibers.

use std::io;

use thiserror::Error;

/// Why there is no stack.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StackError {
    /// A stack cannot be so small or so large.
    #[error("a stack of {bytes} bytes: between {least} and {most} bytes are possible")]
    Size {
        /// What was asked for.
        bytes: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
    /// The kernel gives no memory.
    #[error("{stacks} stacks of {bytes} bytes cannot be mapped")]
    Memory {
        /// How many were asked for in one piece.
        stacks: usize,
        /// The size of each.
        bytes: usize,
        /// The kernel's word.
        source: io::Error,
    },
    /// The kernel gives no guard pages.
    #[error("no guard page below a stack of {bytes} bytes")]
    Guard {
        /// The size of the stack.
        bytes: usize,
        /// The kernel's word; `ENOMEM`: the process has as many mappings as it may (`vm.max_map_count`).
        source: io::Error,
    },
    /// As many stacks were mapped as are kept account of.
    #[error("stacks were mapped {regions} times, which is the most")]
    Regions {
        /// How often.
        regions: usize,
    },
    /// A thread has no stack for its signal handlers, so that the end of another stack could not be told.
    #[error("no alternate stack for signals")]
    Alternate(#[source] io::Error),
    /// The processor checks return addresses against a second stack, which is not switched.
    #[error("this process has a shadow stack (CET), on which fibers would fault: start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off")]
    ShadowStack,
}
