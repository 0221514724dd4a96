//! The end of a task, and whoever waits for it, or has it cancelled.

use std::ptr;
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use regrow_sync::Place;

use super::{ALL, check};
use crate::control::ControlAddress;
use crate::error::JoinError;
use crate::fresh::Start;
use crate::future::block_on;
use crate::join::{Packet, Unstarted};
use crate::post::{Message, Post};

fn in_words(result: Result<i32, JoinError>) -> String {
    result.map_or_else(|error| error.to_string(), |value| value.to_string())
}

const CANCELLED: &str = "the task was cancelled";

#[test]
fn who_joins_a_task_has_its_result_and_sees_what_it_has_done() {
    check(ALL, ["7".to_owned()], || {
        let packet = Packet::new();
        let handle = packet.handle();
        let place = Arc::new(Place::new());
        let of_task = place.clone();
        let task = thread::spawn(move || {
            of_task.write();
            packet.end(Ok(7));
        });
        let result = handle.join();
        place.write();
        task.join().expect("it does not panic");
        in_words(result)
    });
}

#[test]
fn who_joins_in_time_has_the_result_or_the_handle() {
    check(ALL, [true, false], || {
        let packet = Packet::new();
        let handle = packet.handle();
        let task = thread::spawn(move || packet.end(Ok(7)));
        let joined = handle.join_within(Duration::ZERO);
        let is_in_time = joined.is_ok();
        assert_eq!(in_words(joined.unwrap_or_else(super::super::join::JoinHandle::join)), "7");
        task.join().expect("it does not panic");
        is_in_time
    });
}

#[test]
fn a_future_waits_for_a_task() {
    check(3, ["7".to_owned()], || {
        let packet = Packet::new();
        let handle = packet.handle();
        let task = thread::spawn(move || packet.end(Ok(7)));
        let result = block_on(handle);
        task.join().expect("it does not panic");
        in_words(result)
    });
}

/// All who wait are woken; the result is one's.
#[test]
fn two_who_wait_for_one_task_are_both_woken() {
    check(3, [true, false], || {
        let packet = Packet::new();
        let [one, other] = [packet.handle(), packet.handle()];
        let future = thread::spawn(move || block_on(one));
        let task = thread::spawn(move || packet.end(Ok(7)));
        let result = other.join();
        let is_own = result.is_ok();
        let others = future.join().expect("it does not panic");
        assert_eq!(others.is_ok(), !is_own);
        task.join().expect("it does not panic");
        is_own
    });
}

#[test]
fn a_task_ends_once() {
    check(ALL, ["7".to_owned(), CANCELLED.to_owned()], || {
        let packet = Packet::new();
        let handle = packet.handle();
        let of_other = packet.clone();
        let other = thread::spawn(move || of_other.end(Err(JoinError::Cancelled)));
        packet.end(Ok(7));
        other.join().expect("it does not panic");
        in_words(handle.join())
    });
}

/// Either it is seen before the task begins, or its worker is told.
#[test]
fn a_task_that_is_cancelled_while_it_begins_is_told() {
    let all = [("7", true), (CANCELLED, true), (CANCELLED, false)];
    check(ALL, all.map(|(result, is_told)| (result.to_owned(), is_told)), || {
        let post = Post::take().expect("there are few");
        post.move_in();
        let packet = Packet::new();
        let handle = packet.handle();
        let task = Box::new(Unstarted::new(|| 7, packet));
        let other = thread::spawn(move || {
            handle.cancel();
            handle
        });
        let begun = task.begin(ControlAddress(ptr::null()), 5, post);
        begun();
        let result = in_words(other.join().expect("it does not panic").join());
        let is_told = matches!(post.next(), Some(Message::Cancel { birth: 5, .. }));
        assert!(is_told || result == CANCELLED);
        (result, is_told)
    });
}
