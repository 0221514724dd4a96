//! The range of a process that the agent lives in.
//!
//! ```text
//!  reserved range of the process, next to what it has mapped already
//!  | agent code | image memfd (tables, saved pages) | keeper's private memory | control area | canary |
//!    r-x shared   r-- shared                          rw- private of a memfd     rw- shared    rw- private of a memfd
//! ```
//!
//! Neighbours are mappings of different files, so that the kernel can merge none of them. Code and image are sealed against writing, and
//! mapped as shared ones: so no write of any kind reaches them, by `/proc/self/mem` neither. A body's forks have the canary alone.

use regrow_abi::{CONTROL_BYTES, PAGE_BYTES, PRIVATE_BYTES, VmaEntry, vma_flags};

use crate::error::MakeError;
use crate::making::agent_code::code_bytes;
use crate::making::descriptors::fd;
use crate::making::remote::Remote;

/// Mappings of the agent.
pub(crate) const AGENT_PARTS: usize = 5;

/// The reserved range.
pub(crate) struct AgentPlace {
    pub(crate) base: u64,
    /// Length of each part.
    parts: [u64; AGENT_PARTS],
}

impl AgentPlace {
    pub(crate) fn reserve(remote: Remote, store_bytes: u64) -> Result<(Remote, AgentPlace), MakeError> {
        let parts = [
            code_bytes(),
            store_bytes.next_multiple_of(PAGE_BYTES),
            PRIVATE_BYTES as u64,
            CONTROL_BYTES as u64,
            PAGE_BYTES,
        ];
        let total = parts.iter().sum();
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE).unsigned_abs();
        let args = [0, total, 0, u64::from(flags), u64::MAX, 0];
        let (remote, base) = remote.must("reserving room for the agent", libc::SYS_mmap, args)?;
        Ok((remote, AgentPlace { base, parts }))
    }

    pub(crate) fn address(&self, part: usize) -> u64 {
        self.base + self.parts.iter().take(part).sum::<u64>()
    }

    pub(crate) fn end(&self) -> u64 {
        self.address(AGENT_PARTS)
    }

    pub(crate) fn entries(&self) -> Vec<VmaEntry> {
        let flags = vma_flags::HANDS_OFF | vma_flags::FILE;
        (0..AGENT_PARTS)
            .map(|part| VmaEntry {
                start: self.address(part),
                end: self.address(part + 1),
                flags,
                ..VmaEntry::default()
            })
            .collect()
    }

    /// Maps the parts, closes the descriptors that they came from, and lets the process run as the seed.
    pub(crate) fn start(&self, mut remote: Remote) -> Result<(), MakeError> {
        let (read, write, exec) = (1u64, 2u64, 4u64);
        let (shared, private, fixed) = (1u64, 2u64, 0x10u64);
        let maps = [
            (read | exec, shared | fixed, fd::CODE, 0),
            (read, shared | fixed, fd::STORE, 0),
            (read | write, private | fixed, fd::CODE, code_bytes()),
            (read | write, shared | fixed, fd::CONTROL, 0),
            (read | write, private | fixed, fd::CODE, code_bytes() + PRIVATE_BYTES as u64),
        ];
        for (part, (prot, flags, fd, offset)) in maps.into_iter().enumerate() {
            let bytes = self.parts.get(part).copied().unwrap_or(0);
            let map = |flags| [self.address(part), bytes, prot, flags, u64::from(fd.unsigned_abs()), offset];
            let mapped;
            (remote, mapped) = remote.syscall(libc::SYS_mmap, map(flags))?;
            if mapped < 0 {
                // Not every kernel maps a sealed file as a shared one (6.7 does, 6.12 does not).
                let args = map(flags & !shared | private);
                (remote, _) = remote.must("mapping the agent", libc::SYS_mmap, args)?;
            }
        }
        let socket = u64::from(fd::SOCKET.unsigned_abs());
        for (first, last) in [(0, socket - 1), (socket + 1, u64::from(u32::MAX))] {
            let args = [first, last, 0, 0, 0, 0];
            (remote, _) = remote.must("closing descriptors", libc::SYS_close_range, args)?;
        }
        let mut registers = remote.stopped().registers().map_err(MakeError::tracing("reading registers"))?;
        registers.begin_function(self.address(0), self.address(1), self.address(3) - 64);
        let stopped = remote.release().0;
        stopped.set_registers(registers).map_err(MakeError::tracing("setting registers"))?;
        stopped.detach().map_err(MakeError::tracing("detaching"))
    }
}
