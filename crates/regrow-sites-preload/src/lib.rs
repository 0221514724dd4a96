//! `libregrow_sites.so` as bytes: what it does, and its code, stand in `client/sites`; what reads its records is `regrow-collect`.
//!
//! A command carries it, and puts it into a file, so that it needs no file of its own beside it.

#![forbid(unsafe_code)]

/// The library.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libregrow_sites.so"));
