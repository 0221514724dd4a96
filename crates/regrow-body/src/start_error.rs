//! Why a run did not start in a body.

use std::io;

use regrow_abi::Refused;

/// Why a run did not start in a body. Nothing of the program has run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No process is armed.
    #[error("the body is not armed")]
    NotArmed,
    /// Arguments and environment do not fit into the image's room for them.
    #[error("arguments and environment are larger than the body's room for them")]
    TooLarge,
    /// More descriptors than an order can carry.
    #[error("{0} descriptors are more than an order can carry")]
    TooManyDescriptors(usize),
    /// The body does not answer, or says what cannot be.
    #[error("the body is broken: {0}")]
    Broken(io::Error),
    /// The agent could not carry out a step of the order.
    #[error("{step:?}: {source}")]
    Refused {
        /// Which.
        step: Refused,
        /// Why.
        source: io::Error,
    },
}
