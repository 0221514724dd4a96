//! What the rules read out of source files.

pub(crate) mod arrows;
pub(crate) mod crate_arrows;
pub(crate) mod mentions;
pub(crate) mod modules;
pub(crate) mod python;
pub(crate) mod python_arrows;
pub(crate) mod resolve;
pub(crate) mod rust;
