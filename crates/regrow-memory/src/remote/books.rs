//! The books of the porter: which blocks are with other processes. They are in memory that no other process sees.

use std::collections::HashMap;

use crate::request::Owner;
use crate::units::Page;

/// A block that is with another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loan {
    pub(super) order: u8,
    /// Who was given it by its zone.
    pub(super) first: Owner,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Books {
    loans: HashMap<Page, Loan>,
    pages: u64,
}

impl Books {
    /// Notes a block.
    pub(super) fn lend(&mut self, page: Page, loan: Loan) {
        let before = self.loans.insert(page, loan);
        debug_assert!(before.is_none(), "a zone gives a block once");
        self.pages += 1 << loan.order;
    }

    /// The block that begins at a page.
    pub(super) fn loan(&self, page: Page) -> Option<Loan> {
        self.loans.get(&page).copied()
    }

    /// Strikes a block out.
    pub(super) fn remove(&mut self, page: Page) {
        if let Some(loan) = self.loans.remove(&page) {
            self.pages -= 1 << loan.order;
        }
    }

    /// Strikes out, and returns, the blocks that somebody says.
    pub(super) fn remove_where(&mut self, mut is_over: impl FnMut(Page) -> bool) -> Vec<(Page, Loan)> {
        let over: Vec<_> = self.loans.extract_if(|&page, _| is_over(page)).collect();
        over.iter().for_each(|(_, loan)| self.pages -= 1 << loan.order);
        over
    }

    /// How many pages they have together.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_in_the_books_until_it_is_removed() {
        let mut books = Books::default();
        let loan = |order| Loan { order, first: 5 };
        (0..10).for_each(|page| books.lend(page * 8, loan(3)));
        assert_eq!((books.loan(16), books.loan(17), books.pages()), (Some(loan(3)), None, 80));
        books.remove(16);
        books.remove(16);
        assert_eq!((books.loan(16), books.pages()), (None, 72));
        let mut over = books.remove_where(|page| page >= 56);
        over.sort_by_key(|&(page, _)| page);
        assert_eq!(over, [(56, loan(3)), (64, loan(3)), (72, loan(3))]);
        assert_eq!(books.pages(), 48);
    }
}
