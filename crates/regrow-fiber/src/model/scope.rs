//! The end of a scope: whoever waits for its tasks goes on behind the last one, and sees what each has done.

use loom::sync::Arc;
use loom::thread;
use regrow_sync::Place;

use super::{ALL, check};
use crate::scope::{Count, Member};

#[test]
fn a_scope_ends_behind_the_last_of_its_tasks() {
    check(ALL, [2], || {
        let count = std::sync::Arc::new(Count::default());
        let places = [(); 2].map(|()| Arc::new(Place::new()));
        let tasks = places.clone().map(|place| {
            let member = Member::new(&count);
            thread::spawn(move || {
                place.write();
                drop(member);
            })
        });
        count.wait();
        places.iter().for_each(|place| place.write());
        tasks.into_iter().filter_map(|task| task.join().ok()).count()
    });
}
