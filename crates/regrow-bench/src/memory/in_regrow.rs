//! What Regrow itself takes of the kernel where it makes a body or passes a request's body on, beside what the memory service could do there
//! (decision 047).
//!
//! ```text
//!   control area   a sealed file of its own, mapped, three pages written, and given up     by the service a zeroed block of as many bytes
//!   pages          private ones at their first touch     zeroed where they are     those of a file in memory, mapped once more and touched
//!   1 MiB          to a reader of 64 KiB at a time: through a pipe as the kernel makes it, through a larger one, by a file in memory
//! ```

use std::fs::File;
use std::hint::black_box;
use std::io::{self, PipeReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::thread;
use std::time::Instant;

use regrow_abi::{ARG_AREA_OFFSET, CONTROL_BYTES};
use regrow_memory::{Client, Mode, PAGE_BYTES, Service};
use regrow_sys::raw::memfd;
use rustix::fs::{SealFlags, fcntl_add_seals};
use rustix::pipe::fcntl_setpipe_size;

use super::turns::{ROUNDS, refused};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;
use crate::system::memory::{PrivateMemory, touch_shared, write_shared};

/// How often each is done in a turn.
const AT_ONCE: u32 = 64;
/// A region of a body.
const REGION_PAGES: usize = 16;
/// The body of a request, and how much of it a script reads at a time.
const BODY_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 64 << 10;
/// What the pipe of a long body holds in the web gateway.
const LARGE_BYTES: usize = 256 << 10;

/// Measures all of it.
pub(super) fn measure(service: &Service) -> Result<Vec<Figure>, BenchError> {
    let mut client = service.client();
    let file = memfd("regrow-bench", bytes(REGION_PAGES)).map_err(system)?;
    let mut region = PrivateMemory::map(REGION_PAGES * PAGE_BYTES).map_err(system)?;
    let input = Input::new();
    let times = in_turn([
        ("a body's control area: made, three pages written, given up", &mut || area().map_err(system)),
        ("a body's control area: a block of the service, zeroed", &mut || area_of(&mut client)),
        ("64 KiB of a body: new pages, at their first touch", &mut || {
            PrivateMemory::map(REGION_PAGES * PAGE_BYTES).map(|mut new| new.touch()).map_err(system)
        }),
        ("64 KiB of a body: zeroed where they are", &mut || {
            region.zero();
            region.touch();
            Ok(())
        }),
        ("64 KiB of a body: shared pages of a file in memory, mapped and touched", &mut || {
            touch_shared(file.as_fd(), REGION_PAGES * PAGE_BYTES).map_err(system)
        }),
        ("1 MiB to a process's input: a pipe of 64 KiB", &mut || input.by_pipe(None).map_err(system)),
        ("1 MiB to a process's input: a pipe of 256 KiB", &mut || {
            input.by_pipe(Some(LARGE_BYTES)).map_err(system)
        }),
        ("1 MiB to a process's input: a file in memory", &mut || input.by_file().map_err(system)),
    ])?;
    Ok(times.into_iter().map(|(name, time)| Figure::told(name, time, "us")).collect())
}

/// One way, by its name.
type Way<'a> = (&'static str, &'a mut dyn FnMut() -> Result<(), BenchError>);

/// The median time of each way, in microseconds. They have their turns one after the other.
fn in_turn<const N: usize>(mut ways: [Way<'_>; N]) -> Result<Vec<(&'static str, f64)>, BenchError> {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..ROUNDS {
        for (times, (_, way)) in times.iter_mut().zip(&mut ways) {
            let begun = Instant::now();
            (0..AT_ONCE).try_for_each(|_| way())?;
            times.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(AT_ONCE));
        }
    }
    Ok(ways.iter().map(|(name, _)| *name).zip(times.map(median)).collect())
}

fn system(error: io::Error) -> BenchError {
    BenchError::system("what Regrow takes of the kernel cannot be measured")(error)
}

fn bytes(pages: usize) -> u64 {
    (pages * PAGE_BYTES) as u64
}

/// As a body's control area is made: one page for the state, one for the order, one for arguments.
fn area() -> io::Result<()> {
    let file = memfd("regrow-bench", CONTROL_BYTES as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    write_shared(file.as_fd(), CONTROL_BYTES, &[0, PAGE_BYTES, ARG_AREA_OFFSET])
}

/// As much of the service, of which no other body sees what was there.
fn area_of(client: &mut Client) -> Result<(), BenchError> {
    let pages = CONTROL_BYTES.div_ceil(PAGE_BYTES) as u64;
    let mut block = client.alloc_zeroed(pages, Mode::Immediate).map_err(refused)?;
    for at in [0, PAGE_BYTES, ARG_AREA_OFFSET] {
        if let Some(byte) = block.get_mut(at) {
            *black_box(byte) = 1;
        }
    }
    client.free(block);
    Ok(())
}

/// A body on its way to a process, whose part a thread has.
struct Input {
    body: Vec<u8>,
}

impl Input {
    fn new() -> Input {
        // No two neighbouring pages begin alike.
        Input { body: (0u8..=250).cycle().take(BODY_BYTES).collect() }
    }

    /// By a pipe, which the reader empties meanwhile.
    fn by_pipe(&self, holds: Option<usize>) -> io::Result<()> {
        let (reader, mut writer) = io::pipe()?;
        if let Some(bytes) = holds {
            fcntl_setpipe_size(&writer, bytes)?;
        }
        thread::scope(|scope| {
            let reading = scope.spawn(|| read_all::<PipeReader>(reader));
            let written = writer.write_all(&self.body);
            drop(writer);
            let sum = reading.join().map_err(|_| io::Error::other("the reader panicked"))?;
            written?;
            self.check(sum?)
        })
    }

    /// By a file, which the process has when the body is whole.
    fn by_file(&self) -> io::Result<()> {
        let mut file = File::from(memfd("regrow-bench", 0)?);
        file.write_all(&self.body)?;
        file.rewind()?;
        let sum = thread::scope(|scope| scope.spawn(|| read_all(file)).join());
        self.check(sum.map_err(|_| io::Error::other("the reader panicked"))??)
    }

    fn check(&self, have: (usize, u64)) -> io::Result<()> {
        let mut want = (0, 0);
        self.body.chunks(READ_BYTES).for_each(|piece| note(&mut want, piece));
        if have == want { Ok(()) } else { Err(io::Error::other("what was read is not what was written")) }
    }
}

/// How long something is, and the sum of a byte in each 256.
fn note((length, sum): &mut (usize, u64), piece: &[u8]) {
    let offset = (256 - *length % 256) % 256;
    *sum += piece.iter().skip(offset).step_by(256).map(|&byte| u64::from(byte) + 1).sum::<u64>();
    *length += piece.len();
}

/// Reads to the end, as a script does.
fn read_all<R: Read>(mut from: R) -> io::Result<(usize, u64)> {
    let mut piece = vec![0; READ_BYTES];
    let mut seen = (0, 0);
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(seen),
            read => note(&mut seen, piece.get(..read).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow_memory::ServiceOptions;

    #[test]
    fn what_arrives_is_compared_whatever_its_pieces_are() {
        let input = Input::new();
        input.by_pipe(None).unwrap();
        input.by_pipe(Some(LARGE_BYTES)).unwrap();
        input.by_file().unwrap();
        let mut seen = (0, 0);
        input.body.chunks(1000).for_each(|piece| note(&mut seen, piece));
        input.check(seen).unwrap();
        let of_another = vec![7; BODY_BYTES];
        assert!(input.check(read_all(&of_another[..]).unwrap()).is_err());
        assert!(input.check(read_all(&input.body[1..]).unwrap()).is_err());
    }

    #[test]
    fn an_area_is_made_and_taken() {
        area().unwrap();
        let service = Service::new(&ServiceOptions { chunks: 4, ..ServiceOptions::default() }).unwrap();
        area_of(&mut service.client()).unwrap();
        assert!(service.zones().iter().all(|zone| zone.own_pages == zone.free_pages));
    }
}
