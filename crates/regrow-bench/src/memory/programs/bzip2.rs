//! Compression as `bzip2` does it, with libbz2 (the port to Rust of its own code) through its C interface.
//!
//! What is allocated when, after the paper's section 4: at the beginning everything that libbz2 asks for through its hooks `bzalloc` and
//! `bzfree`, a block each (at level 9 about 1,830 pages); then for every 5,000 bytes of the input two pages of temporary data, into which they
//! are read, and which are freed when libbz2 has taken them. The input lies in memory before, and the output goes to memory that is there before.

#![allow(unsafe_code, reason = "libbz2 has a C interface")]

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;

use libbz2_rs_sys::{
    BZ_FINISH, BZ_OK, BZ_RUN, BZ_RUN_OK, BZ_STREAM_END, BZ2_bzCompress, BZ2_bzCompressEnd,
    BZ2_bzCompressInit, bz_stream,
};

use super::super::random::Random;
use super::super::source::{Program, Source};
use crate::error::BenchError;

/// Bytes that are handled at a time, and those of the block for them.
const AT_A_TIME: usize = 5000;
const TEMPORARY: usize = 2 * 4096;
/// Blocks of 900,000 bytes are sorted.
const LEVEL: c_int = 9;

/// The program: compresses an input.
#[derive(Debug, Clone)]
pub(in super::super) struct Bzip2 {
    pub(in super::super) input: Vec<u8>,
}

/// What the hooks work with: the blocks that libbz2 has, by their addresses.
struct Hooks<'a, S: Source> {
    source: &'a mut S,
    blocks: HashMap<usize, S::Block>,
}

