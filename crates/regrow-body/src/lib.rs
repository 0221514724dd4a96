//! A kept address space: fork, arm, order, verify and discard.
