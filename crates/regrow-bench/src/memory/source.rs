//! Where the blocks of a program come from: each mapped and unmapped by the kernel, asked of the memory service, or there already.

use std::collections::HashMap;
use std::ops::DerefMut;

use regrow_memory::{Block, Client, Mode, PAGE_BYTES};

use super::turns::refused;
use crate::error::BenchError;
use crate::system::memory::PrivateMemory;

/// Gives blocks and takes them back.
pub(super) trait Source {
    /// A block is its bytes, which hold anything.
    type Block: DerefMut<Target = [u8]>;

    /// A block of so many bytes, which are whole pages.
    fn take(&mut self, bytes: usize) -> Result<Self::Block, BenchError>;

    /// Takes a block back.
    fn give(&mut self, block: Self::Block);

    /// How many blocks it has given.
    fn count(&self) -> u32;
}

/// By `mmap` and `munmap`, a call for each block.
#[derive(Default)]
pub(super) struct Kernel {
    count: u32,
}

impl Source for Kernel {
    type Block = PrivateMemory;

    fn take(&mut self, bytes: usize) -> Result<PrivateMemory, BenchError> {
        self.count += 1;
        PrivateMemory::map(bytes.next_multiple_of(PAGE_BYTES)).map_err(BenchError::system("mmap"))
    }

    fn give(&mut self, block: PrivateMemory) {
        drop(block);
    }

    fn count(&self) -> u32 {
        self.count
    }
}

/// By the service.
pub(super) struct Served {
    client: Client,
    mode: Mode,
    count: u32,
}

impl Served {
    /// A client of the service's for a program.
    pub(super) fn new(client: Client, mode: Mode) -> Served {
        Served { client, mode, count: 0 }
    }
}

impl Source for Served {
    type Block = Block;

    fn take(&mut self, bytes: usize) -> Result<Block, BenchError> {
        self.count += 1;
        self.client.alloc(bytes.div_ceil(PAGE_BYTES) as u64, self.mode).map_err(refused)
    }

    fn give(&mut self, block: Block) {
        self.client.free(block);
    }

    fn count(&self) -> u32 {
        self.count
    }
}

/// Blocks that cost next to nothing: those that it has given before, of the same size. No allocator is quicker; what a program gains by it is
/// all that there is to gain.
#[derive(Default)]
pub(super) struct Ready {
    blocks: HashMap<usize, Vec<PrivateMemory>>,
    count: u32,
}

impl Source for Ready {
    type Block = PrivateMemory;

    fn take(&mut self, bytes: usize) -> Result<PrivateMemory, BenchError> {
        self.count += 1;
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        match self.blocks.get_mut(&bytes).and_then(Vec::pop) {
            Some(block) => Ok(block),
            None => PrivateMemory::map(bytes).map_err(BenchError::system("mmap")),
        }
    }

    fn give(&mut self, block: PrivateMemory) {
        self.blocks.entry(block.len()).or_default().push(block);
    }

    fn count(&self) -> u32 {
        self.count
    }
}

/// A program that can be run with any source of blocks.
pub(super) trait Program: Sync {
    /// Runs it once. What it has computed.
    fn run<S: Source>(&self, source: &mut S) -> Result<Vec<u8>, BenchError>;
}
