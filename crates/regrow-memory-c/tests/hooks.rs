//! jemalloc has its extents from a client by the hooks, and mimalloc an arena in one block of the service.

#![allow(unsafe_code, reason = "C allocators are asked for memory")]

use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::thread;

use regrow_memory_c::{
    RegrowMemoryClient, RegrowMemoryOptions, RegrowMemoryService, RegrowMemoryState, RegrowMemoryStatus,
    regrow_memory_alloc_zeroed, regrow_memory_client_destroy, regrow_memory_client_new,
    regrow_memory_contains, regrow_memory_hooks_destroy, regrow_memory_hooks_new,
    regrow_memory_service_destroy, regrow_memory_service_new, regrow_memory_service_state,
    regrow_memory_trim,
};
use tikv_jemalloc_sys as jemalloc;

/// A service and a client, as a C program makes them.
struct Made {
    service: *mut RegrowMemoryService,
    client: *mut RegrowMemoryClient,
}

impl Made {
    fn new(chunks: u32) -> Made {
        let mut made = Made { service: std::ptr::null_mut(), client: std::ptr::null_mut() };
        let options = RegrowMemoryOptions { chunks, zones: 2, grow_by: 1, t1_ms: 0, t2_ms: 0 };
        // SAFETY: both are written to fields of the same type.
        unsafe {
            assert_eq!(
                regrow_memory_service_new(&raw const options, &raw mut made.service),
                RegrowMemoryStatus::Ok
            );
            assert_eq!(regrow_memory_client_new(made.service, &raw mut made.client), RegrowMemoryStatus::Ok);
        }
        made
    }

    fn pages_in_use(&self) -> u64 {
        let mut state =
            RegrowMemoryState { zones: 0, own_pages: 0, free_pages: 0, idle_pages: 0, given_back_pages: 0 };
        // SAFETY: client and service live as long as `self`.
        unsafe {
            assert_eq!(regrow_memory_trim(self.client), RegrowMemoryStatus::Ok);
            assert_eq!(regrow_memory_service_state(self.service, &raw mut state), RegrowMemoryStatus::Ok);
        }
        assert_eq!(state.zones, 2);
        state.own_pages - state.free_pages
    }

    fn has(&self, address: *const c_void) -> bool {
        // SAFETY: the client lives as long as `self`.
        unsafe { regrow_memory_contains(self.client, address) }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: the tests use neither afterwards.
        unsafe {
            regrow_memory_client_destroy(self.client);
            regrow_memory_service_destroy(self.service);
        }
    }
}

/// Has jemalloc do something with an arena.
fn order(arena: u32, what: &str) {
    let name = CString::new(format!("arena.{arena}.{what}")).expect("no zero in it");
    let (none, no_bytes) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the name ends in a zero, and the order reads and writes nothing.
    let status = unsafe { jemalloc::mallctl(name.as_ptr(), none, no_bytes, none, 0) };
    assert_eq!(status, 0, "{name:?}");
}

/// Allocates and frees under an arena; each block is stamped at its ends, and comes from the service.
fn use_arena(made: &Made, arena: usize, seed: usize) -> usize {
    let flags = jemalloc::MALLOCX_ARENA(arena) | jemalloc::MALLOCX_TCACHE_NONE;
    let (mut dice, mut blocks, mut count) = (seed, Vec::<(NonNull<usize>, usize)>::new(), 0);
    for step in 0..20_000 {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        if blocks.len() < 60 && dice % 100 < 55 {
            let large = if dice % 64 == 0 { 3_000_000 } else { 40_000 };
            let words = (dice >> 8) % large / 8 + 2;
            // SAFETY: the size is not zero.
            let block =
                NonNull::new(unsafe { jemalloc::mallocx(words * 8, flags) }).expect("memory").cast::<usize>();
            assert!(made.has(block.as_ptr().cast()));
            // SAFETY: the block has so many words, and is this thread's alone.
            unsafe {
                block.write(words);
                block.add(words - 1).write(step ^ words);
                block.write(step ^ words);
            }
            blocks.push((block, words));
            count += 1;
        } else if !blocks.is_empty() {
            let (block, words) = blocks.swap_remove(dice % blocks.len());
            // SAFETY: as above.
            let ends = unsafe { (block.read(), block.add(words - 1).read()) };
            assert_eq!(ends.0, ends.1, "somebody else has written there");
            // SAFETY: the block is jemalloc's, and is used no more.
            unsafe { jemalloc::dallocx(block.as_ptr().cast(), flags) };
        }
    }
    // SAFETY: as above.
    blocks.into_iter().for_each(|(block, _)| unsafe { jemalloc::dallocx(block.as_ptr().cast(), flags) });
    count
}

