//! A value that each process has for itself, also a forked copy of the process that made it.
//!
//! ```text
//!   first: made by process 10 ──> copy: made by process 11, a fork of 10 ──> copy: made by process 12, a fork of 11
//! ```
//!
//! In a copy a thread that is not there may hold any lock of the original, in the middle of any change. So a copy never waits for
//! a value that another process made: it makes its own. The list grows by an atomic exchange, never under a lock.

use once_cell::race::OnceBox;

/// A value of type `T` for each process.
pub(crate) struct PerProcess<T> {
    process: u32,
    value: T,
    copy: OnceBox<PerProcess<T>>,
}

impl<T> PerProcess<T> {
    /// The value of this process.
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value, copy: OnceBox::new() }
    }

    /// Whether this process is a forked copy of the one that made the first value.
    pub(crate) fn is_in_a_copy(&self) -> bool {
        std::process::id() != self.process
    }

    /// The value of this process; `make` makes the one of a copy, from that of the process that it was forked from.
    pub(crate) fn get(&self, make: impl Fn(&T) -> T) -> &T {
        let mut holder = self;
        while holder.is_in_a_copy() {
            holder = holder.copy.get_or_init(|| Box::new(Self::new(make(&holder.value))));
        }
        &holder.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_makes_its_value_once() {
        let value = PerProcess::new(7);
        assert!(!value.is_in_a_copy());
        assert_eq!(value.get(|_| unreachable!("the process has one")), &7);
    }

    #[test]
    fn a_copy_makes_one_of_its_own_and_keeps_it() {
        // As it is in the memory of a copy: another process has made it.
        let value = PerProcess { process: 0, value: 7, copy: OnceBox::new() };
        assert!(value.is_in_a_copy());
        assert_eq!((value.get(|original| original + 1), value.get(|_| 9)), (&8, &8));
    }
}
