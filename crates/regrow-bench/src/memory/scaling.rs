//! Scaling.
mod model;
