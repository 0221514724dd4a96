//! A web gateway.

#![forbid(unsafe_code)]

pub mod head;
pub mod target;
