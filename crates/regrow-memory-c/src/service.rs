//! A service, as C programs have it: made, looked at, destroyed.

#![allow(unsafe_code, reason = "C knows functions by name, and passes pointers")]

use regrow_memory::{Service, ServiceOptions};

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
    });
    let own = ServiceOptions::default();
    let or = |told: u32, own: u32| if told == 0 { own } else { told };
    let chunks = or(told.chunks, own.chunks);
    let zones = if told.zones == 0 { own.zones.min(chunks as usize) } else { told.zones as usize };
    let made = Service::new(&ServiceOptions { chunks, zones, grow_by: or(told.grow_by, own.grow_by), ..own });
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
    let zones = u32::try_from(zones.len()).unwrap_or(u32::MAX);
    // SAFETY: see the contract.
    unsafe { state.write(RegrowMemoryState { zones, own_pages, free_pages }) };
    RegrowMemoryStatus::Ok
}
