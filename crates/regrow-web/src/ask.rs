//! What asks: connections, requests, and the jobs that requests become.
//!
//! ```text
//!  http/     connection ──> exchange ──┐                               ┌──> exchange ──> response
//!                                      ├──> job ──> serve ──> reply ───┤
//!  fastcgi/  connection ──> responder ─┘                               └──> responder
//!
//!  target     which script a path names            variables   the environment of a script
//!  function   the contract of functions            access_record   the log line and the counters of a request
//! ```

pub(crate) mod access_record;
pub(crate) mod fastcgi;
pub(crate) mod function;
pub(crate) mod http;
pub(crate) mod metrics_endpoint;
pub(crate) mod request_head;
pub mod target;
pub(crate) mod variables;
