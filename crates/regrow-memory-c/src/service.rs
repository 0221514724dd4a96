//! A service, as C programs have it: made, looked at, destroyed.

#![allow(unsafe_code, reason = "C knows functions by name, and passes pointers")]

use std::time::Duration;

use regrow_memory::{GiveBack, Service, ServiceOptions};

use crate::status::RegrowMemoryStatus;

/// A service.
pub struct RegrowMemoryService {
    pub(crate) service: Service,
}

/// How a service is made. A zero stands for what the service takes by itself.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RegrowMemoryOptions {
    /// How much memory it may use, in chunks of 2 MiB.
    pub chunks: u32,
    /// How many zones there are: as many as processors work at a time.
    pub zones: u32,
    /// The chunks by which a zone grows.
    pub grow_by: u32,
    /// Blocks of a chunk and more that nobody has needed for so long go back to the kernel.
    pub t1_ms: u32,
    /// The same of blocks of all sizes.
    pub t2_ms: u32,
}

/// What a service holds at a moment.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RegrowMemoryState {
    /// Zones.
    pub zones: u32,
    /// Pages of 4 KiB that the zones have.
    pub own_pages: u64,
    /// Those that no client has.
    pub free_pages: u64,
    /// Those of them that may be there in memory.
    pub idle_pages: u64,
    /// Pages that were given back to the kernel until now.
    pub given_back_pages: u64,
}

/// Makes a service, which `regrow_memory_service_destroy` destroys. Without options (null) it is 1 GiB large.
///
/// # Safety
/// `options` is null or points to options, and `service` to where the service is to be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_service_new(
    options: *const RegrowMemoryOptions,
    service: *mut *mut RegrowMemoryService,
) -> RegrowMemoryStatus {
    if service.is_null() {
        return RegrowMemoryStatus::Null;
    }
    // SAFETY: see the contract.
    let told = unsafe { options.as_ref() }.copied().unwrap_or(RegrowMemoryOptions {
        chunks: 0,
        zones: 0,
        grow_by: 0,
        t1_ms: 0,
        t2_ms: 0,
    });
    let own = ServiceOptions::default();
    let or = |told: u32, own: u32| if told == 0 { own } else { told };
    let chunks = or(told.chunks, own.chunks);
    let zones = if told.zones == 0 { own.zones.min(chunks as usize) } else { told.zones as usize };
    let period =
        |told: u32, own: Duration| if told == 0 { own } else { Duration::from_millis(u64::from(told)) };
    let (t1, t2) = (period(told.t1_ms, own.give_back.t1), period(told.t2_ms, own.give_back.t2));
    let give_back = GiveBack { t1, t2, ..own.give_back };
    let grow_by = or(told.grow_by, own.grow_by);
    let made = Service::new(&ServiceOptions { chunks, zones, grow_by, give_back, ..own });
    match made {
        Ok(made) => {
            // SAFETY: see the contract.
            unsafe { service.write(Box::into_raw(Box::new(RegrowMemoryService { service: made }))) };
            RegrowMemoryStatus::Ok
        }
        Err(error) => (&error).into(),
    }
}

/// Destroys a service. Its memory is there until its clients are destroyed, too. Null is no service, and nothing is done.
///
/// # Safety
/// `service` is null, or a service that was not destroyed before; it is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_service_destroy(service: *mut RegrowMemoryService) {
    if !service.is_null() {
        // SAFETY: see the contract; it was made by a box.
        drop(unsafe { Box::from_raw(service) });
    }
}

/// Writes what a service holds. What threads of its clients keep for their next requests counts as had by them.
///
/// # Safety
/// `service` is null or a service, and `state` null or where the state is to be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_service_state(
    service: *const RegrowMemoryService,
    state: *mut RegrowMemoryState,
) -> RegrowMemoryStatus {
    // SAFETY: see the contract.
    let Some(service) = (unsafe { service.as_ref() }) else { return RegrowMemoryStatus::Null };
    if state.is_null() {
        return RegrowMemoryStatus::Null;
    }
    let zones = service.service.zones();
    let own_pages = zones.iter().map(|zone| zone.own_pages).sum();
    let free_pages = zones.iter().map(|zone| zone.free_pages).sum();
    let idle_pages = zones.iter().map(|zone| zone.idle_pages).sum();
    let given_back_pages = service.service.giving_back().pages;
    let zones = u32::try_from(zones.len()).unwrap_or(u32::MAX);
    let held = RegrowMemoryState { zones, own_pages, free_pages, idle_pages, given_back_pages };
    // SAFETY: see the contract.
    unsafe { state.write(held) };
    RegrowMemoryStatus::Ok
}

/// Starts the thread that gives back what nobody needs: after t1_ms and t2_ms, and at once when the kernel says that memory is short. Once is
/// enough, and it ends with the service. A child of fork has none, and is told so (REGROW_MEMORY_STATUS_SYSTEM). Without it memory goes back by
/// `regrow_memory_service_give_back` alone.
///
/// # Safety
/// `service` is null or a service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_service_start_keeper(
    service: *const RegrowMemoryService,
) -> RegrowMemoryStatus {
    // SAFETY: see the contract.
    let Some(service) = (unsafe { service.as_ref() }) else { return RegrowMemoryStatus::Null };
    service.service.start_keeper();
    if service.service.has_keeper() { RegrowMemoryStatus::Ok } else { RegrowMemoryStatus::System }
}

/// Gives all pages back to the kernel that nobody uses, and writes how many these were to `pages`, which may be null. What threads of clients
/// keep for their next requests is in use: `regrow_memory_trim` has it go, too.
///
/// # Safety
/// `service` is null or a service, and `pages` null or where the number is to be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_service_give_back(
    service: *const RegrowMemoryService,
    pages: *mut u64,
) -> RegrowMemoryStatus {
    // SAFETY: see the contract.
    let Some(service) = (unsafe { service.as_ref() }) else { return RegrowMemoryStatus::Null };
    let given = service.service.give_back_now();
    if !pages.is_null() {
        // SAFETY: see the contract.
        unsafe { pages.write(given) };
    }
    RegrowMemoryStatus::Ok
}
