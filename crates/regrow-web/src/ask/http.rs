//! HTTP/1.1, and HTTP/2 without TLS.

mod client_socket;
pub(crate) mod connection;
mod exchange;
mod job;
mod response;
