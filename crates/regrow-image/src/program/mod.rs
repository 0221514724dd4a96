//! What is known of a program before it runs: which file a name leads to, what the file says, and which variables its start
//! depends on.

pub mod elf;
pub mod envkey;
pub mod resolve;
pub mod script;
