//! Plots of a replay, and of the memory service's throughput, each as SVG and as PNG.

mod chart;
mod charts;
pub mod draw;
pub mod error;
mod letters;
mod scaling;
