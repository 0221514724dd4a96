//! Handing 1 MiB to another process, by a domain of the memory service and by a pipe.
//!
//! ```text
//!   by a domain   the giver writes to each page of a block, sends it; the receiver reads each page, sends it back       a few blocks are under way
//!   by a pipe     the giver writes to each page of its buffer, writes it; the receiver reads it into its own, reads each page
//! ```
//!
//! Both ways go to the same process in turn, which checks what has come. Beside it stands what handing over costs when each block is asked for and
//! given back: then the service zeroes it, because the receiver might have written there.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use regrow_memory::{
    Backing, Domain, HandError, Mode, PAGE_BYTES, Peer, RemoteBlock, RemoteClient, Service, ServiceOptions,
};

use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;

use super::turns::{ROUNDS, refused};

/// What is handed over.
const BYTES: usize = 1 << 20;
const PAGES: u64 = (BYTES / PAGE_BYTES) as u64;
/// How many of them in a turn, and how many blocks are under way at most.
const AT_ONCE: u64 = 200;
const WINDOW: usize = 8;
/// How long the giver waits until it looks whether the receiver is there.
const PATIENCE: Duration = Duration::from_secs(1);
/// Room for all that lie in the receiver's inbox, and as many more.
const CHUNKS: u32 = 64;

/// How they go.
#[derive(Clone, Copy)]
enum Way {
    Pipe,
    /// The receiver sends them back.
    Back,
    /// The receiver gives them back to the service.
    Freed,
}

const WAYS: [Way; 3] = [Way::Pipe, Way::Back, Way::Freed];

/// Turns are told over the same pipe: which way it is, and the number of the first block.
type Turn = [u64; 2];

pub(super) fn measure() -> Result<[Figure; 4], BenchError> {
    let options =
        ServiceOptions { chunks: CHUNKS, zones: 1, backing: Backing::Memfd, ..ServiceOptions::default() };
    let service = Service::new(&options).map_err(refused)?;
    let folder = tempfile::tempdir().map_err(BenchError::system("a folder for the domain"))?;
    let domain = Domain::open(&service, &folder.path().join("memory")).map_err(failed)?;
    let mut giver = Giver::start(&domain).map_err(failed)?;
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (times, way) in times.iter_mut().zip(WAYS) {
            times.push(giver.turn(way).map_err(failed)?);
        }
    }
    giver.end().map_err(failed)?;
    let [pipe, back, freed] = times.map(median);
    let name = "handing 1 MiB to another process";
    Ok([
        Figure::at_least(&format!("{name}, against copying it through a pipe"), pipe / back, 20.0, "times"),
        Figure::told(&format!("{name}: by the service, blocks come back"), back, "us"),
        Figure::told(&format!("{name}: by the service, blocks are asked for and given back"), freed, "us"),
        Figure::told(&format!("{name}: by a pipe of 1 MiB"), pipe, "us"),
    ])
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BenchError {
    BenchError::system("handing memory to another process")(io::Error::other(error))
}

/// Writes to each page what it is.
fn stamp(bytes: &mut [u8], number: u64) {
    for (at, page) in (0u64..).zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
        if let Some(word) = page.first_chunk_mut() {
            *word = stamp_of(number, at);
        }
    }
}

fn stamp_of(number: u64, page: u64) -> [u8; 8] {
    (number << 16 | page).to_ne_bytes()
}

/// The numbers of a turn that are still to come. Blocks come in the order in which they were sent, but for those that meet their receiver while it looks.
struct Expected {
    first: u64,
    has_come: Vec<bool>,
}

impl Expected {
    fn new(first: u64) -> Expected {
        Expected { first, has_come: (0..AT_ONCE).map(|_| false).collect() }
    }

    /// Reads each page of a block, which is one of those, and comes once.
    fn check(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stamp = bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        let number = stamp >> 16;
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| self.has_come.get_mut(at)) {
            Some(has_come) if !*has_come => *has_come = true,
            _ => return Err(io::Error::other(format!("number {number} is not one that is to come"))),
        }
        check(bytes, number)
    }
}

/// Reads each page, and compares it with what should be there.
fn check(bytes: &[u8], number: u64) -> io::Result<()> {
    let is_right = |(at, page): (u64, &[u8])| page.first_chunk() == Some(&stamp_of(number, at));
    if bytes.len() == BYTES && (0u64..).zip(bytes.chunks_exact(PAGE_BYTES)).all(is_right) {
        return Ok(());
    }
    Err(io::Error::other(format!("number {number} is not what was handed over")))
}

/// This process.
struct Giver {
    client: RemoteClient,
    receiver: Child,
    peer: Peer,
    data: File,
    answers: File,
    blocks: Vec<RemoteBlock>,
    buffer: Vec<u8>,
    number: u64,
}

