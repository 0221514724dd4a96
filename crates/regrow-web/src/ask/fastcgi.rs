//! FastCGI 1.0, by which a web server passes on the requests that it has read.

mod connection;
mod params;
mod record;
pub(crate) mod responder;
