//! The agent's code, as the build made it, in a memfd for all images of a shard.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use regrow_abi::{PAGE_BYTES, PRIVATE_BYTES};
use regrow_sys::raw;

/// The agent's code in a memfd, for all images of a shard.
#[derive(Debug)]
pub struct AgentCode {
    fd: OwnedFd,
}

/// The agent, as the build made it.
static AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.bin"));

impl AgentCode {
    /// Puts the agent's code into a sealed memfd.
    ///
    /// # Errors
    /// As `memfd_create(2)` and `write(2)`.
    pub fn new() -> io::Result<AgentCode> {
        use rustix::fs::{SealFlags, fcntl_add_seals};
        let fd = raw::memfd("regrow-agent", 0)?;
        let mut file = std::fs::File::from(fd);
        io::Write::write_all(&mut file, AGENT)?;
        // The keeper's private memory and its canary are private mappings beyond the code.
        file.set_len(code_bytes() + PRIVATE_BYTES as u64 + PAGE_BYTES)?;
        let fd = OwnedFd::from(file);
        fcntl_add_seals(&fd, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
        Ok(AgentCode { fd })
    }

    /// The memfd.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Bytes of the agent's code, in whole pages.
pub(crate) fn code_bytes() -> u64 {
    (AGENT.len() as u64).next_multiple_of(PAGE_BYTES)
}
