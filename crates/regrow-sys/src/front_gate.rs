//! A front end's side of a warm image, for programs in Rust: the stop, the gate, and what two processes must not have in common (`docs/warm.md`).

#![allow(
    unsafe_code,
    reason = "the agent's function is called by its address; the keys of hash tables are found in the thread's storage"
)]

use std::collections::hash_map::RandomState;
use std::ffi::c_void;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// Two words that hold the agent's function and its argument in a run.
#[repr(C, align(16))]
struct Gate {
    wait: AtomicPtr<c_void>,
    argument: AtomicPtr<c_void>,
}

static GATE: Gate =
    Gate { wait: AtomicPtr::new(std::ptr::null_mut()), argument: AtomicPtr::new(std::ptr::null_mut()) };

/// The address that a front end reports as its gate.
#[must_use]
pub fn address() -> usize {
    (&raw const GATE).addr()
}

/// Stops this process. What follows is done in each run.
///
/// # Errors
/// As `kill(2)`.
pub fn stop() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

/// Waits for the order, where the process was woken ahead of it. To be called once, by the only thread.
pub fn pass() {
    let wait = GATE.wait.swap(std::ptr::null_mut(), Ordering::Relaxed);
    if wait.is_null() {
        return;
    }
    // SAFETY: nobody but the agent writes the word, and it writes the address of such a function there (`docs/warm.md`, "The gate").
    let wait: extern "C" fn(*mut c_void) = unsafe { std::mem::transmute(wait) };
    wait(GATE.argument.swap(std::ptr::null_mut(), Ordering::Relaxed));
}

/// Takes a descriptor over that this process was started with.
///
/// # Errors
/// `EBADF` when there is none of this number.
pub fn descriptor_from_start(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a number is looked at, and marked as not to be passed on.
    if unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and by the caller's word a descriptor of the start, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Where the standard library keeps the keys of this thread's hash tables. They are drawn once in a thread, so that all runs of an image
/// would have the same.
#[derive(Debug)]
pub struct HashKeys(*mut [u64; 2]);

impl HashKeys {
    /// Finds them in the storage of this thread, and makes sure that it is them. `None`: not found; they are to be renewed in another way.
    #[must_use]
    pub fn find() -> Option<Self> {
        let [first, second] = next_keys();
        let expected = [first.wrapping_add(1), second];
        let found = thread_storage()
            .map(std::ptr::with_exposed_provenance_mut::<[u64; 2]>)
            // SAFETY: the range is this thread's own storage, mapped and initialised by the loader, aligned as words; nobody else runs on this thread.
            .find(|place| unsafe { place.read_volatile() } == expected)?;
        let keys = Self(found);
        // The place is right if the next keys are what was put there.
        let probe = [first ^ 0x5555_5555, !second];
        keys.set(probe);
        let is_right = next_keys() == probe;
        keys.set(expected);
        is_right.then_some(keys)
    }

    /// Has this thread's next hash tables begin with these.
    pub fn set(&self, keys: [u64; 2]) {
        // SAFETY: `find` has found the cell there, which is this thread's alone and of which no reference is ever given out.
        unsafe { self.0.write_volatile(keys) };
    }
}

/// The keys that the next hash table of this thread has.
fn next_keys() -> [u64; 2] {
    const { assert!(size_of::<RandomState>() == size_of::<[u64; 2]>()) };
    // SAFETY: two words of any value; their size was looked at above. `find` makes sure that they mean what it takes them for.
    unsafe { std::mem::transmute(RandomState::new()) }
}

/// The addresses of the words of this thread's static storage.
fn thread_storage() -> impl Iterator<Item = usize> {
    let mut bytes = 0;
    // SAFETY: the callback is called with a structure of the loader's for as long as it runs, and writes to `bytes` alone.
    unsafe { libc::dl_iterate_phdr(Some(add_storage), (&raw mut bytes).cast()) };
    crate::arch::thread_storage(bytes).step_by(size_of::<u64>())
}

/// Adds up the thread storage of the objects that the program began with.
///
/// # Safety
/// For `dl_iterate_phdr`, with the address of a counter.
unsafe extern "C" fn add_storage(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    bytes: *mut c_void,
) -> libc::c_int {
    // SAFETY: the loader gives a whole structure, whose program headers are there.
    let headers = unsafe { std::slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum)) };
    let own: u64 =
        headers.iter().filter(|header| header.p_type == libc::PT_TLS).map(|header| header.p_memsz).sum();
    // SAFETY: the caller's counter.
    unsafe { *bytes.cast::<usize>() += usize::try_from(own).unwrap_or(0).next_multiple_of(64) };
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_hash_tables_are_found_and_set() {
        let keys = HashKeys::find().expect("they stand in the thread's storage");
        keys.set([7, 8]);
        assert_eq!(next_keys(), [7, 8]);
        assert_eq!(next_keys(), [8, 8]);
    }

    #[test]
    fn a_process_that_was_not_woken_ahead_passes() {
        assert_eq!(address() % 8, 0);
        pass();
    }
}
