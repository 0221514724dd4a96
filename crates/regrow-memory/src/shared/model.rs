//! Each order of the steps of givers, receivers and the porter on one block. A model fails where two have the block at the same time, or one does not see what
//! the one before has written to it.
//!
//! A model that overlooks orders would pass as well: each says which outcomes there are, and all of them have to come. `make loom-mutants` weakens each ordering,
//! fence and step, and checks that a model fails.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use loom::sync::Arc;
use loom::thread;

use super::entry::Entry;
use super::handing::{self, Handed};
use super::inbox::{Inbox, Note};
use super::layout::Presence;
use crate::bell::Bell;
use crate::request::Owner;
use crate::sync::{AtomicU64, Place};

const GIVER: Owner = 1;
const RECEIVER: Owner = 2;
/// It has the desk after the receiver.
const LATER: Owner = 3;
const ORDER: u8 = 0;

/// What processes share: a block of the giver's, its entry, and the desk of a client.
struct Scene {
    block: Place,
    entry: AtomicU64,
    /// What the porter does to the desk before a client comes.
    desk: Place,
    presence: Presence,
    inbox: Inbox,
    bell: Bell,
}

impl Scene {
    /// The receiver is there.
    fn new() -> Arc<Scene> {
        let scene = Scene::without_receiver();
        scene.welcome(RECEIVER);
        scene
    }

    fn without_receiver() -> Arc<Scene> {
        let entry = AtomicU64::new(0);
        Entry::grant(&entry, GIVER, ORDER);
        let (block, desk) = (Place::new(), Place::new());
        let (presence, inbox, bell) = (Presence::new(), Inbox::new(), Bell::new());
        Arc::new(Scene { block, entry, desk, presence, inbox, bell })
    }

    /// Who has the block uses it.
    fn use_block(&self) {
        self.block.write();
    }

    /// The porter lets a client in.
    fn welcome(&self, client: Owner) {
        self.desk.write();
        self.inbox.clear();
        self.presence.come(client);
    }

    /// The giver writes to the block and hands it over. The entry then, or whether the giver has it still.
    fn hand(&self) -> Result<Entry, bool> {
        self.use_block();
        match handing::hand(&self.entry, GIVER, ORDER, RECEIVER, &self.presence) {
            Handed::Pending(handed) => {
                // Who hands over to a client finds its desk ready.
                self.desk.read();
                Ok(handed)
            }
            Handed::Gone { is_own } => Err(is_own),
            Handed::NotOwn => panic!("the giver has it"),
        }
    }

    /// The same, and sends the ticket. Whether the giver has the block still.
    fn send(&self) -> bool {
        let handed = match self.hand() {
            Err(is_own) => return is_own,
            Ok(handed) => handed,
        };
        let is_put = self.inbox.put(note_of(handed));
        assert!(is_put, "there is room");
        self.bell.ring(0);
        false
    }

    /// Accepts what lies in the inbox. Whether a client has the block then.
    fn accept(&self, client: Owner) -> bool {
        self.inbox.take().is_some_and(|note| handing::accept(&self.entry, note, client))
    }

    /// The porter after the end of a client, when so many others are there. Whether it has taken the block back.
    fn see_off(&self, there: &[Owner]) -> bool {
        self.presence.leave();
        handing::collect(&self.entry, |owner| there.contains(&owner))
    }
}

fn note_of(handed: Entry) -> Note {
    Note { page: 0, generation: handed.generation, order: handed.order }
}

/// Tries each order of a model, which says what comes of it: all of these have to.
fn check<T: Ord + Debug + Send + 'static>(all: impl IntoIterator<Item = T>, model: fn() -> T) {
    let seen = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let of_model = std::sync::Arc::clone(&seen);
    loom::model(move || {
        let outcome = model();
        of_model.lock().unwrap_or_else(PoisonError::into_inner).insert(outcome);
    });
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    assert_eq!(seen, BTreeSet::from_iter(all), "all orders are tried");
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().expect("it does not panic")
}

