//! The place in the script of an interpreted parent: what file and line a child is created by.
//!
//! | parent | file | line |
//! |---|---|---|
//! | bash | the script or the file that it has sourced, or the text of `-c` | of the command that is executed |
//! | another shell | the script, or the text of `-c` | not known |
//! | make | its working directory | a hash of the command line of the child |
//! | Python | of the innermost frame outside of the standard library | of that frame |
//! | Perl | of the statement that is executed | of that statement |
//!
//! All of them are asked by functions that they export. Whoever does not export them has no place in a script.

mod bash;
mod perl;
mod python;
mod teller;

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

use regrow_abi::sites::{Arguments, Call, Interpreter, fnv1a_of_words};

use self::teller::{Teller, hash};
use crate::{state, sys, tell, text};

/// Words of the command line of the child that are looked at, and bytes of each.
const MOST_WORDS: usize = 4096;

/// The arguments of `main`.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static WORDS: AtomicPtr<*const u8> = AtomicPtr::new(core::ptr::null_mut());
/// The file, where it is the same for the whole process; 0: not yet known.
static FILE: AtomicU64 = AtomicU64::new(0);

/// Notes the arguments of `main`.
pub fn set_arguments(count: c_int, words: *const *const u8) {
    WORDS.store(words.cast_mut(), Relaxed);
    COUNT.store(usize::try_from(count).unwrap_or(0), Relaxed);
}

/// What the program was given.
pub fn call() -> Call {
    let (words, count) = (WORDS.load(Relaxed), COUNT.load(Relaxed).min(MOST_WORDS));
    // SAFETY: `main` was given so many words.
    let words = || (0..count).map(move |at| unsafe { text::bytes_of(*words.add(at)) });
    Call { arguments: Arguments::of(words()), hash: fnv1a_of_words(words()) }
}

/// File and line; 0, 0 where there is none. The words are those of the child's command line, or null. What the file's hash stands for is told.
pub fn place(argv: *const *const u8, tell: Teller<'_>) -> (u64, u64) {
    let is = |kind: Interpreter| state::interpreter() == kind as u8;
    let found = if is(Interpreter::None) {
        None
    } else if is(Interpreter::Bash) {
        bash::place(tell).or_else(|| Some((file_of_shell(tell)?, 0)))
    } else if is(Interpreter::Shell) {
        // `sh` may be bash.
        bash::place(tell).or_else(|| Some((file_of_shell(tell)?, 0)))
    } else if is(Interpreter::Make) {
        working_directory(tell).map(|file| (file, line_of_command(argv)))
    } else if is(Interpreter::Python) {
        python::place(tell)
    } else {
        perl::place(tell)
    };
    found.unwrap_or((0, 0))
}

/// Looks something up once.
fn once(kept: &AtomicU64, look: impl FnOnce() -> Option<u64>) -> Option<u64> {
    match kept.load(Relaxed) {
        0 => {
            let found = look()?;
            kept.store(found, Relaxed);
            Some(found)
        }
        found => Some(found),
    }
}

/// By the arguments of a shell: `sh FILE` or `sh -c TEXT`.
fn file_of_shell(tell: Teller<'_>) -> Option<u64> {
    once(&FILE, || {
        let words = WORDS.load(Relaxed);
        let word = |at: usize| {
            // SAFETY: `main` was given so many words.
            (at < COUNT.load(Relaxed)).then(|| unsafe { text::bytes_of(*words.add(at)) })
        };
        let mut at = 1;
        // Flags, of which the last may say that the next word is a text.
        while let Some(flags) = word(at).and_then(|word| word.strip_prefix(b"-").or(word.strip_prefix(b"+")))
        {
            at += 1;
            if flags.contains(&b'c') {
                break;
            }
        }
        word(at).map(|text| hash(text, tell))
    })
}

fn working_directory(tell: Teller<'_>) -> Option<u64> {
    once(&FILE, || {
        let mut buffer = [0; tell::LONGEST];
        sys::working_directory(&mut buffer).map(|text| hash(text, tell))
    })
}

/// A hash of the words of a command line.
fn line_of_command(argv: *const *const u8) -> u64 {
    let mut hash = 0u64;
    if argv.is_null() {
        return hash;
    }
    for at in 0..MOST_WORDS {
        // SAFETY: a list of C strings that ends in null, as exec takes it.
        let word = unsafe { *argv.add(at) };
        if word.is_null() {
            break;
        }
        // SAFETY: as above.
        let word = unsafe { text::bytes_of(word) };
        let (whole, rest) = word.as_chunks::<8>();
        let last = rest.iter().fold(rest.len() as u64, |last, &byte| last << 8 | u64::from(byte));
        let parts = whole.iter().map(|part| u64::from_le_bytes(*part)).chain([last]);
        hash =
            parts.fold(hash, |hash, part| (hash.rotate_left(23) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    hash.max(1)
}
