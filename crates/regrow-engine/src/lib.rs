//! A shard: the tables of programs, images and bodies; spawn, wait and fall back.

pub mod controller;
pub mod creation;
pub mod environ;
pub mod exec;
pub mod fault;
mod front_end;
mod in_shell;
mod inherit;
mod keep;
pub mod log;
mod maker;
mod program;
pub mod request;
pub mod settings;
pub mod shard;
pub mod started;
mod table;
pub mod watch;
pub mod work;
