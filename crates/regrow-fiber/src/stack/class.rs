//! Classes: all stacks of one size that no thread has.

use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use regrow_sys::pages;

use super::region::{self, Region};
use super::size::{CLASSES, PAGE_BYTES, class_of};
use crate::error::StackError;

/// How many stacks of a size keep their memory while nobody has them.
pub const HOT_STACKS: usize = 1024;
static CLASS: [Mutex<Class>; CLASSES] = [const { Mutex::new(Class::new()) }; CLASSES];

/// A stack that nobody has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idle(pub(super) NonNull<u8>);

/// See the module.
struct Class {
    hot: Vec<Idle>,
    /// Their memory was given back.
    cold: Vec<Idle>,
    /// The last region, and how many of its stacks were ever used.
    region: Option<&'static Region>,
    used: usize,
    /// All stacks of all regions.
    stacks: usize,
}

fn lock(bytes: usize) -> std::sync::MutexGuard<'static, Class> {
    let class = &CLASS[class_of(bytes).min(CLASSES - 1)];
    // What is behind it is whole between any two operations.
    class.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes up to so many stacks, at least one; the hottest stands last.
pub(super) fn take(bytes: usize, count: usize, taken: &mut Vec<Idle>) -> Result<(), StackError> {
    let mut class = lock(bytes);
    let from = if class.hot.is_empty() { &mut class.cold } else { &mut class.hot };
    if from.is_empty() {
        return class.carve(bytes, count, taken);
    }
    let rest = from.len().saturating_sub(count);
    taken.extend(from.drain(rest..));
    Ok(())
}

/// Takes stacks back. Of those that are too many to stay hot the memory goes back to the kernel.
pub(super) fn put(bytes: usize, stacks: impl ExactSizeIterator<Item = Idle>) {
    let mut class = lock(bytes);
    let room = HOT_STACKS.saturating_sub(class.hot.len());
    let mut stacks = stacks;
    class.hot.extend(stacks.by_ref().take(room));
    let cold: Vec<Idle> = stacks.collect();
    if cold.is_empty() {
        return;
    }
    drop(class);
    give_memory_back(&cold.iter().map(|idle| (idle.0, bytes)).collect::<Vec<_>>());
    lock(bytes).cold.extend(cold);
}

impl Class {
    const fn new() -> Self {
        Self { hot: Vec::new(), cold: Vec::new(), region: None, used: 0, stacks: 0 }
    }

    /// Takes stacks that were never used.
    fn carve(&mut self, bytes: usize, count: usize, taken: &mut Vec<Idle>) -> Result<(), StackError> {
        let region = match self.region.filter(|region| self.used < region.stacks()) {
            Some(region) => region,
            None => {
                let region = Region::map(bytes, self.stacks)?;
                self.stacks += region.stacks();
                (self.region, self.used) = (Some(region), 0);
                region
            }
        };
        let end = (self.used + count).min(region.stacks());
        let bottoms: Vec<NonNull<u8>> = (self.used..end).map(|number| region.bottom(number)).collect();
        region::guard(&bottoms, bytes)?;
        self.used = end;
        taken.extend(bottoms.into_iter().rev().map(Idle));
        Ok(())
    }
}

/// Gives the memory of stacks back, above their guard pages.
#[allow(unsafe_code, reason = "memory is given back by its address")]
pub(super) fn give_memory_back(stacks: &[(NonNull<u8>, usize)]) {
    if cfg!(miri) {
        return;
    }
    let used = |&(bottom, bytes): &(NonNull<u8>, usize)| {
        // SAFETY: a stack is larger than its guard page.
        NonNull::slice_from_raw_parts(unsafe { bottom.add(PAGE_BYTES) }, bytes - PAGE_BYTES)
    };
    let ranges: Vec<NonNull<[u8]>> = stacks.iter().map(used).collect();
    for ranges in ranges.chunks(512) {
        let whole: usize = ranges.iter().map(|range| range.len()).sum();
        // SAFETY: nobody has these stacks, or has anything on them.
        unsafe {
            if pages::give_back(ranges).ok() != Some(whole) {
                for range in ranges {
                    // Memory that is locked stays.
                    let _ = pages::give_back_one(*range);
                }
            }
        }
    }
}

// SAFETY: it says where memory is that nobody has.
#[allow(unsafe_code, reason = "an address goes to another thread")]
unsafe impl Send for Idle {}
