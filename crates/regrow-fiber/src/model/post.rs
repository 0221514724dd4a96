//! Posts: no message is lost, nobody sleeps on, and no number is used twice.

use std::ptr;
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use regrow_sync::{AtomicBool, Ordering, Place};

use super::{ALL, check};
use crate::control::ControlAddress;
use crate::post::{Message, Post};

fn of_wait(wait: u64) -> Message {
    Message::Wake { control: ControlAddress(ptr::null()), wait }
}

fn moved_in() -> &'static Post {
    let post = Post::take().expect("there are few");
    post.move_in();
    post
}

/// The numbers of the waits that are over by so many messages. Between them its worker sleeps.
fn receive(post: &Post, count: usize) -> Vec<u64> {
    let mut waits = Vec::new();
    while waits.len() < count {
        match post.next() {
            Some(Message::Wake { wait, .. }) => waits.push(wait),
            Some(Message::Cancel { .. }) => {}
            None if post.fall_asleep() => post.sleep(None, &mut |_, _| ()),
            None => {}
        }
    }
    waits
}

#[test]
fn each_message_arrives_at_a_worker_that_sleeps_in_between() {
    check(3, [vec![1, 2], vec![2, 1]], || {
        let post = moved_in();
        let senders = [1, 2].map(|wait| thread::spawn(move || post.send(of_wait(wait))));
        let waits = receive(post, 2);
        senders.into_iter().for_each(|sender| sender.join().expect("it does not panic"));
        waits
    });
}

#[test]
fn what_was_done_before_a_message_is_seen_behind_it() {
    check(ALL, [()], || {
        let post = moved_in();
        let place = Arc::new(Place::new());
        let of_sender = place.clone();
        let sender = thread::spawn(move || {
            of_sender.write();
            post.send(of_wait(1));
        });
        receive(post, 1);
        place.write();
        sender.join().expect("it does not panic");
    });
}

#[test]
fn who_is_about_to_sleep_sees_what_is_there_or_is_woken() {
    check(ALL, [()], || {
        let post = moved_in();
        let flag = Arc::new(AtomicBool::new(false));
        let of_other = flag.clone();
        let other = thread::spawn(move || {
            of_other.store(true, Ordering::Relaxed);
            post.wake();
        });
        while !flag.load(Ordering::Relaxed) {
            assert!(post.fall_asleep(), "there is no message");
            if flag.load(Ordering::Relaxed) {
                post.wake_up();
                break;
            }
            post.sleep(None, &mut |_, _| ());
        }
        other.join().expect("it does not panic");
    });
}

#[test]
fn a_worker_whose_time_is_over_misses_no_message() {
    check(3, [vec![1, 2]], || {
        let post = moved_in();
        let sender = thread::spawn(move || (1..=2).for_each(|wait| post.send(of_wait(wait))));
        if post.fall_asleep() {
            post.sleep(Some(Duration::ZERO), &mut |_, _| ());
        }
        let waits = receive(post, 2);
        sender.join().expect("it does not panic");
        waits
    });
}

/// What comes late for a worker that has ended arrives at the next one, which knows it by its number.
#[test]
fn a_post_goes_to_another_worker_with_what_comes_late() {
    check(3, [vec![2], vec![1, 2]], || {
        let post = moved_in();
        let first = post.first_number();
        let late = thread::spawn(move || post.send(of_wait(first)));
        post.give_back(first + 1);
        let again = moved_in();
        assert!(std::ptr::eq(post, again));
        let second = again.first_number();
        assert_ne!(first, second);
        let sender = thread::spawn(move || again.send(of_wait(second)));
        let mut waits = receive(again, 1);
        if waits == [first] {
            waits.extend(receive(again, 1));
        }
        assert!(waits.contains(&second));
        late.join().expect("it does not panic");
        sender.join().expect("it does not panic");
        waits.into_iter().map(|wait| wait - first + 1).collect()
    });
}

#[test]
fn no_two_posts_have_the_same_numbers() {
    check(ALL, [()], || {
        let other = thread::spawn(|| Post::take().expect("there are few").first_number());
        let own = Post::take().expect("there are few").first_number();
        let other = other.join().expect("it does not panic");
        assert_ne!(own >> 52, other >> 52);
    });
}
