//! What is created next: after a place in a process, and after a process has executed a program.
//!
//! ```text
//!   sh executes                     first comes dirname, after 2 to 3 ms
//!   sh creates dirname at line 4    then cat, after 1 to 5 ms, 9 times of 10
//!   make creates cc at job_exec     then cc, after 0 to 1 ms; two live at a time
//! ```
//!
//! A cue that is met for the first time is noted at the door alone, in two bytes: a program that creates from a million places, each once, leaves
//! no trace here.

use super::chain::Place;
use super::histogram::Histogram;
use super::index::Index;
use super::scale::{position, value};
use crate::hash;
use crate::site::{ImageId, Site};

/// Successors that are counted after one cue.
pub const MOST_NEXT: usize = 3;
/// With so many cases the old ones lose half of their weight.
const MOST_SEEN: u8 = 128;
/// Cues that are compared when one must go.
const CANDIDATES: usize = 16;
/// Places at the door for each cue.
const DOOR: usize = 4;
/// A gap that is longer has nothing to do with what was before.
const LONGEST_GAP_US: u64 = 600_000_000;

/// A place in a parent, as a hash of image, frames and script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlaceId(pub u32);

impl PlaceId {
    /// The place of a site, as it is completed ([`Model::completed`](crate::Model::completed)).
    #[must_use]
    pub fn of(site: &Site) -> PlaceId {
        PlaceId(Place::of(site).whole())
    }
}

/// After what something is to be expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// A process has created a child at this place.
    Place(PlaceId),
    /// A process has executed this program, and created nothing yet.
    Executed(ImageId),
}

/// What is created next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Next {
    /// The program that it executes.
    pub image: ImageId,
    /// Where it is created.
    pub place: PlaceId,
    /// In how many cases of all.
    pub chance: f32,
    /// It comes this long after, or later, in microseconds.
    pub from_us: u64,
    /// It comes this long after, or sooner, in microseconds.
    pub until_us: u64,
}

/// What is to be expected after a cue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The most likely first. What follows, but executes nothing, is not among them.
    pub next: [Option<Next>; MOST_NEXT],
    /// How many of the place live at a time in half of the cases, a new one included; 0 after an exec.
    pub usual_at_a_time: u32,
    /// How many at most, as far as is remembered.
    pub most_at_a_time: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Follow {
    pub(super) image: u32,
    pub(super) place: u32,
    pub(super) gaps: Histogram<2>,
    pub(super) weight: u8,
}

/// What is known after a cue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cue {
    pub(super) hash: u32,
    pub(super) follows: [Follow; MOST_NEXT],
    /// How many live at this moment.
    alive: u16,
    pub(super) at_a_time: Histogram<2>,
    /// Cases, those in which nothing came included.
    pub(super) seen: u8,
    /// How often the hand has passed since it was used.
    idle: u8,
}

/// All cues.
#[derive(Debug, Clone)]
pub(super) struct Cues {
    all: Vec<Cue>,
    most: usize,
    index: Index,
    hand: usize,
    door: Box<[u16]>,
    /// Cases that were told.
    number: u64,
}

impl Cues {
    pub(super) const fn bytes_for(most: usize) -> usize {
        most * size_of::<Cue>() + Index::bytes_for(most) + most * DOOR * size_of::<u16>()
    }

