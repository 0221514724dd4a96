//! What the programs of the experiment ask for: large and irregular memory, held for a long time, as chess programs hold their hash tables.

use regrow_memory::units::{order_for, pages_of};

use super::super::random::Random;

/// Tables of a program: positions, positions of captures, evaluations.
const TABLES: usize = 3;
/// Pages of a table: from 4 MiB to 128 MiB.
const LEAST_PAGES: f64 = 1024.0;
const MOST_PAGES: f64 = 32_768.0;
/// How long a program computes in the mean, and at most, in milliseconds of virtual time.
const MEAN_MS: f64 = 60_000.0;
const MOST_MS: f64 = 600_000.0;

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// Orders of the blocks that it asks for when it starts, one after the other, and frees at its end.
    pub(super) blocks: Vec<u8>,
    /// How long it computes once it has all of them.
    pub(super) holds_ms: u64,
}

impl Run {
    /// The next run of a program. The logarithm of a table's size is evenly distributed, times are exponential. A table is a row of blocks of
    /// an order, or one block where it is smaller.
    pub(super) fn next(random: &mut Random, most_order: u8) -> Run {
        let mut blocks = Vec::new();
        for _ in 0..TABLES {
            let pages = whole(LEAST_PAGES * (MOST_PAGES / LEAST_PAGES).powf(random.share()));
            let count = pages.div_ceil(u64::from(pages_of(most_order)));
            let order = if count == 1 { order_for(pages).unwrap_or(most_order) } else { most_order };
            blocks.extend((0..count).map(|_| order));
        }
        let holds = -(1.0 - random.share()).ln() * MEAN_MS;
        Run { blocks, holds_ms: whole(holds.clamp(1.0, MOST_MS)) }
    }

    /// Pages of the blocks from a number on.
    pub(super) fn pages_from(&self, number: usize) -> u64 {
        self.blocks.iter().skip(number).map(|&order| u64::from(pages_of(order))).sum()
    }
}

/// A number without its fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes and times have limits far below 2^52"
)]
fn whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_irregular_and_have_the_means_that_are_said() {
        let mut random = Random::new(1);
        let runs: Vec<Run> = (0..10_000).map(|_| Run::next(&mut random, 9)).collect();
        let mean = runs.iter().map(|run| run.pages_from(0)).sum::<u64>() / 10_000;
        assert!(
            (27_000..29_500).contains(&mean),
            "three tables of 35.8 MiB, and 1 MiB more for the last block: {mean} pages"
        );
        let holds = runs.iter().map(|run| run.holds_ms).sum::<u64>() / 10_000;
        assert!((57_000..63_000).contains(&holds), "{holds} ms");
        let sizes = runs.iter().map(|run| run.pages_from(0));
        assert!(sizes.clone().min() < Some(5_200) && sizes.max() > Some(75_000));
    }

    #[test]
    fn a_table_is_a_row_of_blocks_or_one_block() {
        let run = |most| Run::next(&mut Random::new(5), most);
        let (row, one) = (run(9), run(16));
        assert!(row.blocks.len() > 3 && row.blocks.iter().all(|&order| order == 9));
        assert_eq!((one.blocks.len(), one.holds_ms), (3, row.holds_ms));
        assert!(row.pages_from(0) < 2 * one.pages_from(0) && row.pages_from(1) == row.pages_from(0) - 512);
        assert_eq!(row.pages_from(row.blocks.len()), 0);
    }
}
