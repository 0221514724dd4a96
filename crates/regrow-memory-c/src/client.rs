//! A client, as C programs have it: blocks by address, from all threads.

#![allow(unsafe_code, reason = "C knows functions by name, and passes pointers")]

use std::ffi::c_void;
use std::ptr::NonNull;

use regrow_memory::{Mode, PAGE_BYTES, RawClient, RawError};

use crate::service::RegrowMemoryService;
use crate::status::RegrowMemoryStatus;

/// A client of a service. All threads of the program may use it at the same time.
pub struct RegrowMemoryClient {
    pub(crate) raw: RawClient,
}

/// How the pages of a block come.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegrowMemoryMode {
    /// They are there when the block is given.
    Immediate = 0,
    /// They come when they are touched.
    Delayed = 1,
}

/// The mode of a number: whatever a C program passes, it is one of the two.
fn mode_of(mode: i32) -> Mode {
    if mode == RegrowMemoryMode::Immediate as i32 { Mode::Immediate } else { Mode::Delayed }
}

/// Makes a client of a service, which `regrow_memory_client_destroy` destroys.
///
/// # Safety
/// `service` is null or a service, and `client` null or where the client is to be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_client_new(
    service: *const RegrowMemoryService,
    client: *mut *mut RegrowMemoryClient,
) -> RegrowMemoryStatus {
    // SAFETY: see the contract.
    let Some(service) = (unsafe { service.as_ref() }) else { return RegrowMemoryStatus::Null };
    if client.is_null() {
        return RegrowMemoryStatus::Null;
    }
    let made = RegrowMemoryClient { raw: service.service.raw_client() };
    // SAFETY: see the contract.
    unsafe { client.write(Box::into_raw(Box::new(made))) };
    RegrowMemoryStatus::Ok
}

/// Destroys a client. Its blocks are nobody's from then on, and their memory goes with the service. Null is no client.
///
/// # Safety
/// `client` is null, or a client that was not destroyed before; neither it nor its blocks are used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_client_destroy(client: *mut RegrowMemoryClient) {
    if !client.is_null() {
        // SAFETY: see the contract; it was made by a box.
        drop(unsafe { Box::from_raw(client) });
    }
}

/// A block of so many bytes at least, at the beginning of a page: its address is written to `block`. What is in it is zero, or what this
/// client has written to a block before. `mode` is a RegrowMemoryMode.
///
/// # Safety
/// `client` is null or a client, and `block` null or where the address is to be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_alloc(
    client: *const RegrowMemoryClient,
    bytes: usize,
    mode: i32,
    block: *mut *mut c_void,
) -> RegrowMemoryStatus {
    // SAFETY: the contract is the same.
    unsafe { alloc(client, bytes, mode, false, block) }
}

/// The same, all of it zero.
///
/// # Safety
/// As `regrow_memory_alloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_alloc_zeroed(
    client: *const RegrowMemoryClient,
    bytes: usize,
    mode: i32,
    block: *mut *mut c_void,
) -> RegrowMemoryStatus {
    // SAFETY: the contract is the same.
    unsafe { alloc(client, bytes, mode, true, block) }
}

/// # Safety
/// As `regrow_memory_alloc`.
unsafe fn alloc(
    client: *const RegrowMemoryClient,
    bytes: usize,
    mode: i32,
    zeroed: bool,
    block: *mut *mut c_void,
) -> RegrowMemoryStatus {
    // SAFETY: see the contract.
    let Some(client) = (unsafe { client.as_ref() }) else { return RegrowMemoryStatus::Null };
    let Some(block) = NonNull::new(block) else { return RegrowMemoryStatus::Null };
    match client.raw.alloc(bytes.div_ceil(PAGE_BYTES) as u64, mode_of(mode), zeroed) {
        Ok(address) => {
            // SAFETY: see the contract.
            unsafe { block.write(address.as_ptr().cast()) };
            RegrowMemoryStatus::Ok
        }
        Err(error) => (&error).into(),
    }
}

/// Takes a block back, from any thread. Null is no block, and nothing is done.
///
/// # Safety
/// `client` is null or a client. The block is not used again. Any address may be passed: one that is no block's is a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_free(
    client: *const RegrowMemoryClient,
    block: *mut c_void,
) -> RegrowMemoryStatus {
    // SAFETY: see the contract.
    let Some(client) = (unsafe { client.as_ref() }) else { return RegrowMemoryStatus::Null };
    if block.is_null() {
        return RegrowMemoryStatus::Ok;
    }
    client.raw.free(block.cast()).into()
}

/// The same for callers that cannot look at a status: where the block cannot be taken back, the program ends by abort, and standard
/// error says which address was wrong, and how.
///
/// # Safety
/// As `regrow_memory_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_free_or_abort(client: *const RegrowMemoryClient, block: *mut c_void) {
    // SAFETY: see the contract.
    let freed = unsafe { client.as_ref() }
        .map(|client| if block.is_null() { Ok(()) } else { client.raw.free(block.cast()) });
    match freed {
        Some(Ok(())) => {}
        Some(Err(error)) => abort(&error),
        None => {
            eprintln!("regrow_memory: regrow_memory_free_or_abort: the client is null");
            std::process::abort();
        }
    }
}

fn abort(error: &RawError) -> ! {
    eprintln!("regrow_memory: regrow_memory_free_or_abort: {error}");
    std::process::abort();
}

/// Writes the bytes of the block that begins at an address to `bytes`: those that were asked for, and what there is behind them.
///
/// # Safety
/// `client` is null or a client, and `bytes` null or where the size is to be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_size(
    client: *const RegrowMemoryClient,
    block: *const c_void,
    bytes: *mut usize,
) -> RegrowMemoryStatus {
    // SAFETY: see the contract.
    let Some(client) = (unsafe { client.as_ref() }) else { return RegrowMemoryStatus::Null };
    let Some(bytes) = NonNull::new(bytes) else { return RegrowMemoryStatus::Null };
    match client.raw.size(block.cast()) {
        Ok(size) => {
            // SAFETY: see the contract.
            unsafe { bytes.write(size) };
            RegrowMemoryStatus::Ok
        }
        Err(error) => (&error).into(),
    }
}

/// Whether an address is in the range of a client's service.
///
/// # Safety
/// `client` is null or a client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_contains(
    client: *const RegrowMemoryClient,
    address: *const c_void,
) -> bool {
    // SAFETY: see the contract.
    unsafe { client.as_ref() }.is_some_and(|client| client.raw.contains(address.cast()))
}

/// Gives home what threads keep for their next requests.
///
/// # Safety
/// `client` is null or a client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_trim(client: *const RegrowMemoryClient) -> RegrowMemoryStatus {
    // SAFETY: see the contract.
    let Some(client) = (unsafe { client.as_ref() }) else { return RegrowMemoryStatus::Null };
    client.raw.trim();
    RegrowMemoryStatus::Ok
}
