//! Which files are programs, and no launchers or commands of any regrow.

use regrow_abi::client::{LauncherMark, MARK_BYTES, MARK_SEARCHED};

use crate::buffer::Path;
use crate::sys::{self, Stat};

/// Whether a path is that of a program that is no regrow.
pub fn is_program(found: &Stat, path: &Path) -> bool {
    const ALL_EXECUTE: u32 = 0o111;
    if !found.is_file() || found.mode & ALL_EXECUTE == 0 {
        return false;
    }
    // An access list can take a right away that the mode shows.
    sys::may_execute(path.pointer()) && !has_mark(path)
}

/// Whether a file has the mark of all launchers and commands. One that cannot be read counts as one without.
pub fn has_mark(path: &Path) -> bool {
    const READ_ONLY_NO_TERMINAL: usize = 0o400;
    let fd = sys::open(path.pointer(), READ_ONLY_NO_TERMINAL) as i32;
    if fd < 0 {
        return false;
    }
    let mut head = core::mem::MaybeUninit::<[u8; MARK_SEARCHED]>::uninit();
    // SAFETY: the kernel fills what is looked at below, and any bytes are a valid array of them.
    let head = unsafe { head.assume_init_mut() };
    let got = sys::read(fd, head);
    sys::close(fd);
    let mark = LauncherMark::MARK.bytes();
    let head = head.get(..got.max(0) as usize).unwrap_or_default();
    let starts = head.len().saturating_sub(MARK_BYTES - 1);
    // The mark is aligned to four bytes, and so is where it stands.
    (0..starts).step_by(4).any(|at| head.get(at..at + MARK_BYTES) == Some(&mark))
}
