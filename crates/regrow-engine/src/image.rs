//! Images: how they are made, what is kept of them, and how bodies are forked from them.

pub(crate) mod attempt;
pub(crate) mod facts;
pub(crate) mod forking;
pub(crate) mod kept;
pub(crate) mod maker;
pub(crate) mod warm;