    pub(super) fn new(most: usize) -> Cues {
        let door = vec![0; most * DOOR].into_boxed_slice();
        Cues { all: Vec::with_capacity(most), most, index: Index::new(most), hand: 0, door, number: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Cue>() + self.index.bytes() + size_of_val(&*self.door)
    }

    /// A process of this place has come.
    pub(super) fn arrive(&mut self, cue: u32) {
        self.number += 1;
        let number = self.number;
        if let Some(cue) = self.get_or_admit(cue) {
            cue.alive = cue.alive.saturating_add(1);
            cue.at_a_time.add(u8::try_from(cue.alive).unwrap_or(u8::MAX), number);
        }
    }

    /// A process of this place is gone.
    pub(super) fn leave(&mut self, cue: u32) {
        if let Some(slot) = self.slot(cue) {
            let cue = &mut self.all[usize::from(slot)];
            cue.alive = cue.alive.saturating_sub(1);
        }
    }

    /// A process that was created at `place` has executed `image`, `gap` after the cue.
    pub(super) fn follow(&mut self, cue: u32, image: u32, place: u32, gap: u8) {
        self.number += 1;
        let number = self.number;
        let Some(cue) = self.get_or_admit(cue) else { return };
        cue.see();
        let at = cue.follows.iter().position(|follow| follow.image == image && follow.weight > 0);
        let at = at.or_else(|| cue.follows.iter().position(|follow| follow.weight == 0));
        if let Some(at) = at {
            let follow = &mut cue.follows[at];
            if follow.weight == 0 {
                *follow = Follow { image, ..Follow::default() };
            }
            follow.place = place;
            follow.weight = follow.weight.saturating_add(1);
            follow.gaps.add(gap, number);
        } else if let Some(rarest) = cue.follows.iter_mut().min_by_key(|follow| follow.weight) {
            // It loses its place when others have come as often as it.
            rarest.weight -= 1;
        }
    }

    /// Nothing has followed a cue, or nothing that executes a program.
    pub(super) fn nothing(&mut self, cue: u32) {
        if let Some(slot) = self.slot(cue) {
            self.all[usize::from(slot)].see();
        }
    }

    /// What is to be expected after a cue; `image_of` tells the image of a hash.
    pub(super) fn expected(&self, cue: u32, image_of: impl Fn(u32) -> Option<ImageId>) -> Option<Expected> {
        let cue = &self.all[usize::from(self.slot(cue)?)];
        let mut follows = cue.follows;
        follows.sort_unstable_by_key(|follow| std::cmp::Reverse(follow.weight));
        let next = follows.map(|follow| {
            let image = (follow.weight > 0).then(|| image_of(follow.image)).flatten()?;
            let edge = |position: u8, more: f32| edge_us(f32::from(position) + more);
            Some(Next {
                image,
                place: PlaceId(follow.place),
                chance: f32::from(follow.weight) / f32::from(cue.seen.max(follow.weight)),
                from_us: edge(follow.gaps.quantile(0.05)?, 0.0),
                until_us: edge(follow.gaps.quantile(0.95)?, 1.0),
            })
        });
        let at_a_time = |share| u32::from(cue.at_a_time.quantile(share).unwrap_or(0));
        Some(Expected { next, usual_at_a_time: at_a_time(0.5), most_at_a_time: at_a_time(1.0) })
    }

    pub(super) fn all(&self) -> &[Cue] {
        &self.all
    }

    /// Takes in what another model knows after a cue.
    pub(super) fn join(&mut self, other: &Cue) {
        let slot = self.slot(other.hash).unwrap_or_else(|| self.add(other.hash));
        let cue = &mut self.all[usize::from(slot)];
        cue.seen = cue.seen.max(other.seen);
        cue.at_a_time.join(&other.at_a_time);
        for follow in other.follows.iter().filter(|follow| follow.weight > 0) {
            let same = cue.follows.iter().position(|own| own.image == follow.image && own.weight > 0);
            let rarest = || (0..MOST_NEXT).min_by_key(|&at| cue.follows[at].weight);
            let Some(at) = same.or_else(rarest) else { continue };
            let own = &mut cue.follows[at];
            if same.is_some() {
                own.gaps.join(&follow.gaps);
                own.weight = own.weight.max(follow.weight);
            } else if own.weight < follow.weight {
                *own = *follow;
            }
        }
    }

    fn get_or_admit(&mut self, hash: u32) -> Option<&mut Cue> {
        if hash == 0 {
            return None;
        }
        let slot = match self.slot(hash) {
            Some(slot) => slot,
            None if self.is_expected(hash) => self.add(hash),
            None => return None,
        };
        let cue = &mut self.all[usize::from(slot)];
        cue.idle = 0;
        Some(cue)
    }

    /// Whether a cue has come to the door before; else it is noted there.
    fn is_expected(&mut self, hash: u32) -> bool {
        let mixed = hash::of(15, &[u64::from(hash)]);
        let place = mixed.whole() % self.door.len().max(1) as u64;
        let mark = mixed.quarter().max(1);
        let noted = usize::try_from(place).ok().and_then(|place| self.door.get_mut(place));
        noted.is_some_and(|noted| std::mem::replace(noted, mark) == mark)
    }

    fn slot(&self, hash: u32) -> Option<u16> {
        if hash == 0 {
            return None;
        }
        self.index.find(hash::mixed(u64::from(hash)), |slot| self.all[usize::from(slot)].hash == hash)
    }

    fn add(&mut self, hash: u32) -> u16 {
        let cue = Cue { hash, ..Cue::default() };
        let slot = if self.all.len() < self.most {
            self.all.push(cue);
            self.all.len() - 1
        } else {
            let slot = self.least_worth();
            let gone = std::mem::replace(&mut self.all[slot], cue).hash;
            let all = &self.all;
            let hash_of = |slot: u16| hash::mixed(u64::from(all[usize::from(slot)].hash));
            self.index.remove(hash::mixed(u64::from(gone)), u16::try_from(slot).unwrap_or(0), hash_of);
            slot
        };
        let slot = u16::try_from(slot).unwrap_or(0);
        self.index.insert(hash::mixed(u64::from(hash)), slot);
        slot
    }

    /// The cue that was seen least of those that the hand passes; what was not used for long counts less.
    fn least_worth(&mut self) -> usize {
        let first = self.hand;
        self.hand = (first + CANDIDATES) % self.all.len();
        let mut least = (u16::MAX, 0);
        for step in 0..CANDIDATES.min(self.all.len()) {
            let slot = (first + step) % self.all.len();
            let cue = &mut self.all[slot];
            let worth = u16::from(cue.seen) << 4 >> (cue.idle / 4).min(15);
            cue.idle = cue.idle.saturating_add(1);
            if worth < least.0 {
                least = (worth, slot);
            }
        }
        least.1
    }
}

impl Cue {
    /// What was known after a cue; at most [`MOST_NEXT`] successors count.
    pub(super) fn known(
        hash: u32,
        seen: u8,
        at_a_time: Histogram<2>,
        known: impl Iterator<Item = Follow>,
    ) -> Cue {
        let mut follows = [Follow::default(); MOST_NEXT];
        follows.iter_mut().zip(known).for_each(|(own, known)| *own = known);
        Cue { hash, follows, at_a_time, seen, ..Cue::default() }
    }

