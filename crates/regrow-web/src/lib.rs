//! A web gateway that answers every request with a fresh, recycled process.
//!
//! ```text
//!  ask/                                job.rs             serve/
//!  HTTP/1.1, h2c ──┐                                          ┌─ a folder of CGI scripts, or one program (RFC 3875)
//!                  ├─> request ──────> RequestJob ──> process ┼─ a function: body in, body out
//!  FastCGI ────────┘   head, variables                recycled└─ a Python application: WSGI, ASGI
//!                  <── HTTP, FastCGI <── CgiHead, body <──────┘
//! ```
//!
//! `ask` turns the bytes of a connection into a job, and the reply of a process into the bytes of a connection. `serve` starts
//! a process for a job, reads its reply, and waits for its end. `ask` calls `serve`; `serve` knows nothing of `ask`.
//!
//! One thread serves all connections, since the processes do the work that takes time. [`settings::Limits`] bounds everything that
//! a client, a web server or a script can make grow or wait.
//!
//! The second Tender paper (4.4, 4.5) measures what a process for each request costs, and what recycling saves.

#![forbid(unsafe_code)]

mod access_log;
mod ask;
pub mod cgi_head;
pub mod error;
mod gateway;
mod health_file;
mod job;
mod listeners;
mod metrics;
mod prepare;
mod reload;
mod request_body;
pub mod request_error;
mod serve;
mod server;
pub mod settings;
mod signals;
mod socket_file;

pub use ask::target;
pub use server::serve;
