//! What the tests share: victims, flavours, the corpus and fault points.

pub mod attacks;
pub mod corpus;
pub mod corpus_regrow;
pub mod left;
pub mod program;
pub mod summary;
pub mod victims;
