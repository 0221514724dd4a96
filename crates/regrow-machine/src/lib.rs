//! Creation sites of all processes of a machine, seen from the kernel.
//!
//! After Choi et al. ("location-based process management"), who changed the kernel and the C library for it. Here BPF programs at four
//! tracepoints tell what happens, and the collector finds the place in the parent's code from its registers and the top of its stack, which
//! are copied when the child is created. No program is changed, traced or stopped, and nothing is attached to it.
//!
//! ```text
//!   kernel    sched_process_fork ─ exec ─ exit ─ free ──▶ ring of records (programs, record)
//!   Machine   ring ──▶ Collector ──▶ regrow_sites::Event
//!                        ├ images   which file that is: build id, path, call frame information
//!                        ├ unwind   registers and stack ──▶ places in the code
//!                        └ frames   places ──▶ the site: where the program called the C library, and its callers
//! ```
//!
//! What finds no room in the ring is counted, and nothing waits for the collector. Processor time is the kernel's own sum, read when the
//! process has been switched away from for the last time: what `wait4` reports of a process that has ended.
//!
//! It needs root's rights, or the capabilities `CAP_BPF`, `CAP_PERFMON` and `CAP_SYS_PTRACE`: see [`StartError`].
//!
//! ```no_run
//! use std::time::Duration;
//! use regrow_machine::{Machine, MachineOptions};
//! use regrow_sites::Event;
//!
//! let mut machine = Machine::start(&MachineOptions::default())?;
//! machine.collect(Duration::from_secs(1), &mut |event| {
//!     if let Event::Created { process, site, .. } = event {
//!         println!("{} was created at {:?}", process.pid, site.frames);
//!     }
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod arch;
mod collector;
mod error;
mod frames;
mod images;
mod machine;
mod programs;
mod record;
mod rights;
mod roots;
mod unwind;

pub use error::{CollectError, Missing, StartError};
pub use machine::{Losses, Machine, MachineOptions, MappingSource, Scope};
