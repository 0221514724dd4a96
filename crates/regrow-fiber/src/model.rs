//! Each order of what workers, tasks and threads do to one another, by loom: the code is the one that ships, on stacks that are switched as anywhere. A model
//! fails where somebody is left asleep, where a value comes twice or never, or where one does not see what another has done before.
//!
//! A model that overlooks orders would pass as well: each says which outcomes there are, and all of them have to come. `make loom-mutants` weakens each
//! ordering, fence and step, and checks that a model fails.
//!
//! What unwinds in a model must not do anything that loom sees: all its threads are one, and *panicking* is of the thread.

mod channel;
mod mutex;
mod packet;
mod post;
mod runtime;
mod scope;
mod wait;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

/// All orders.
const ALL: Option<usize> = None;

/// Tries the orders of a model in which a thread that could go on is left for another one so often at most, which says what comes of it: all of these have
/// to. `REGROW_CHANGES` says how many more.
fn check<T: Ord + Debug + Send + 'static>(
    changes: impl Into<Option<usize>>,
    all: impl IntoIterator<Item = T>,
    model: impl Fn() -> T + Send + Sync + 'static,
) {
    let seen = Arc::new(Mutex::new((BTreeSet::new(), 0_usize)));
    let of_model = seen.clone();
    let more = std::env::var("REGROW_CHANGES").ok().and_then(|more| more.parse().ok()).unwrap_or(0);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = changes.into().map(|changes: usize| changes + more);
    builder.max_branches = 20_000;
    builder.check(move || {
        let outcome = model();
        let mut seen = of_model.lock().unwrap_or_else(PoisonError::into_inner);
        seen.0.insert(outcome);
        seen.1 += 1;
    });
    let (seen, count) = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    println!("{count} orders");
    assert_eq!(seen, BTreeSet::from_iter(all), "all orders are tried");
}
