//! Input and output of tasks: a task that waits for a descriptor leaves its worker to others.
//!
//! ```text
//!   net  pipe     what connects, accepts and copies
//!   wrapper       Async: a descriptor, and all that its type can do, without keeping the worker
//!   registered    a wait for a descriptor; which workers watch it
//! ```
//!
//! [`Async`] is what to use:
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::{Ipv4Addr, TcpListener, TcpStream};
//!
//! use regrow_fiber::io::Async;
//! use regrow_fiber::{Runtime, spawn};
//!
//! let answer = Runtime::new().run(|| {
//!     let listener = Async::<TcpListener>::bind((Ipv4Addr::LOCALHOST, 0))?;
//!     let address = listener.get_ref().local_addr()?;
//!     spawn(move || {
//!         let (mut stream, _) = listener.accept()?;
//!         let mut question = [0; 4];
//!         stream.read_exact(&mut question)?;
//!         question.reverse();
//!         stream.write_all(&question)
//!     });
//!     let mut stream = Async::<TcpStream>::connect(address)?;
//!     stream.write_all(b"live")?;
//!     let mut answer = String::new();
//!     stream.read_to_string(&mut answer)?;
//!     Ok::<_, std::io::Error>(answer)
//! })??;
//! assert_eq!(answer, "evil");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A plain thread may use all of this too: it waits in the kernel. So does a [state machine](crate::steps), which keeps its worker meanwhile. What the
//! kernel has no waiting for (a file on a disk, a directory) is always ready: a task that reads it keeps its worker as long as the kernel takes.

mod net;
mod pipe;
mod registered;
mod wrapper;

pub use pipe::pipe;
pub use registered::{readable, writable};
pub use wrapper::Async;
