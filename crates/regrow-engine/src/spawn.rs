//! Spawning: finds the image of a run, and starts the run in a body or in a shell.

pub(crate) mod finder;
pub(crate) mod in_shell;
pub(crate) mod leasing;
pub(crate) mod starting;
