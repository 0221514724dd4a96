//! How a step of the reset ends.

use regrow_abi::Broken;

/// Done, or why the body is given up, with the errno that goes with it.
pub type ResetResult = Result<(), (Broken, i32)>;
