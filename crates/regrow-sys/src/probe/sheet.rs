//! The sheet that the examiner marks and its parent reads: one page of memory shared by the two.
//!
//! A mark outlives the process that made it. So a trial that ends its process (a filter of system calls may
//! do that) is known from a sheet that says "begun" and no more, and the other trials keep their marks.

#![allow(unsafe_code, reason = "maps the page that the sheet is in")]

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::feature::Feature;
use super::outcome::{TrialError, TrialResult};

/// The state of one trial on the sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialMark {
    /// Its turn has not come.
    Untouched,
    /// It was begun and has not ended.
    Begun,
    /// It ended.
    Ended(TrialResult),
}

const UNTOUCHED: u32 = 0;
const BEGUN: u32 = 1;
const WORKS: u32 = 2;
const MISBEHAVES: u32 = 3;
/// Error numbers are added to this one.
const ERRNO_BASE: u32 = 0x1_0000;

/// What the examiner and its parent share. All zero at first.
#[repr(C)]
pub(super) struct Sheet {
    marks: [AtomicU32; Feature::COUNT],
    /// The child that a trial made for the parent; the kernel writes its pid here as it makes it.
    pub(super) sibling: AtomicI32,
    /// A userfaultfd without restrictions was refused, one for user mode was given.
    pub(super) uffd_user_mode_only: AtomicBool,
}

impl Sheet {
    /// Notes that a trial begins.
    pub(super) fn begin(&self, feature: Feature) {
        self.set(feature, BEGUN);
    }

    /// Notes how it ended.
    pub(super) fn end(&self, feature: Feature, outcome: TrialResult) {
        let code = match outcome {
            Ok(()) => WORKS,
            Err(TrialError::Misbehaves) => MISBEHAVES,
            Err(TrialError::Errno(errno)) => ERRNO_BASE + errno.unsigned_abs(),
        };
        self.set(feature, code);
    }

    /// What is noted of a trial.
    pub(super) fn mark(&self, feature: Feature) -> TrialMark {
        match self.marks.get(feature.index()).map_or(UNTOUCHED, |mark| mark.load(SeqCst)) {
            UNTOUCHED => TrialMark::Untouched,
            BEGUN => TrialMark::Begun,
            WORKS => TrialMark::Ended(Ok(())),
            code => TrialMark::Ended(Err(match code.checked_sub(ERRNO_BASE).map(i32::try_from) {
                Some(Ok(errno)) => TrialError::Errno(errno),
                _ => TrialError::Misbehaves,
            })),
        }
    }

    fn set(&self, feature: Feature, code: u32) {
        if let Some(mark) = self.marks.get(feature.index()) {
            mark.store(code, SeqCst);
        }
    }
}

/// A sheet in memory that children share.
pub(super) struct SharedSheet(NonNull<Sheet>);

impl SharedSheet {
    /// Maps an empty one.
    pub(super) fn new() -> io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place of a mapping at address 0 without MAP_FIXED, so no memory in
        // use is replaced.
        let page =
            unsafe { mmap_anonymous(std::ptr::null_mut(), size_of::<Sheet>(), prot, MapFlags::SHARED)? };
        NonNull::new(page.cast()).map(Self).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
}

impl Deref for SharedSheet {
    type Target = Sheet;

    fn deref(&self) -> &Sheet {
        // SAFETY: `new` mapped a whole sheet at a page boundary; it stays until `drop`. Zeroes are a valid
        // sheet, and all its fields are atomics, so that other processes may write it at any time.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedSheet {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this range, and no reference to the sheet outlives the value. A failure
        // leaves a page mapped, which is all that could be done about it.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<Sheet>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_were_made() {
        let sheet = SharedSheet::new().unwrap();
        let outcomes = [
            Ok(()),
            Err(TrialError::Misbehaves),
            Err(TrialError::Errno(libc::EPERM)),
            Err(TrialError::Errno(libc::EHWPOISON)),
        ];
        for (feature, outcome) in Feature::all().zip(outcomes) {
            assert_eq!(sheet.mark(feature), TrialMark::Untouched);
            sheet.begin(feature);
            assert_eq!(sheet.mark(feature), TrialMark::Begun);
            sheet.end(feature, outcome);
            assert_eq!(sheet.mark(feature), TrialMark::Ended(outcome));
        }
        assert_eq!(sheet.mark(Feature::ExtendedState), TrialMark::Untouched);
    }
}