#[test]
fn an_arena_of_jemalloc_has_its_extents_from_the_service_and_gives_them_back() {
    let made = Made::new(256);
    // SAFETY: the client lives until the arena is gone.
    let hooks = unsafe { regrow_memory_hooks_new(made.client) };
    assert!(!hooks.is_null());
    let (mut arena, mut table) = (0u32, hooks.cast::<jemalloc::extent_hooks_t>());
    let mut bytes = size_of::<u32>();
    // SAFETY: `arenas.create` writes a number and reads a pointer to hooks, both of these sizes.
    let status = unsafe {
        let (old, new) = ((&raw mut arena).cast(), (&raw mut table).cast());
        jemalloc::mallctl(c"arenas.create".as_ptr(), old, &raw mut bytes, new, size_of_val(&table))
    };
    assert_eq!(status, 0);
    assert!(made.pages_in_use() > 0, "what the arena notes is in the service as well");
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=4)
            .map(|seed| {
                let made = SendRef(&made);
                scope.spawn(move || use_arena(made.get(), arena as usize, 0x9e37_79b9 * seed))
            })
            .collect();
        let counts: Vec<usize> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        assert!(counts.iter().all(|&count| count > 5000), "{counts:?}");
    });
    let before = made.pages_in_use();
    order(arena, "purge");
    order(arena, "destroy");
    assert!(before > 0, "jemalloc keeps extents");
    assert_eq!(made.pages_in_use(), 0, "of {before} pages, when the arena is gone");
    // SAFETY: no arena has them.
    unsafe { regrow_memory_hooks_destroy(hooks) };
}

/// A reference that threads share: a client is used from all threads.
#[derive(Clone, Copy)]
struct SendRef<'a>(&'a Made);

// SAFETY: the functions that are called with it are for all threads.
unsafe impl Send for SendRef<'_> {}

impl<'a> SendRef<'a> {
    fn get(self) -> &'a Made {
        self.0
    }
}

#[test]
fn mimalloc_has_an_arena_in_a_block_of_the_service() {
    use libmimalloc_sys as mimalloc;
    let made = Made::new(512);
    let bytes = 256 << 20;
    let mut block = std::ptr::null_mut();
    // SAFETY: the client lives; mimalloc has the block alone from then on.
    let arena = unsafe {
        assert_eq!(regrow_memory_alloc_zeroed(made.client, bytes, 1, &raw mut block), RegrowMemoryStatus::Ok);
        let mut arena: mimalloc::mi_arena_id_t = std::mem::zeroed();
        assert!(mimalloc::mi_manage_os_memory_ex(block, bytes, true, false, true, -1, true, &raw mut arena));
        arena
    };
    // SAFETY: the heap is this thread's.
    let heap = unsafe { mimalloc::mi_heap_new_in_arena(arena) };
    assert!(!heap.is_null());
    let mut served = 0;
    for size in [16, 4000, 64 << 10, 3 << 20] {
        // SAFETY: the heap lives, and a block of mimalloc's is freed once, here.
        unsafe {
            let own = mimalloc::mi_heap_malloc(heap, size).cast::<u8>();
            assert!(!own.is_null() && made.has(own.cast()), "{size} bytes");
            own.write_bytes(7, size);
            assert_eq!(own.add(size - 1).read(), 7);
            mimalloc::mi_free(own.cast());
        }
        served += 1;
    }
    assert_eq!(served, 4);
    // mimalloc never gives an arena up: the memory must stay.
    std::mem::forget(made);
}

#[test]
fn null_is_no_client_and_no_hooks() {
    // SAFETY: null may be passed.
    unsafe {
        assert!(regrow_memory_hooks_new(std::ptr::null()).is_null());
        regrow_memory_hooks_destroy(std::ptr::null_mut());
    }
}
