//! A block of pages that a client has. Dropped, it goes home, from any thread.

#![allow(unsafe_code, reason = "the memory of a block is looked at by its address")]

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::request::{Mode, Want};
use crate::store::Store;
use crate::units::{Page, pages_of};

/// Where the blocks of a client go home to. Each client counts its own: the count of the whole service would be a cache line that all of them write.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Home(Arc<Store>);

impl Home {
    /// That of a client, or of a single block.
    pub(crate) fn new(store: Arc<Store>) -> Arc<Home> {
        Arc::new(Home(store))
    }

    /// The service.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.0
    }
}

impl Deref for Home {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

/// See the module. It is its bytes: [`Deref`] gives them.
#[derive(Debug)]
pub struct Block {
    home: Arc<Home>,
    memory: NonNull<[u8]>,
    page: Page,
    want: Want,
}

// SAFETY: a block is the only way to its memory, and the service is used from all threads.
unsafe impl Send for Block {}

// SAFETY: a shared reference gives out shared references to the memory alone.
unsafe impl Sync for Block {}

impl Block {
    /// The block of a grant, of which there is one.
    pub(crate) fn new(home: Arc<Home>, page: Page, want: Want) -> Block {
        // SAFETY: the zone gives these pages to nobody else until the block goes home.
        let memory = unsafe { home.range().block(page, pages_of(want.order)) };
        Block { home, memory, page, want }
    }

    /// Its order: it has 2^order pages.
    #[must_use]
    #[inline]
    pub fn order(&self) -> u8 {
        self.want.order
    }

    /// How its pages have come.
    #[must_use]
    #[inline]
    pub fn mode(&self) -> Mode {
        if self.want.mapped { Mode::Immediate } else { Mode::Delayed }
    }

    /// Its first page, for who gives it back himself.
    pub(crate) fn into_page(self) -> Page {
        self.set_aside();
        let mut block = ManuallyDrop::new(self);
        // SAFETY: the block is not used after this, nor dropped.
        unsafe { std::ptr::drop_in_place(&raw mut block.home) };
        block.page
    }

    /// Its first page.
    pub(crate) fn page(&self) -> Page {
        self.page
    }

    /// What counts it.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn home(&self) -> *const Home {
        Arc::as_ptr(&self.home)
    }

    /// Nobody uses it until it is taken up.
    #[inline]
    pub(crate) fn set_aside(&self) {
        self.home.range().take_in(self.page, pages_of(self.want.order));
    }

    /// Somebody uses it again.
    #[inline]
    pub(crate) fn take_up(&self) {
        self.home.range().give_out(self.page, pages_of(self.want.order));
    }

    /// Whether the client of this home has it.
    #[inline]
    pub(crate) fn is_of(&self, home: &Arc<Home>) -> bool {
        Arc::ptr_eq(&self.home, home)
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: all bytes are initialized, by the kernel or by an earlier block, and nobody else changes them.
        unsafe { self.memory.as_ref() }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; this is the only reference to the only block of these pages.
        unsafe { self.memory.as_mut() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.set_aside();
        self.home.free(self.page);
    }
}
