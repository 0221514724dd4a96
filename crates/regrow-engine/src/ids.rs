//! The ids of the engine's tables. Bodies, shells, programs and processes have the pool's ids, so that engine and policy
//! speak of a thing by one number; images and names stand in the engine alone.

pub use regrow_pool::ids::{BodyId, Numbering, ProcessId, ProgramId, ResourceId, ShellId};

regrow_pool::resource_id! {
    /// An image, or the place of one that is being made or that cannot be made.
    ImageId, "image"
}
regrow_pool::resource_id! {
    /// A name that a program was asked for by, and that the table of programs remembers.
    NameId, "name"
}
