//! Compares a body with its image from outside.
