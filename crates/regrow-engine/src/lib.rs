//! A shard: the tables of programs, images and bodies; spawn, wait and fall back.

pub mod creation;
pub mod environ;
pub mod exec;
pub mod request;
pub mod settings;
pub mod started;
pub mod fault;
mod inherit;
mod maker;
mod program;
pub mod shard;
mod table;
pub mod watch;