/// `bzalloc`.
///
/// # Safety
/// `hooks` are those of a stream with this source.
unsafe extern "C" fn allocate<S: Source>(hooks: *mut c_void, items: c_int, size: c_int) -> *mut c_void {
    // SAFETY: `hooks` is the stream's `opaque`, which `compress` has made of its own `Hooks`, and nobody else uses them during a call of libbz2's.
    let hooks = unsafe { &mut *hooks.cast::<Hooks<'_, S>>() };
    let bytes = usize::try_from(items).ok().zip(usize::try_from(size).ok()).map(|(items, size)| items * size);
    let Some(Ok(mut block)) = bytes.map(|bytes| hooks.source.take(bytes)) else { return ptr::null_mut() };
    let start = block.as_mut_ptr();
    hooks.blocks.insert(start.addr(), block);
    start.cast()
}

/// `bzfree`.
///
/// # Safety
/// `hooks` are those of a stream with this source.
unsafe extern "C" fn free<S: Source>(hooks: *mut c_void, block: *mut c_void) {
    // SAFETY: as in `allocate`.
    let hooks = unsafe { &mut *hooks.cast::<Hooks<'_, S>>() };
    if let Some(block) = hooks.blocks.remove(&block.addr()) {
        hooks.source.give(block);
    }
}

impl Bzip2 {
    /// Text of so many bytes at least: words of 1 to 10 letters, of which some are far more frequent than others, in sentences.
    pub(in super::super) fn text(bytes: usize) -> Bzip2 {
        let mut random = Random::new(401);
        let word = |random: &mut Random| {
            let count = 1 + random.index(10);
            let letters = (0..count).map(|_| {
                let among = 13 + 13 * random.index(2);
                b"etaoinshrdlucmfwypvbgkjqxz"[random.index(among)]
            });
            letters.collect::<Vec<u8>>()
        };
        let words: Vec<Vec<u8>> = (0..20_000).map(|_| word(&mut random)).collect();
        let mut input = Vec::with_capacity(bytes + 16);
        while input.len() < bytes {
            // Frequent ones first: of each rank as often as of all between its half and itself.
            let frequent = 1 << random.index(15);
            input.extend(&words[random.index(frequent)]);
            input.push(if random.index(12) == 0 { b'\n' } else { b' ' });
        }
        Bzip2 { input }
    }

    /// One byte again and again: runs, for which there is next to nothing to do.
    pub(in super::super) fn runs(bytes: usize) -> Bzip2 {
        Bzip2 { input: vec![b'a'; bytes] }
    }
}

impl Program for Bzip2 {
    fn run<S: Source>(&self, source: &mut S) -> Result<Vec<u8>, BenchError> {
        let mut hooks = Hooks { source, blocks: HashMap::new() };
        let mut output = vec![0; self.input.len() / 100 * 101 + 600];
        // All calls get the same pointer, so that none makes another one invalid.
        let hooks: *mut Hooks<'_, S> = &raw mut hooks;
        let mut stream = bz_stream {
            next_in: ptr::null(),
            avail_in: 0,
            total_in_lo32: 0,
            total_in_hi32: 0,
            next_out: output.as_mut_ptr().cast(),
            avail_out: u32::try_from(output.len()).unwrap_or(u32::MAX),
            total_out_lo32: 0,
            total_out_hi32: 0,
            state: ptr::null_mut(),
            bzalloc: Some(allocate::<S>),
            bzfree: Some(free::<S>),
            opaque: hooks.cast(),
        };
        // SAFETY: the stream is as the interface wants it: no state yet, and hooks with what they work with, which lives until `BZ2_bzCompressEnd`.
        check(unsafe { BZ2_bzCompressInit(&raw mut stream, LEVEL, 0, 0) }, BZ_OK)?;
        // SAFETY: the stream was made by `BZ2_bzCompressInit`, and its hooks live.
        let written = unsafe { feed(&mut stream, hooks, &self.input) };
        let written = written.map(|()| output_bytes(&stream));
        // SAFETY: as above. It frees what libbz2 has allocated.
        unsafe { BZ2_bzCompressEnd(&raw mut stream) };
        output.truncate(written?);
        Ok(output)
    }
}

/// Reads the input through temporary blocks.
///
/// # Safety
/// The stream is one of `BZ2_bzCompressInit`, with room for the output, and the hooks are its own.
unsafe fn feed<S: Source>(
    stream: &mut bz_stream,
    hooks: *mut Hooks<'_, S>,
    input: &[u8],
) -> Result<(), BenchError> {
    for part in input.chunks(AT_A_TIME) {
        // SAFETY: the hooks are used by nobody between two calls of libbz2's.
        let mut block = unsafe { (*hooks).source.take(TEMPORARY)? };
        block[..part.len()].copy_from_slice(part);
        stream.next_in = block.as_ptr().cast();
        stream.avail_in = u32::try_from(part.len()).unwrap_or(0);
        while stream.avail_in > 0 {
            // SAFETY: the stream is good, its input is the block, which is there until all of it is taken.
            check(unsafe { BZ2_bzCompress(stream, BZ_RUN) }, BZ_RUN_OK)?;
        }
        // SAFETY: as above.
        unsafe { (*hooks).source.give(block) };
    }
    // SAFETY: the stream is good, and there is no input any more.
    check(unsafe { BZ2_bzCompress(stream, BZ_FINISH) }, BZ_STREAM_END)
}

fn output_bytes(stream: &bz_stream) -> usize {
    stream.total_out_lo32 as usize
}

fn check(answer: c_int, asked: c_int) -> Result<(), BenchError> {
    if answer == asked {
        return Ok(());
    }
    Err(BenchError::WrongRun { program: "bzip2".to_owned(), what: format!("libbz2 answers {answer}") })
}

#[cfg(test)]
mod tests {
    use libbz2_rs_sys::BZ2_bzBuffToBuffDecompress;

    use super::super::super::source::Kernel;
    use super::*;

    fn decompressed(packed: &mut [u8], bytes: usize) -> Vec<u8> {
        let mut plain = vec![0u8; bytes + 1];
        let mut length = u32::try_from(plain.len()).unwrap();
        // SAFETY: both buffers have the lengths that are said.
        let answer = unsafe {
            BZ2_bzBuffToBuffDecompress(
                plain.as_mut_ptr().cast(),
                &raw mut length,
                packed.as_mut_ptr().cast(),
                u32::try_from(packed.len()).unwrap(),
                0,
                0,
            )
        };
        assert_eq!(answer, BZ_OK);
        plain.truncate(length as usize);
        plain
    }

    #[test]
    fn what_is_compressed_is_the_input_again() {
        for program in [Bzip2::text(60_000), Bzip2::runs(60_000)] {
            let mut source = Kernel::default();
            let mut packed = program.run(&mut source).unwrap();
            assert!(packed.len() < program.input.len() / 2);
            assert_eq!(decompressed(&mut packed, program.input.len()), program.input);
            let parts = u32::try_from(program.input.len().div_ceil(AT_A_TIME)).unwrap();
            assert!(
                (3..20).contains(&(source.count() - parts)),
                "blocks of libbz2: {}",
                source.count() - parts
            );
        }
    }
}
