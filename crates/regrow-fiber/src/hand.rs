//! The hand of a task that waits for a value: a place on its stack, where whoever has one puts it.
//!
//! A value that is no larger than a word is put there as a whole word: some processors hand a word from a store to a load at no cost when both are of all
//! of it, and take several turns when they are of a part.

#![allow(unsafe_code, reason = "a value is put on another stack")]

use std::mem::{ManuallyDrop, MaybeUninit};

use crate::arch::{self, Word};
use crate::fiber::{fits, pack, unpack};

/// See the module.
pub(crate) union Place<T> {
    word: Word,
    value: ManuallyDrop<MaybeUninit<T>>,
}

impl<T> Place<T> {
    pub(crate) const fn new() -> Self {
        Self { value: ManuallyDrop::new(MaybeUninit::uninit()) }
    }

    /// Puts a value there.
    ///
    /// # Safety
    /// The place is there, and nobody else has it.
    #[inline(always)]
    pub(crate) unsafe fn put(place: *mut Self, value: T) {
        // SAFETY: the caller's promise.
        unsafe {
            if fits::<T>() {
                (&raw mut (*place).word).write(arch::whole(pack(&ManuallyDrop::new(value))));
            } else {
                (&raw mut (*place).value).cast::<T>().write(value);
            }
        }
    }

    /// Takes the value.
    ///
    /// # Safety
    /// It was put there, and was not taken.
    #[inline(always)]
    pub(crate) unsafe fn take(place: *const Self) -> T {
        // SAFETY: the caller's promise.
        unsafe { if fits::<T>() { unpack(arch::whole((*place).word)) } else { place.cast::<T>().read() } }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn passes<T: Clone + PartialEq + Debug>(value: &T) {
        let mut place = Place::new();
        let place = &raw mut place;
        for _ in 0..2 {
            // SAFETY: the place is this function's, and each value is taken once.
            let taken = unsafe {
                Place::put(place, value.clone());
                Place::take(place)
            };
            assert_eq!(taken, *value);
        }
    }

    /// Also those that have no whole word, or bytes that are nothing.
    #[test]
    fn values_of_every_size_pass_a_place_whole() {
        passes(&());
        passes(&7_u8);
        passes(&Some('c'));
        passes(&(1_u8, 2_u32));
        passes(&[3_u8; 7]);
        passes(&Box::new(4));
        passes(&String::from("longer than a word"));
        passes(&[5_u128; 9]);
    }
}
