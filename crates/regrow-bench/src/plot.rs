//! Plots of a replay, each as SVG and as PNG.

mod charts;
pub mod draw;
pub mod error;
mod letters;