impl Giver {
    fn start(domain: &Domain) -> io::Result<Giver> {
        let mut client = RemoteClient::connect(domain.path()).map_err(io::Error::other)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "--memory-receiver"]).arg(domain.path());
        let mut receiver = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let gone = || io::Error::other("the receiver has no pipe");
        let data = File::from(OwnedFd::from(receiver.stdin.take().ok_or_else(gone)?));
        let mut answers = File::from(OwnedFd::from(receiver.stdout.take().ok_or_else(gone)?));
        rustix::pipe::fcntl_setpipe_size(data.as_fd(), BYTES)?;
        let peer = Peer::from_bits(read_word(&mut answers)?);
        let mut blocks = Vec::new();
        client.alloc_many(WINDOW, PAGES, Mode::Immediate, &mut blocks).map_err(io::Error::other)?;
        let buffer = vec![0; BYTES];
        Ok(Giver { client, receiver, peer, data, answers, blocks, buffer, number: 0 })
    }

    /// Microseconds of each of some.
    fn turn(&mut self, way: Way) -> io::Result<f64> {
        let first = self.number;
        self.number += AT_ONCE;
        let begun = Instant::now();
        let head: Turn = [way as u64, first];
        self.data.write_all(head.map(u64::to_ne_bytes).as_flattened())?;
        for number in first..self.number {
            match way {
                Way::Pipe => {
                    stamp(&mut self.buffer, number);
                    self.data.write_all(&self.buffer)?;
                }
                Way::Back => {
                    let mut block = self.next()?;
                    stamp(&mut block, number);
                    block.send_to(self.peer).map_err(io::Error::other)?;
                }
                Way::Freed => {
                    let mut block = self.client.alloc(PAGES, Mode::Immediate).map_err(io::Error::other)?;
                    stamp(&mut block, number);
                    self.send(block)?;
                }
            }
        }
        while matches!(way, Way::Back) && self.blocks.len() < WINDOW {
            let block = self.come_back()?;
            self.blocks.push(block);
        }
        let checked = read_word(&mut self.answers)?;
        let time = begun.elapsed();
        if checked != AT_ONCE {
            return Err(io::Error::other(format!("the receiver has checked {checked} of {AT_ONCE}")));
        }
        Ok(time.as_secs_f64() * 1e6 / f64::from(u32::try_from(AT_ONCE).unwrap_or(u32::MAX)))
    }

    fn next(&mut self) -> io::Result<RemoteBlock> {
        match self.blocks.pop() {
            Some(block) => Ok(block),
            None => self.come_back(),
        }
    }

    fn come_back(&mut self) -> io::Result<RemoteBlock> {
        loop {
            if let Some(come) = self.client.receive(Some(PATIENCE)).map_err(io::Error::other)? {
                return Ok(come);
            }
            if let Some(status) = self.receiver.try_wait()? {
                return Err(io::Error::other(format!("the receiver has ended: {status}")));
            }
        }
    }

    /// Sends a block; where the receiver's inbox is full, again.
    fn send(&self, mut block: RemoteBlock) -> io::Result<()> {
        loop {
            match block.send_to(self.peer) {
                Err(HandError::Full { block: Some(again), .. }) => {
                    block = *again;
                    std::thread::yield_now();
                }
                other => return other.map_err(io::Error::other),
            }
        }
    }

    fn end(mut self) -> io::Result<()> {
        drop(self.data);
        let status = self.receiver.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("the receiver has ended: {status}")))
        }
    }
}

fn read_word(file: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// What the other process does, which `regrow bench --memory` starts for itself: takes what comes, until its input ends.
///
/// # Errors
/// [`BenchError`] where something is not what was handed over.
pub fn receive(path: &Path) -> Result<(), BenchError> {
    let mut client = RemoteClient::connect(path).map_err(failed)?;
    receive_turns(&mut client).map_err(failed)
}

fn receive_turns(client: &mut RemoteClient) -> io::Result<()> {
    // Without a buffer between: what comes goes where it is wanted.
    let mut data = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut answers = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    answers.write_all(&client.peer().to_bits().to_ne_bytes())?;
    let mut buffer = vec![0; BYTES];
    let mut giver = None;
    loop {
        let way = match read_word(&mut data) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            way => way?,
        };
        let first = read_word(&mut data)?;
        let mut expected = Expected::new(first);
        for number in first..first + AT_ONCE {
            if way == Way::Pipe as u64 {
                data.read_exact(&mut buffer)?;
                check(&buffer, number)?;
                continue;
            }
            let come = client.receive(None).map_err(io::Error::other)?;
            let block = come.ok_or_else(|| io::Error::other("nothing has come"))?;
            expected.check(&block)?;
            if way == Way::Back as u64 {
                let own = client.peer();
                let giver = *giver.get_or_insert_with(|| {
                    client.peers().into_iter().find(|&peer| peer != own).unwrap_or(own)
                });
                block.send_to(giver).map_err(io::Error::other)?;
            }
        }
        answers.write_all(&AT_ONCE.to_ne_bytes())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_what_was_handed_over_is_found() {
        let mut bytes = vec![0; BYTES];
        stamp(&mut bytes, 7);
        assert!(check(&bytes, 7).is_ok() && check(&bytes, 8).is_err());
        assert!(check(&bytes[..BYTES - PAGE_BYTES], 7).is_err(), "a page is missing");
        bytes.swap(0, PAGE_BYTES);
        assert!(check(&bytes, 7).is_err(), "pages are not in their order");
    }

    #[test]
    fn blocks_may_change_places_but_each_comes_once() {
        let block = |number| {
            let mut bytes = vec![0; BYTES];
            stamp(&mut bytes, number);
            bytes
        };
        let mut expected = Expected::new(200);
        assert!(expected.check(&block(201)).is_ok() && expected.check(&block(200)).is_ok());
        assert!(expected.check(&block(201)).is_err(), "it has come");
        assert!(expected.check(&block(199)).is_err() && expected.check(&block(200 + AT_ONCE)).is_err());
        let mut torn = block(202);
        torn[PAGE_BYTES] ^= 1;
        assert!(expected.check(&torn).is_err(), "a page is another's");
    }
}
