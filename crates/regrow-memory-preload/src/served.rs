//! The service of this process: made when the first request comes, or when the library is loaded, whichever is first.
//!
//! A fork waits until no thread is in the middle of a request (`pthread_atfork`), so that the child's copy of the service is whole.

#![allow(unsafe_code, reason = "the loader and the C library call functions by address")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::MutexGuard;
use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use regrow_memory::raw::Held;
use regrow_memory::zone::Notice;
use regrow_memory::{GiveBack, Service, ServiceError, ServiceOptions, Slaves};

use crate::keeper::{self, Barred};
use crate::made::{self, Served};
use crate::settings::{RANGE_MIB, Settings, is_preloaded, is_there, look};
use crate::{counts, errno, notes};

static STATE: AtomicU8 = AtomicU8::new(NOT_YET);
const NOT_YET: u8 = 0;
const NOW: u8 = 1;
const DONE: u8 = 2;
/// The range: its first address, and how long it is.
static START: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// The service; `None` where this program is not served.
#[inline]
pub(crate) fn get() -> Option<&'static Served> {
    made::get().or_else(get_first)
}

#[cold]
fn get_first() -> Option<&'static Served> {
    if STATE.load(Acquire) != NOT_YET {
        return None;
    }
    begin();
    made::get()
}

/// The service, if an address is in its range.
pub(crate) fn of(address: *const c_void) -> Option<&'static Served> {
    let is_in = address.addr().wrapping_sub(START.load(Relaxed)) < BYTES.load(Relaxed);
    is_in.then(get)?
}

/// The part of an area that is in the range: its first address and its bytes, with the service.
pub(crate) fn part_of(address: *mut c_void, bytes: usize) -> Option<(&'static Served, *mut u8, usize)> {
    let (start, length) = (START.load(Relaxed), BYTES.load(Relaxed));
    let from = address.addr().max(start);
    let to = address.addr().saturating_add(bytes).min(start.saturating_add(length));
    (from < to).then(|| Some((get()?, address.with_addr(from).cast(), to - from)))?
}

fn begin() {
    if !is_there() || STATE.compare_exchange(NOT_YET, NOW, Acquire, Acquire).is_err() {
        return;
    }
    // What is read and made here must not change the error that the program sees.
    let error = errno::get();
    if look(c"LD_PRELOAD").is_some_and(is_preloaded) {
        match Settings::read(look) {
            Ok(settings) => serve(settings),
            Err(wrong) => errno::say(wrong),
        }
    }
    STATE.store(DONE, Release);
    errno::set(error);
}

fn serve(settings: Settings) {
    let Some(service) = service(settings) else { return };
    let client = single_threaded().map_or_else(|| service.raw_client(), |byte| service.raw_client_of(byte));
    let addresses = client.addresses();
    let served = Box::new(Served { service, client, mmap_from: settings.mmap_kib as usize * 1024 });
    if let Some(source) = look(c"REGROW_MEMORY_PRESSURE") {
        keeper::listen_to(source);
    }
    // SAFETY: the three functions live as long as the process: a preloaded library is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    START.store(addresses.start, Relaxed);
    BYTES.store(addresses.len(), Relaxed);
    made::set(served);
}

/// Where the C library says whether the process has one thread, if it does (glibc 2.32). The keeper, of which it does not know, frees nothing
/// by address.
fn single_threaded() -> Option<&'static AtomicU8> {
    // SAFETY: the name ends in a zero.
    let byte = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) }.cast::<u8>();
    // SAFETY: the C library has a byte of this name, which lives as long as the process, and which it writes before a second thread begins.
    (!byte.is_null()).then(|| unsafe { AtomicU8::from_ptr(byte) })
}

/// A service with the range that was asked for; without a setting, the largest that can be reserved. It has no threads but the keeper: a copy
/// of the process would not have them.
fn service(settings: Settings) -> Option<Service> {
    let zones = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize).clamp(1, 16);
    let mut mib = settings.range_mib.unwrap_or(RANGE_MIB);
    loop {
        let chunks = (mib / 2).max(1);
        let zones = zones.min(chunks as usize);
        let give_back = keeper::give_back(settings, zones);
        let options =
            ServiceOptions { chunks, zones, slaves: Slaves::Never, give_back, ..ServiceOptions::default() };
        // Where there is no period there is no keeper.
        let made = if settings.t1_ms == 0 && settings.t2_ms == 0 {
            Service::new(&ServiceOptions { give_back: GiveBack::NEVER, ..options })
        } else {
            Service::with_notice(&options, Notice::new(keeper::call))
        };
        match made {
            Ok(service) => return Some(service),
            Err(ServiceError::System { .. }) if settings.range_mib.is_none() && mib > 64 => mib /= 2,
            Err(error) => {
                errno::say(error);
                return None;
            }
        }
    }
}

/// What a fork holds.
struct HeldByFork {
    notes: Option<MutexGuard<'static, notes::Lists>>,
    // In this order they are let go.
    _requests: Held<'static>,
    _keeper: Barred,
}

/// Of the fork that is under way: another one waits for its locks.
static HELD: AtomicPtr<HeldByFork> = AtomicPtr::new(null_mut());

extern "C" fn before_fork() {
    let Some(served) = get() else { return };
    let (keeper, was_there) = keeper::bar_only();
    let requests = served.client.hold();
    if was_there {
        // A copy has the less to copy.
        served.service.give_back_surplus();
    }
    let mut held = Box::new(HeldByFork { notes: None, _requests: requests, _keeper: keeper });
    held.notes = Some(notes::hold());
    HELD.store(Box::into_raw(held), Relaxed);
}

extern "C" fn after_fork() {
    let held = HELD.swap(null_mut(), Relaxed);
    if !held.is_null() {
        // SAFETY: this thread has made the box before the fork, and nobody else takes it.
        let mut held = unsafe { Box::from_raw(held) };
        // The rest is given back to the notes.
        drop(held.notes.take());
    }
}

extern "C" fn in_child() {
    after_fork();
    counts::reset();
}

/// The loader calls this before the program begins.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

#[cfg(not(test))]
extern "C" fn at_load() {
    let _ = get();
}

/// And this when it ends.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

#[cfg(not(test))]
extern "C" fn at_end() {
    if get().is_some() {
        counts::report();
    }
}
