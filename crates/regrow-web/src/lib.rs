//! A web gateway: every request is answered by a fresh, recycled process.
//!
//! ```text
//!  HTTP/1.1, h2c ──┐                                            ┌─ a folder of CGI scripts, or one program (RFC 3875)
//!                  ├──> admit ──> process ──> head, body ──>    ├─ a function: body in, body out
//!  FastCGI ────────┘     limits   recycled                      └─ a Python application: WSGI, ASGI
//! ```
//!
//! One thread serves all connections: what takes time happens in the processes. Everything that a client, a web server or a
//! script can make grow or wait has its limit in [`settings::Limits`].
//!
//! The cost of a process per request, and what recycling makes of it, is measured in the second Tender paper (4.4, 4.5).

#![forbid(unsafe_code)]

mod access;
mod application;
mod busy_poll;
mod content;
pub mod error;
mod fastcgi;
mod function;
mod gateway;
pub mod head;
mod http;
mod input;
mod metrics;
mod orphans;
mod records;
mod reply;
mod run;
mod server;
pub mod settings;
mod socket;
mod spare;
mod stderr;
pub mod target;
mod under_way;
mod variables;

pub use server::serve;
