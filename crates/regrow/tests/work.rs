//! Works of every weight: what they give, how they end, and what they isolate. The program of these tests is its own fresh process, so that it has a
//! `main` of its own.

#[path = "work/channels.rs"]
mod channels;
#[path = "work/ends.rs"]
mod ends;
#[path = "work/fresh.rs"]
mod fresh;
#[path = "work/isolation.rs"]
mod isolation;
#[path = "work/killed.rs"]
mod killed;

use libtest_mimic::{Arguments, Trial};
use regrow::Point;
use regrow::work::{prepare, ready, renew_in_each};

/// The tests, by name.
type Tests = Vec<(&'static str, fn())>;

fn main() {
    fresh::initialise();
    renew_in_each(fresh::renew);
    ready();
    // One at a time: what is left behind is looked for in the whole process.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    if !arguments.list {
        assert_eq!(prepare().expect("an image of this program"), Point::Warm);
    }
    let tests: Tests =
        [channels::tests(), ends::tests(), fresh::tests(), isolation::tests(), killed::tests()].concat();
    let trial = |(name, test): (&str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit();
}