    /// One more case.
    fn see(&mut self) {
        self.seen = self.seen.saturating_add(1);
        if self.seen >= MOST_SEEN {
            self.seen /= 2;
            self.follows.iter_mut().for_each(|follow| follow.weight /= 2);
        }
    }
}

/// The cue of a program that was executed.
pub(super) fn executed_cue(image: u32) -> u32 {
    hash::of(16, &[u64::from(image)]).low()
}

/// The position of a gap; `None` for one that cannot be: the clock has gone back, or forth by hours.
pub(super) fn gap(from_us: u64, to_us: u64) -> Option<u8> {
    to_us.checked_sub(from_us).filter(|&gap| gap <= LONGEST_GAP_US).map(position)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a value of the scale is positive and ends at 2^34"
)]
fn edge_us(point: f32) -> u64 {
    value(point) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image_of(hash: u32) -> Option<ImageId> {
        Some(ImageId(u64::from(hash)))
    }

    fn chances(cues: &Cues, cue: u32) -> Vec<(u64, f32)> {
        let expected = cues.expected(cue, image_of).unwrap();
        expected.next.iter().flatten().map(|next| (next.image.0, next.chance)).collect()
    }

    #[test]
    fn what_follows_is_told_with_chance_and_time() {
        let mut cues = Cues::new(16);
        assert_eq!(cues.expected(7, image_of), None);
        for round in 0..40 {
            cues.follow(7, if round % 4 == 0 { 2 } else { 1 }, 70, position(2_000));
        }
        let told = chances(&cues, 7);
        assert_eq!((told[0].0, told[1].0), (1, 2));
        assert!((told[0].1 - 0.75).abs() < 0.05 && (told[1].1 - 0.25).abs() < 0.05, "{told:?}");
        let next = cues.expected(7, image_of).unwrap().next[0].unwrap();
        assert!(next.from_us <= 2_000 && 2_000 < next.until_us, "{next:?}");
        assert!(next.until_us - next.from_us < 500, "{next:?}");
        assert_eq!(next.place, PlaceId(70));
        (0..39).for_each(|_| cues.nothing(7));
        assert!(chances(&cues, 7)[0].1 < 0.4, "mostly nothing follows");
    }

    #[test]
    fn what_becomes_frequent_takes_the_place_of_what_is_rare() {
        let mut cues = Cues::new(16);
        for round in 0..200 {
            cues.follow(7, 100 + round % 3, 1, 9);
        }
        (0..300).for_each(|_| cues.follow(7, 5, 1, 9));
        assert_eq!(chances(&cues, 7)[0].0, 5);
        assert!(cues.all[0].follows.iter().all(|follow| follow.weight <= cues.all[0].seen));
    }

    #[test]
    fn how_many_live_at_a_time_is_counted() {
        let mut cues = Cues::new(16);
        for _ in 0..20 {
            (0..4).for_each(|_| cues.arrive(3));
            (0..4).for_each(|_| cues.leave(3));
        }
        let expected = cues.expected(3, image_of).unwrap();
        assert!((2..=3).contains(&expected.usual_at_a_time), "{expected:?}");
        assert!((3..=4).contains(&expected.most_at_a_time), "{expected:?}");
    }

    #[test]
    fn a_million_cues_that_come_once_take_no_room() {
        let mut cues = Cues::new(64);
        (0..20).for_each(|_| (1..=50).for_each(|cue| cues.follow(cue, 1, 1, 9)));
        let kept = |cues: &Cues| (1..=50).filter(|&cue| cues.slot(cue).is_some()).count();
        assert!(kept(&cues) >= 45, "{}", kept(&cues));
        (0..1_000_000).for_each(|cue| cues.follow(1_000 + cue, 1, 1, 9));
        assert!(kept(&cues) >= 45, "{}", kept(&cues));
        assert_eq!(cues.bytes(), Cues::bytes_for(64));
    }

    #[test]
    fn a_clock_that_jumps_tells_no_gap() {
        assert_eq!(gap(5, 4), None);
        assert_eq!(gap(0, u64::MAX), None);
        assert_eq!(gap(1_000, 3_000), Some(position(2_000)));
    }
}
