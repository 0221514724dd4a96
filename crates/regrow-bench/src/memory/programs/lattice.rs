//! A lattice-Boltzmann kernel as SPEC's `lbm`, in two dimensions with nine velocities (D2Q9): collide and stream over two grids in turn.
//!
//! ```text
//!   cell    9 populations of 8 bytes; f(x, t + 1) = f*(x - e, t): each is pulled from the neighbour that it comes from
//!   row     56 cells, which are 4,032 of the 4,096 bytes of a page; the lattice is closed in itself on all sides
//!   block   a row (one page), or all rows of a grid
//! ```
//!
//! What is allocated when ([`Blocks`]):
//! - `PageForEachRow`: a step allocates each row of the grid that it writes, one page each, just before it writes the row. When the step is
//!   over, it frees the rows of the grid that it has read, one call each. So malloc and free are system calls of a page, as in the paper.
//! - `GridForEachRun`: as SPEC's program does it itself: both grids are allocated when the program starts, each as one block, and freed when it ends.

use bytemuck::{cast_slice, cast_slice_mut};

use super::super::source::{Program, Source};
use crate::error::BenchError;

/// Velocities, and the weights of their populations.
const VELOCITIES: usize = 9;
const E: [(isize, isize); VELOCITIES] =
    [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)];
const WEIGHTS: [f64; VELOCITIES] =
    [4.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0];
/// Cells of a row, and the bytes that a row takes.
const WIDTH: usize = 56;
const ROW_BYTES: usize = 4096;
const ROW_NUMBERS: usize = WIDTH * VELOCITIES;
/// How fast populations approach equilibrium.
const OMEGA: f64 = 1.2;

/// What is allocated when: see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Blocks {
    PageForEachRow,
    GridForEachRun,
}

/// A program of so many rows and steps.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Lattice {
    pub(in super::super) rows: usize,
    pub(in super::super) steps: usize,
    pub(in super::super) blocks: Blocks,
}

/// A grid: its blocks, each with so many rows.
struct Grid<B> {
    blocks: Vec<B>,
    rows_of_block: usize,
}

impl<B: std::ops::DerefMut<Target = [u8]>> Grid<B> {
    fn row(&self, row: usize) -> &[f64] {
        let start = row % self.rows_of_block * ROW_BYTES;
        &cast_slice(&self.blocks[row / self.rows_of_block][start..start + ROW_BYTES])[..ROW_NUMBERS]
    }

    fn row_mut(&mut self, row: usize) -> &mut [f64] {
        let start = row % self.rows_of_block * ROW_BYTES;
        let bytes = &mut self.blocks[row / self.rows_of_block][start..start + ROW_BYTES];
        &mut cast_slice_mut(bytes)[..ROW_NUMBERS]
    }
}

impl Lattice {
    fn grid<B>(self) -> Grid<B> {
        let rows_of_block = if self.blocks == Blocks::PageForEachRow { 1 } else { self.rows };
        Grid { blocks: Vec::with_capacity(self.rows), rows_of_block }
    }

    /// Allocates the block of a row, if that is its first.
    fn allocate<S: Source>(
        self,
        source: &mut S,
        grid: &mut Grid<S::Block>,
        row: usize,
    ) -> Result<(), BenchError> {
        if grid.blocks.len() * grid.rows_of_block <= row {
            grid.blocks.push(source.take(grid.rows_of_block * ROW_BYTES)?);
        }
        Ok(())
    }

    /// At rest but for a wave, and a bit denser in one place.
    fn begin<S: Source>(self, source: &mut S, grid: &mut Grid<S::Block>) -> Result<(), BenchError> {
        for y in 0..self.rows {
            self.allocate(source, grid, y)?;
            let phase = as_float(y) / as_float(self.rows) * std::f64::consts::TAU;
            for (x, cell) in grid.row_mut(y).chunks_exact_mut(VELOCITIES).enumerate() {
                let is_dense = x.abs_diff(WIDTH / 2) < 4 && y.abs_diff(self.rows / 2) < 4;
                let density = if is_dense { 1.05 } else { 1.0 };
                cell.copy_from_slice(&equilibrium(density, 0.05 * phase.sin(), 0.0));
            }
        }
        Ok(())
    }

    fn step<S: Source>(
        self,
        source: &mut S,
        from: &Grid<S::Block>,
        to: &mut Grid<S::Block>,
    ) -> Result<(), BenchError> {
        for y in 0..self.rows {
            self.allocate(source, to, y)?;
            let below = from.row((y + self.rows - 1) % self.rows);
            let above = from.row((y + 1) % self.rows);
            pull_and_collide([below, from.row(y), above], to.row_mut(y));
        }
        Ok(())
    }
}

