//! What serves: the process that answers a job, and everything around it.
//!
//! ```text
//!  launcher ──> admission: is there a place?
//!     │   └───> spare_pipes, pipe_size, stdin_feed, application: what the process reads and writes
//!     └──> process: its output ──> reply: head, then body
//!             └──> unreaped: killed, waited for, its place is free <── supervisor
//!                                                                        ├── under_way: who is late
//!                                                                        └── orphans: what scripts have left behind
//! ```

mod admission;
mod application;
mod busy_poll;
mod children;
pub(crate) mod content_check;
mod fault;
pub(crate) mod launcher;
mod orphans;
mod pipe_size;
mod pools;
mod process;
mod records;
pub(crate) mod reply;
mod spare_pipes;
mod stderr;
mod stdin_feed;
pub(crate) mod supervisor;
mod under_way;
pub(crate) mod unreaped;