#[test]
fn who_has_a_block_sees_what_was_written_before_and_has_it_alone() {
    check([()], || {
        let scene = Scene::new();
        let of_giver = Arc::clone(&scene);
        let giver = thread::spawn(move || assert!(!of_giver.send(), "the receiver is there"));
        // Sleeps until something lies there.
        while scene.inbox.is_empty() {
            scene.bell.take();
            scene.bell.wait(None, || !scene.inbox.is_empty());
        }
        assert!(scene.accept(RECEIVER), "who takes a ticket finds its block");
        scene.use_block();
        join(giver);
    });
}

/// Who has a block at the end.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Has {
    Giver,
    Receiver,
    Porter,
}

/// One has it.
fn the_one(giver: bool, receiver: bool, porter: bool) -> Has {
    match (giver, receiver, porter) {
        (true, false, false) => Has::Giver,
        (false, true, false) => Has::Receiver,
        (false, false, true) => Has::Porter,
        other => panic!("one has it: {other:?}"),
    }
}

#[test]
fn of_giver_receiver_and_porter_one_has_the_block_whenever_the_receiver_ends() {
    // What the receiver has accepted is the porter's after its end.
    check([(false, Has::Giver), (false, Has::Porter), (true, Has::Porter)], || {
        let scene = Scene::new();
        let [of_receiver, of_porter] = [Arc::clone(&scene), Arc::clone(&scene)];
        let receiver = thread::spawn(move || {
            let has = of_receiver.accept(RECEIVER);
            if has {
                of_receiver.use_block();
            }
            has
        });
        let porter = thread::spawn(move || {
            // The kernel says when the receiver's last thread has ended.
            let has_accepted = join(receiver);
            let is_collected = of_porter.see_off(&[GIVER]);
            if is_collected {
                of_porter.use_block();
            }
            (has_accepted, is_collected)
        });
        let is_own = scene.send();
        if is_own {
            scene.use_block();
        }
        let (has_accepted, is_collected) = join(porter);
        (has_accepted, the_one(is_own, false, is_collected))
    });
}

#[test]
fn a_giver_that_ends_between_two_steps_leaves_a_block_that_comes_back_once() {
    check([(true, false), (false, true)], || {
        let scene = Scene::new();
        let of_porter = Arc::clone(&scene);
        let porter = thread::spawn(move || {
            let is_collected = of_porter.see_off(&[GIVER]);
            if is_collected {
                of_porter.use_block();
            }
            is_collected
        });
        // It is killed before it looks whether the receiver is still there.
        scene.use_block();
        if scene.presence.is(RECEIVER) {
            let handed = Entry::of(&scene.entry).hand(&scene.entry, RECEIVER);
            assert!(handed.is_some(), "nobody else has it");
        }
        let first = join(porter);
        // What is back is in no books, and is not looked at again.
        let second = !first && scene.see_off(&[]);
        if second {
            scene.use_block();
        }
        (first, second)
    });
}

#[test]
fn of_two_that_accept_by_the_same_ticket_one_has_the_block() {
    check([[true, false], [false, true]], || {
        let scene = Scene::new();
        let note = note_of(scene.hand().expect("the receiver is there"));
        let accept = move |scene: &Scene| {
            let has = handing::accept(&scene.entry, note, RECEIVER);
            if has {
                scene.use_block();
            }
            has
        };
        let of_other = Arc::clone(&scene);
        let other = thread::spawn(move || accept(&of_other));
        [accept(&scene), join(other)]
    });
}

#[test]
fn of_a_giver_that_takes_it_back_and_a_receiver_one_has_the_block() {
    check([Has::Giver, Has::Receiver], || {
        let scene = Scene::new();
        let handed = scene.hand().expect("the receiver is there");
        let of_receiver = Arc::clone(&scene);
        let receiver = thread::spawn(move || {
            // It came by another way than the inbox.
            let has = handing::accept(&of_receiver.entry, note_of(handed), RECEIVER);
            if has {
                of_receiver.use_block();
            }
            has
        });
        let is_own = handing::recall(&scene.entry, handed, GIVER);
        if is_own {
            scene.use_block();
        }
        the_one(is_own, join(receiver), false)
    });
}

