//! Programs with `LD_PRELOAD=libregrow_memory.so`: they do what they do without it, and the counts say that the service has served them.

mod gives_back;
mod harness;
mod programs;
mod redis;
mod whole;
