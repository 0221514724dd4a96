//! Channels between threads, by what everybody can do with them: nothing is lost, nothing comes twice, and nobody waits on.

use std::time::Duration;

use loom::thread;
use regrow_sync::Place;
use std::sync::Arc;

use super::check;
use crate::channel::{channel, select};
use crate::error::{ReceiveError, SendError};

/// A value that is dropped once, by whoever had it.
struct Counted(Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn values_come_in_order_and_then_the_end() {
    check(3, [vec![1, 2, 3]], || {
        let (sender, receiver) = channel(1);
        let place = Arc::new(Place::new());
        let of_other = place.clone();
        let other = thread::spawn(move || {
            of_other.write();
            (1..=3).for_each(|value| sender.send(value).expect("somebody receives"));
        });
        let first = receiver.receive().expect("it was sent");
        place.write();
        let values = std::iter::once(first).chain(receiver.iter()).collect::<Vec<_>>();
        other.join().expect("it does not panic");
        values
    });
}

#[test]
fn two_who_send_lose_nothing() {
    check(3, [vec![1, 2], vec![2, 1]], || {
        let (sender, receiver) = channel(1);
        let others = [1, 2].map(|value| {
            let sender = sender.clone();
            thread::spawn(move || sender.send(value).expect("somebody receives"))
        });
        drop(sender);
        let values = receiver.iter().collect();
        others.into_iter().for_each(|other| other.join().expect("it does not panic"));
        values
    });
}

#[test]
fn of_two_who_receive_each_value_is_ones() {
    check(2, [vec![], vec![1], vec![2], vec![1, 2]], || {
        let (sender, receiver) = channel(1);
        let of_other = receiver.clone();
        let other = thread::spawn(move || of_other.iter().collect::<Vec<u32>>());
        let sends = thread::spawn(move || {
            (1..=2).for_each(|value| sender.send(value).expect("somebody receives"));
        });
        let own: Vec<u32> = receiver.iter().collect();
        sends.join().expect("it does not panic");
        let others = other.join().expect("it does not panic");
        let mut all = [own.clone(), others].concat();
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        own
    });
}

/// The value that waits for room comes back, or was sent before; either way it is dropped once, and its sender does not wait on.
#[test]
fn who_waits_for_room_is_told_when_nobody_receives() {
    check(3, [true, false], || {
        let dropped = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let (sender, receiver) = channel(1);
        let values = [(); 2].map(|()| Counted(dropped.clone()));
        let other = thread::spawn(move || {
            let sent = values.map(|value| sender.send(value).map_err(|SendError(value)| drop(value)));
            sent.map(|sent| sent.is_ok())
        });
        let received = receiver.try_receive();
        drop(receiver);
        let sent = other.join().expect("it does not panic");
        assert!(sent[0] || !sent[1]);
        let was_received = received.is_ok();
        drop(received);
        assert_eq!(dropped.load(std::sync::atomic::Ordering::SeqCst), 2);
        was_received
    });
}

#[test]
fn who_receives_in_time_has_the_value_or_leaves_it() {
    check(3, [true, false], || {
        let (sender, receiver) = channel(1);
        let other = thread::spawn(move || sender.send(7).expect("somebody receives"));
        let received = receiver.receive_within(Duration::ZERO);
        let is_in_time = received.is_ok();
        if received == Err(ReceiveError::Empty) {
            assert_eq!(receiver.receive(), Ok(7));
        } else {
            assert_eq!(received, Ok(7));
        }
        assert_eq!(receiver.receive(), Err(ReceiveError::Closed));
        other.join().expect("it does not panic");
        is_in_time
    });
}

/// Who was woken for a value and leaves without it wakes the next one.
#[test]
fn who_stops_waiting_passes_its_turn_on() {
    check(3, [true, false], || {
        let (sender, receiver) = channel(1);
        let of_other = receiver.clone();
        let other = thread::spawn(move || of_other.receive());
        let to_others = sender.clone();
        let sends = thread::spawn(move || to_others.send(7).expect("somebody receives"));
        let own = receiver.receive_within(Duration::ZERO);
        sends.join().expect("it does not panic");
        if own.is_ok() {
            sender.send(8).expect("somebody receives");
        }
        assert_eq!(other.join().expect("it does not panic"), Ok(if own.is_ok() { 8 } else { 7 }));
        own.is_ok()
    });
}

#[test]
fn who_waits_for_two_channels_has_what_comes_by_either() {
    check(3, [vec![1, 2], vec![2, 1]], || {
        let channels = [channel(1), channel(1)];
        let mut number = 0;
        let (receivers, others): (Vec<_>, Vec<_>) = channels
            .into_iter()
            .map(|(sender, receiver)| {
                number += 1;
                let value = number;
                // What stays open is waited for.
                let open = sender.clone();
                (receiver, (open, thread::spawn(move || sender.send(value).expect("somebody receives"))))
            })
            .unzip();
        let values = [(); 2].map(|()| {
            let ready = select(&[&receivers[0], &receivers[1]], None).expect("there is no limit");
            receivers[ready].try_receive().expect("nobody else receives")
        });
        others.into_iter().for_each(|(_, other)| other.join().expect("it does not panic"));
        values.to_vec()
    });
}

/// Who waits for several channels, and is woken for one value that it does not take, wakes whoever else waits for that.
#[test]
fn who_waits_for_two_channels_keeps_nothing_from_others() {
    check(3, [(0, true), (1, true)], || {
        let (to_first, first) = channel(1);
        let (to_second, second) = channel(1);
        let of_other = first.clone();
        let other = thread::spawn(move || of_other.receive());
        let (one, two) = (to_first.clone(), to_second.clone());
        let sends = thread::spawn(move || {
            one.send(1).expect("somebody receives");
            two.send(2).expect("somebody receives");
        });
        let ready = select(&[&first, &second], None).expect("there is no limit");
        // It takes nothing of what it waited for first.
        let is_there = second.receive() == Ok(2);
        assert_eq!(other.join().expect("it does not panic"), Ok(1));
        sends.join().expect("it does not panic");
        (ready, is_there)
    });
}
