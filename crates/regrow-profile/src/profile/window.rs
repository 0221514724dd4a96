//! Puts events in their order: several processes tell at once, and what a child does may be told before its creation is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use regrow_sites::Event;

/// How long an event waits for earlier ones, in microseconds of the events' clock.
const HOLD_US: u64 = 200_000;
/// How many events wait at most: the earliest goes when there are more.
const MOST_HELD: usize = 65_536;
/// How far a process may be older than the report of its creation, in microseconds. What is older has another clock.
const REPORTED_WITHIN_US: u64 = 1_000_000;

/// When something happened.
pub(super) fn time_us(event: &Event) -> u64 {
    match *event {
        // The parent tells it when it is through; the child may have done something by then.
        Event::Created { time_us, process, .. } => match time_us.checked_sub(process.created_us) {
            Some(age_us) if age_us < REPORTED_WITHIN_US => process.created_us,
            _ => time_us,
        },
        Event::Executed { time_us, .. } | Event::Ended { time_us, .. } => time_us,
        Event::Named { .. } | Event::Arguments { .. } | Event::Outlived { .. } | Event::Symbol { .. } => 0,
    }
}

/// What comes first of things that happened at one time.
fn rank(event: &Event) -> u8 {
    match event {
        Event::Named { .. } | Event::Arguments { .. } | Event::Outlived { .. } | Event::Symbol { .. } => 0,
        Event::Created { .. } => 1,
        Event::Executed { .. } => 2,
        Event::Ended { .. } => 3,
    }
}

#[derive(Debug)]
struct Held {
    /// Time, rank, and the number of the event: no two are the same.
    order: (u64, u8, u64),
    event: Event,
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.order == other.order
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

/// The events of the last moments.
#[derive(Debug, Default)]
pub(super) struct Window {
    held: BinaryHeap<Reverse<Held>>,
    pushed: u64,
    now_us: u64,
}

impl Window {
    pub(super) fn push(&mut self, event: Event) {
        let order = (time_us(&event), rank(&event), self.pushed);
        self.pushed += 1;
        self.pass(order.0);
        self.held.push(Reverse(Held { order, event }));
    }

    pub(super) fn pass(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }

    /// The earliest event, once it has waited long enough.
    pub(super) fn next_due(&mut self) -> Option<Event> {
        let Reverse(earliest) = self.held.peek()?;
        let waited = self.now_us.saturating_sub(earliest.order.0) >= HOLD_US;
        if waited || self.held.len() > MOST_HELD { self.next_held() } else { None }
    }

    /// The earliest event.
    pub(super) fn next_held(&mut self) -> Option<Event> {
        self.held.pop().map(|Reverse(held)| held.event)
    }
}