impl Program for Lattice {
    fn run<S: Source>(&self, source: &mut S) -> Result<Vec<u8>, BenchError> {
        let (mut from, mut to) = (self.grid(), self.grid());
        self.begin(source, &mut from)?;
        for _ in 0..self.steps {
            self.step(source, &from, &mut to)?;
            if self.blocks == Blocks::PageForEachRow {
                from.blocks.drain(..).for_each(|block| source.give(block));
            }
            std::mem::swap(&mut from, &mut to);
        }
        let result = (0..self.rows).flat_map(|row| cast_slice::<f64, u8>(from.row(row)).to_vec()).collect();
        from.blocks.into_iter().chain(to.blocks).for_each(|block| source.give(block));
        Ok(result)
    }
}

/// A row of the next step, out of the row itself and those on both sides of it.
fn pull_and_collide(from: [&[f64]; 3], to: &mut [f64]) {
    for (x, cell) in to.chunks_exact_mut(VELOCITIES).enumerate() {
        let columns = [if x == 0 { WIDTH - 1 } else { x - 1 }, x, if x + 1 == WIDTH { 0 } else { x + 1 }];
        let mut f = [0.0; VELOCITIES];
        for (number, (value, (right, up))) in f.iter_mut().zip(E).enumerate() {
            // What moves to the right comes from the left.
            let (column, row) = (columns[(1 - right).unsigned_abs()], from[(1 - up).unsigned_abs()]);
            *value = row[column * VELOCITIES + number];
        }
        let density: f64 = f.iter().sum();
        let right = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / density;
        let up = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / density;
        let balanced = equilibrium(density, right, up);
        for ((value, old), balanced) in cell.iter_mut().zip(f).zip(balanced) {
            *value = old + OMEGA * (balanced - old);
        }
    }
}

fn equilibrium(density: f64, right: f64, up: f64) -> [f64; VELOCITIES] {
    const ALONG: [[f64; 2]; VELOCITIES] = [
        [0.0, 0.0],
        [1.0, 0.0],
        [0.0, 1.0],
        [-1.0, 0.0],
        [0.0, -1.0],
        [1.0, 1.0],
        [-1.0, 1.0],
        [-1.0, -1.0],
        [1.0, -1.0],
    ];
    let square = 1.5 * (right * right + up * up);
    let mut all = [0.0; VELOCITIES];
    for ((value, weight), [x, y]) in all.iter_mut().zip(WEIGHTS).zip(ALONG) {
        let along = 3.0 * (x * right + y * up);
        *value = weight * density * (1.0 + along + 0.5 * along * along - square);
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "rows are far fewer than 2^52")]
fn as_float(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::super::super::source::Kernel;
    use super::*;

    /// Mass, and momentum to the right.
    fn sums(result: &[u8]) -> (f64, f64) {
        let numbers: Vec<f64> =
            result.chunks_exact(8).map(|eight| f64::from_ne_bytes(eight.try_into().unwrap())).collect();
        let along = [0.0, 1.0, 0.0, -1.0, 0.0, 1.0, -1.0, -1.0, 1.0];
        let momentum = numbers
            .chunks_exact(VELOCITIES)
            .map(|cell| cell.iter().zip(along).map(|(f, e)| f * e).sum::<f64>());
        (numbers.iter().sum(), momentum.sum())
    }

    fn run(steps: usize, blocks: Blocks) -> (Vec<u8>, u32) {
        let mut source = Kernel::default();
        let result = Lattice { rows: 40, steps, blocks }.run(&mut source).unwrap();
        (result, source.count())
    }

    #[test]
    fn mass_and_momentum_are_conserved_while_the_wave_dies_down() {
        let (before, after) = (run(0, Blocks::PageForEachRow).0, run(400, Blocks::PageForEachRow).0);
        let ((mass, momentum), (mass_later, momentum_later)) = (sums(&before), sums(&after));
        assert!((mass - (40.0 * 56.0 + 49.0 * 0.05)).abs() < 1e-9, "{mass}");
        assert!((mass_later / mass - 1.0).abs() < 1e-12, "{mass} {mass_later}");
        assert!((momentum - momentum_later).abs() < 1e-9, "{momentum} {momentum_later}");
        // The speed in the row where the wave is highest, a quarter from the first one.
        let speed = |result: &[u8]| sums(&result[10 * ROW_NUMBERS * 8..11 * ROW_NUMBERS * 8]).1 / 56.0;
        // The paper's viscosity: (1 / omega - 1 / 2) / 3; the wave falls to exp(-viscosity k² t).
        let decay = (-(1.0 / OMEGA - 0.5) / 3.0 * (std::f64::consts::TAU / 40.0).powi(2) * 400.0).exp();
        assert!(
            (speed(&after) / speed(&before) - decay).abs() < 0.02,
            "{} {decay}",
            speed(&after) / speed(&before)
        );
    }

    #[test]
    fn rows_are_allocated_for_each_step_or_grids_for_each_run() {
        let (pages, grids) = (run(7, Blocks::PageForEachRow), run(7, Blocks::GridForEachRun));
        assert_eq!((pages.1, grids.1), (40 * 8, 2));
        assert_eq!(pages.0, grids.0, "the same numbers");
    }
}
