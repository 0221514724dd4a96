//! `regrow sites`: real builds and scripts, their outputs, what is hostile, and the live view in a terminal.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;
#[allow(dead_code, reason = "each test binary uses a part of it")]
#[path = "terminal/pty.rs"]
mod pty;
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

#[path = "sites/hostile.rs"]
mod hostile;
#[path = "sites/live.rs"]
mod live;
#[path = "sites/outputs.rs"]
mod outputs;
