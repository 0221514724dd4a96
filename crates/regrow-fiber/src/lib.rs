//! Fibers: functions that wait in the middle, on stacks of their own.
//!
//! How light can a process get? One without an address space, without a kernel's task, is a stack and a position on it: a *fiber*.
//!
//! ```
//! use regrow_fiber::{Fiber, State};
//!
//! let mut squares = Fiber::new(|suspender, mut number: u64| {
//!     while number != 0 {
//!         number = suspender.suspend(number * number);
//!     }
//!     "done"
//! })?;
//! assert_eq!(squares.resume(3), State::Yielded(9));
//! assert_eq!(squares.resume(4), State::Yielded(16));
//! assert_eq!(squares.resume(0), State::Returned("done"));
//! # Ok::<(), regrow_fiber::StackError>(())
//! ```
//!
//! A [`Runtime`] runs many of them, as *tasks*, on all processors: they wait for one another by [channels](channel()), [locks](Mutex), [`sleep`],
//! [`JoinHandle::join`], [futures](block_on) and [descriptors](io), and leave the processor to others meanwhile.
//!
//! ```
//! use regrow_fiber::{Runtime, channel, spawn};
//!
//! let sum = Runtime::new().run(|| {
//!     let (sender, receiver) = channel(4);
//!     for number in 1..=10_u32 {
//!         let sender = sender.clone();
//!         spawn(move || sender.send(number * number));
//!     }
//!     drop(sender);
//!     receiver.iter().sum::<u32>()
//! })?;
//! assert_eq!(sum, 385);
//! # Ok::<(), regrow_fiber::RuntimeError>(())
//! ```
//!
//! A task that waits in a destructor while it unwinds keeps its thread *panicking* for the others on it ([`std::thread::panicking`]): a lock of the
//! standard library that one of them lets go meanwhile is poisoned. Those of them that are cancelled meanwhile end when it goes on.
//!
//! ```text
//!   background                a runtime behind a program that is none
//!   runtime  scope            tasks, started and joined
//!   channel  mutex  future    what they wait for              join   the end of one
//!   io                        descriptors that they wait for
//!   wait  hand  desk          a wait, of a task or of a thread; where its value is put; which lock a thread is in
//!   worker  timers  post      what runs tasks; times; what others tell a worker
//!   fresh                     tasks that have not begun
//!   queues                    what stands between threads
//!   reactor                   what the kernel tells a worker of descriptors
//!   predictions  look  sites      which tasks run long: what was learned by where they are created
//!   step                      tasks without a stack
//!   fiber                     a function on a stack of its own, with typed inputs and outputs
//!   control  task             what stands at the top of a fiber's stack
//!   stack                     where stacks come from and go to; their guard pages; who has used one up
//!   arch                      the switch from stack to stack
//! ```

mod arch;
mod background;
mod channel;
mod control;
mod desk;
mod error;
mod fiber;
mod fresh;
mod future;
mod hand;
pub mod io;
mod join;
mod look;
#[cfg(all(test, loom))]
mod model;
mod mutex;
mod post;
mod predictions;
mod queues;
mod reactor;
mod runtime;
mod scope;
mod sites;
mod stack;
mod step;
mod task;
mod timers;
mod wait;
mod worker;

pub use background::Background;
pub use channel::{Receiver, Sender, Source, channel, select};
pub use error::{JoinError, ReceiveError, RuntimeError, SendError, StackError, TrySendError};
pub use fiber::{Builder, Fiber, State, Suspender};
pub use future::block_on;
pub use join::{Canceller, JoinHandle};
pub use mutex::{Mutex, MutexGuard};
pub use runtime::{
    Runtime, forget_runtime, is_in_task, set_long, sleep, spawn, spawn_here, spawn_step, yield_now,
};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use stack::{
    DEFAULT_STACK_BYTES, HOT_STACKS, LEAST_STACK_BYTES, MOST_STACK_BYTES, suggested_stack_bytes,
};
pub use step::{Beside, Go, Progress, Step};
