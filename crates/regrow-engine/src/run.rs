//! What a run is: what its caller asks for, what it inherits, which program and front end it has, how it came to be, and its exec.

pub mod creation;
pub mod exec;
pub(crate) mod front_end;
pub(crate) mod inherit;
pub mod lookup;
pub(crate) mod program;
pub mod request;
pub mod started;
