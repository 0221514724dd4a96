//! Trials about userfaultfd: asynchronous write protection, and moving pages.

#![allow(unsafe_code, reason = "userfaultfd ioctls take addresses")]

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;

use super::memory::{Pages, ioctl, open_file};
use crate::probe::child::arg;
use crate::probe::outcome::{TrialError, TrialResult, expect};
use crate::probe::sheet::Sheet;
use crate::probe::wire::{self, UffdApi, UffdMove, UffdRegister, UffdWriteProtect};
use crate::raw;

/// Opens a userfaultfd with some features. Without the privilege for more, it sees faults in user mode alone;
/// the sheet says so.
fn open_with(features: u64, sheet: &Sheet) -> Result<OwnedFd, TrialError> {
    let create = |flags: usize| {
        let flags = flags | arg(libc::O_CLOEXEC);
        // SAFETY: numbers only.
        raw::check(unsafe { raw::syscall(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]) })
    };
    let number = match create(0) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let number = create(wire::UFFD_USER_MODE_ONLY)?;
            sheet.uffd_user_mode_only.store(true, SeqCst);
            number
        }
        result => result?,
    };
    let number = i32::try_from(number).map_err(|_large| TrialError::Misbehaves)?;
    // SAFETY: the kernel has just put this descriptor into the table, and nobody else knows it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    let mut api = UffdApi { api: wire::UFFD_API, features, ioctls: 0 };
    // SAFETY: the structure holds no address.
    unsafe { ioctl(&fd, wire::UFFDIO_API, &mut api)? };
    expect(api.features & features == features)?;
    Ok(fd)
}

/// Registers pages for some kind of fault.
fn register(fd: &OwnedFd, pages: &Pages, mode: u64) -> TrialResult {
    let mut args = UffdRegister { start: pages.address(0), len: pages.len_bytes(), mode, ioctls: 0 };
    // SAFETY: the range is a mapping of the trial. A fault in it that waits for an answer would wait until the
    // kernel ends the examiner; the trials make none.
    unsafe { ioctl(fd, wire::UFFDIO_REGISTER, &mut args)? };
    Ok(())
}

/// The first write to a protected page, by the program or by the kernel for it, goes on without a reader of the
/// descriptor, and is seen in the page map.
pub(super) fn wp_async(sheet: &Sheet) -> TrialResult {
    const PAGES: usize = 3;
    let fd = open_with(wire::UFFD_FEATURE_WP_ASYNC, sheet)?;
    let mut pages = Pages::map(PAGES)?;
    (0..PAGES).for_each(|page| pages.write(page, 1));
    register(&fd, &pages, wire::UFFD_REGISTER_WP)?;
    let mut protect =
        UffdWriteProtect { start: pages.address(0), len: pages.len_bytes(), mode: wire::UFFD_WRITE_PROTECT };
    // SAFETY: the range is a mapping of this trial, and stays mapped.
    unsafe { ioctl(&fd, wire::UFFDIO_WRITEPROTECT, &mut protect)? };
    expect(protected(&pages)? == [true, true, true])?;

    pages.write(0, 2);
    let (reader, writer) = rustix::pipe::pipe()?;
    rustix::io::write(&writer, &[3])?;
    rustix::io::read(&reader, pages.first_byte(1))?;
    expect([pages.read(0), pages.read(1), pages.read(2)] == [2, 3, 1])?;
    expect(protected(&pages)? == [false, false, true])
}

/// Which of three pages are write-protected, from the page map.
fn protected(pages: &Pages) -> Result<[bool; 3], TrialError> {
    const ENTRY_BYTES: usize = size_of::<u64>();
    let mut bytes = [0; 3 * ENTRY_BYTES];
    let page_bytes = pages.address(1) - pages.address(0);
    let offset = pages.address(0) / page_bytes * ENTRY_BYTES as u64;
    let length = rustix::io::pread(open_file(c"/proc/self/pagemap")?, &mut bytes, offset)?;
    expect(length == bytes.len())?;
    let mut answer = [false; 3];
    let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
    for (page, entry) in answer.iter_mut().zip(entries) {
        *page = u64::from_ne_bytes(*entry) & wire::PAGEMAP_WRITE_PROTECTED != 0;
    }
    Ok(answer)
}

/// A page leaves one mapping and is in another, with its content.
pub(super) fn move_page(sheet: &Sheet) -> TrialResult {
    let fd = open_with(wire::UFFD_FEATURE_MOVE, sheet)?;
    let (target, mut source) = (Pages::map(1)?, Pages::map(1)?);
    source.write(0, 0x5a);
    register(&fd, &target, wire::UFFD_REGISTER_MISSING)?;
    let mut args = UffdMove {
        dst: target.address(0),
        src: source.address(0),
        len: target.len_bytes(),
        ..UffdMove::default()
    };
    // SAFETY: both ranges are mappings of this trial, and stay mapped; no reference into them is alive.
    unsafe { ioctl(&fd, wire::UFFDIO_MOVE, &mut args)? };
    expect(u64::try_from(args.moved) == Ok(target.len_bytes()))?;
    expect(target.read(0) == 0x5a && source.read(0) == 0)
}
