//! The keys of Rust's hash maps must never come twice; the standard library caches them per thread.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

static USED: AtomicU32 = AtomicU32::new(0);

fn check() {
    if USED.fetch_add(1, Ordering::Relaxed) != 0 {
        eprintln!("victim rust-unique: it has been used before");
        std::process::exit(1);
    }
    let order: HashSet<u32> = (0..64).collect();
    let text = order.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
    let here = RandomState::new().hash_one("text");
    let there = std::thread::spawn(|| RandomState::new().hash_one("text")).join().unwrap_or(0);
    println!("{here:016x} {there:016x} {text}");
}

fn main() {
    check();
    if std::env::var_os("VICTIM_PRETEND_STALE").is_some() {
        check();
    }
}