#[test]
fn a_ticket_of_before_is_good_for_no_later_handing_over() {
    check([Has::Receiver], || {
        let scene = Scene::new();
        let generation = Entry::of(&scene.entry).generation;
        let of_receiver = Arc::clone(&scene);
        let receiver = thread::spawn(move || {
            let before = Note { page: 0, generation, order: ORDER };
            assert!(!handing::accept(&of_receiver.entry, before, RECEIVER));
            assert!(!handing::accept(&of_receiver.entry, before, GIVER));
        });
        assert!(!scene.send(), "the receiver is there");
        join(receiver);
        the_one(false, scene.accept(RECEIVER), false)
    });
}

#[test]
fn who_comes_later_to_a_desk_has_no_block_of_the_one_before() {
    check([Has::Giver, Has::Porter], || {
        let scene = Scene::new();
        let of_porter = Arc::clone(&scene);
        let porter = thread::spawn(move || {
            let is_collected = of_porter.see_off(&[GIVER]);
            // A giver that is slow has seen that the one before was there.
            of_porter.inbox.clear();
            of_porter.presence.come(LATER);
            assert!(!of_porter.accept(LATER), "it was for the one before");
            is_collected
        });
        let is_own = scene.send();
        let is_collected = join(porter);
        assert!(!scene.accept(LATER), "it was for the one before");
        the_one(is_own, false, is_collected)
    });
}

#[test]
fn what_is_put_for_who_has_come_is_not_cleared_away() {
    check([Has::Giver, Has::Receiver], || {
        let scene = Scene::without_receiver();
        assert!(scene.inbox.put(Note { page: 9, generation: 9, order: 9 }), "what lay there before");
        let of_giver = Arc::clone(&scene);
        let giver = thread::spawn(move || of_giver.send());
        scene.welcome(RECEIVER);
        let is_own = join(giver);
        the_one(is_own, scene.accept(RECEIVER), false)
    });
}

#[test]
fn a_block_is_given_back_or_handed_over_by_one_alone() {
    check([Has::Receiver, Has::Porter], || {
        let scene = Scene::new();
        let of_giver = Arc::clone(&scene);
        // Another thread of the giver, or somebody who speaks in its name.
        let giver = thread::spawn(move || {
            match handing::hand(&of_giver.entry, GIVER, ORDER, RECEIVER, &of_giver.presence) {
                Handed::Pending(_) => true,
                Handed::NotOwn => false,
                Handed::Gone { .. } => panic!("it is there"),
            }
        });
        let is_back = handing::take_back(&scene.entry, GIVER);
        the_one(false, join(giver), is_back)
    });
}

#[test]
fn of_many_senders_each_ticket_comes_once_and_a_full_inbox_takes_none() {
    type Shared = (Inbox, [Place; 3]);
    fn put((inbox, notes): &Shared, page: u32) -> bool {
        notes[page as usize].write();
        inbox.put(Note { page, generation: 1, order: ORDER })
    }
    check([2, 3], || {
        let shared: Arc<Shared> = Arc::new((Inbox::new(), [(); 3].map(|()| Place::new())));
        let of_other = Arc::clone(&shared);
        let other = thread::spawn(move || u32::from(put(&of_other, 0)) + u32::from(put(&of_other, 1)));
        let mut sent = u32::from(put(&shared, 2));
        let mut seen = [false; 3];
        let mut take = || {
            let Some(Note { page, .. }) = shared.0.take() else { return 0 };
            shared.1[page as usize].write();
            assert!(!std::mem::replace(&mut seen[page as usize], true), "it comes once");
            1
        };
        let mut came = take();
        sent += join(other);
        while came < sent {
            let taken = take();
            assert_eq!(taken, 1, "none is lost");
            came += taken;
        }
        assert!(take() == 0 && shared.0.is_empty());
        sent
    });
}
