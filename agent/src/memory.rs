//! Whole pages. There is no `memcpy` and no `memset` here on purpose: position-independent calls to them would need a
//! relocation. Where the compiler wants one, linking fails; copy with `arch::copy` there.

use crate::arch;
use regrow_abi::PAGE_BYTES;

const WORDS: usize = PAGE_BYTES as usize / 8;
/// Words of a cache line.
const LINE_WORDS: usize = arch::LINE_BYTES / 8;

/// Whether two pages differ.
///
/// # Safety
/// Both are readable, page-aligned pages that nobody writes meanwhile.
pub unsafe fn page_differs(a: *const u64, b: *const u64) -> bool {
    let mut at = 0;
    while at < WORDS {
        let mut difference = 0;
        let mut step = 0;
        while step < 16 {
            // SAFETY: `at + step` is below the number of words in a page.
            difference |= unsafe { *a.add(at + step) ^ *b.add(at + step) };
            step += 1;
        }
        if difference != 0 {
            return true;
        }
        at += 16;
    }
    false
}

/// Gives a page the content of another, and tells whether it differed. Only the cache lines that differ are written: a run has changed
/// a few of most pages, and the others stay in the caches of the processor that runs next. The first word is written in any case: the
/// kernel drops a page that a run has told it to free (`MADV_FREE`) later, unless somebody writes to it.
///
/// # Safety
/// `to` is a writable page that nobody uses meanwhile, `from` a readable one; both are aligned.
///
/// `next` are the two pages that come after these: the processor brings their lines into its caches meanwhile. They may be any addresses.
pub unsafe fn restore_page(to: *mut u64, from: *const u64, next: (u64, *const u8)) -> bool {
    let mut differed = false;
    let mut at = 0;
    while at < WORDS {
        arch::prefetch((next.0 as *const u8).wrapping_add(at * 8));
        arch::prefetch(next.1.wrapping_add(at * 8));
        // SAFETY: the line at word `at` lies in the page, as `LINE_WORDS` divides the number of words; both lines are aligned.
        unsafe { differed |= arch::restore_line(to.add(at), from.add(at)) };
        at += LINE_WORDS;
    }
    // SAFETY: the first word of the page.
    unsafe { to.write_volatile(to.read_volatile()) };
    differed
}

/// Whether a page holds nothing but zeros.
///
/// # Safety
/// The page is readable, and nobody writes to it meanwhile.
pub unsafe fn page_is_zero(address: u64) -> bool {
    let page = address as *const u64;
    let mut at = 0;
    // SAFETY: `at` is below the number of words in a page.
    while at < WORDS && unsafe { *page.add(at) } == 0 {
        at += 1;
    }
    at == WORDS
}

/// Copies a page.
///
/// # Safety
/// `to` is a writable page, `from` a readable one.
pub unsafe fn copy_page(to: u64, from: *const u8) {
    // SAFETY: see the contract.
    unsafe { arch::copy(to as *mut u8, from, PAGE_BYTES as usize) };
}

/// Zeroes a page.
///
/// # Safety
/// `to` is a writable page.
pub unsafe fn zero_page(to: u64) {
    // SAFETY: see the contract.
    unsafe { arch::fill(to as *mut u8, 0, PAGE_BYTES as usize) };
}
