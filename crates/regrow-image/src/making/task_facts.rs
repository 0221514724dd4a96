//! What the image's header says of the task and its address space.

use std::fs;

use regrow_abi::{ImageHeader, MAX_TID_WORDS, PROTOCOL_VERSION};
use regrow_sys::ptrace::{RseqConfig, TaskRegisters};

use crate::arch::{CANARY_OFFSET, snapshot_registers};
use crate::error::MakeError;
use crate::making::agent_place::AgentPlace;
use crate::making::memory::Memory;
use crate::making::remote::Remote;
use crate::making::stat::stat_fields;
use crate::point::Point;
use crate::recipe::Recipe;

/// What the image's header says of the task and the address space.
pub(crate) struct TaskFacts {
    pub(crate) registers: TaskRegisters,
    rseq: RseqConfig,
    robust_list: (u64, u64),
    tid_address: u64,
    signal_stack: [u64; 3],
    brk: u64,
    dumpable: u32,
    thp_disable: u32,
    memory_merge: u32,
    membarrier: u32,
    coredump_filter: u32,
    stat: Vec<u64>,
}

impl TaskFacts {
    pub(crate) fn read(remote: Remote, point: Point) -> Result<(Remote, TaskFacts), MakeError> {
        const PR_GET_TID_ADDRESS: u64 = 40;
        const MEMBARRIER_GET_REGISTRATIONS: u64 = 1 << 9;
        let registers = remote.stopped().registers().map_err(MakeError::tracing("reading registers"))?;
        let prctl = |remote: Remote, option: i32| {
            let args = [u64::from(option.unsigned_abs()), 0, 0, 0, 0, 0];
            remote
                .syscall(libc::SYS_prctl, args)
                .map(|(remote, result)| (remote, u32::try_from(result).unwrap_or(0)))
        };
        let (remote, dumpable) = prctl(remote, libc::PR_GET_DUMPABLE)?;
        let (remote, thp_disable) = prctl(remote, libc::PR_GET_THP_DISABLE)?;
        let (remote, memory_merge) = prctl(remote, 68)?;
        let (remote, brk) = remote.must("reading the break", libc::SYS_brk, [0; 6])?;
        let args = [MEMBARRIER_GET_REGISTRATIONS, 0, 0, 0, 0, 0];
        let (mut remote, membarrier) = remote.syscall(libc::SYS_membarrier, args)?;
        let mut tid_address = 0;
        let mut signal_stack = [0; 3];
        let (mut rseq, mut robust_list) = Default::default();
        if point != Point::Entry {
            // Memory below the red zone is free for use at a call, system calls included.
            let scratch = (registers.stack_pointer() - 1024) & !15;
            (remote, signal_stack) = read_signal_stack(remote, scratch)?;
            let args = [PR_GET_TID_ADDRESS, scratch, 0, 0, 0, 0];
            (remote, _) = remote.must("reading the tid address", libc::SYS_prctl, args)?;
            let mut word = [0; 8];
            remote.read_into(scratch, &mut word)?;
            remote.write(scratch, &[0; 8])?;
            tid_address = u64::from_ne_bytes(word);
            rseq = remote.stopped().rseq().map_err(MakeError::tracing("reading its rseq area"))?;
            robust_list =
                remote.stopped().robust_list().map_err(MakeError::tracing("reading its robust list"))?;
        }
        let filter =
            fs::read_to_string(format!("/proc/{}/coredump_filter", remote.pid())).unwrap_or_default();
        let facts = TaskFacts {
            registers,
            rseq,
            robust_list,
            tid_address,
            signal_stack,
            brk,
            dumpable,
            thp_disable,
            memory_merge,
            membarrier: u32::try_from(membarrier).unwrap_or(0),
            coredump_filter: u32::from_str_radix(filter.trim(), 16).unwrap_or(0),
            stat: stat_fields(remote.pid())?,
        };
        Ok((remote, facts))
    }

    pub(crate) fn header(
        &self,
        remote: &Remote,
        recipe: &Recipe<'_>,
        memory: &Memory,
        place: &AgentPlace,
    ) -> Result<ImageHeader, MakeError> {
        let field = |number: usize| self.stat.get(number - 3).copied().unwrap_or(0);
        let thread_pointer = self.registers.thread_pointer();
        let mut tid_words = [0; MAX_TID_WORDS];
        let found = match recipe.point {
            Point::Main | Point::Warm => memory.tid_words(remote, thread_pointer, self.tid_address)?,
            Point::Entry => Vec::new(),
        };
        for (to, from) in tid_words.iter_mut().zip(&found) {
            *to = *from;
        }
        Ok(ImageHeader {
            version: PROTOCOL_VERSION,
            point: recipe.point.number(),
            features: recipe.features,
            vma_count: u32::try_from(memory.vmas.len()).unwrap_or(u32::MAX),
            page_count: u32::try_from(memory.pages.len()).unwrap_or(u32::MAX),
            float_state_bytes: 0,
            tid_word_count: u32::try_from(found.len()).unwrap_or(0),
            rseq_bytes: if self.rseq.address == 0 { 0 } else { self.rseq.bytes },
            rseq_signature: self.rseq.signature,
            dumpable: self.dumpable,
            membarrier: self.membarrier,
            memory_merge: self.memory_merge,
            thp_disable: self.thp_disable,
            coredump_filter: self.coredump_filter,
            hot_zero_pages: recipe.hot_zero_pages,
            membarrier_tolerated: 0,
            vmas_offset: 0,
            pages_offset: 0,
            float_state_offset: 0,
            store_offset: 0,
            brk: self.brk,
            rseq_address: self.rseq.address,
            robust_list: self.robust_list.0,
            robust_list_bytes: self.robust_list.1,
            tid_address: self.tid_address,
            tid_words,
            signal_stack: self.signal_stack,
            random_address: 0,
            canary_address: self.canary(remote, recipe.point)?,
            thread_pointer,
            parent: rustix::process::getppid()
                .map_or(0, |pid| u64::from(pid.as_raw_nonzero().get().unsigned_abs())),
            agent_start: place.base,
            agent_end: place.end(),
            control_address: place.address(3),
            private_address: place.address(2),
            gate_address: 0,
            layout: [field(26), field(27), field(45), field(46), field(47)],
            bounds: [field(28), field(48), field(49), field(50), field(51)],
            registers: snapshot_registers(&self.registers),
        })
    }

    /// Where the stack canary is: both libcs keep it at this offset of the thread pointer, with a zero in its lowest byte
    /// (glibc) or the one above (musl). What is as small as a number or a pointer is none.
    fn canary(&self, remote: &Remote, point: Point) -> Result<u64, MakeError> {
        // Where a program stops itself there are calls under way that have saved it.
        if point != Point::Main || self.registers.thread_pointer() == 0 {
            return Ok(0);
        }
        let address = self.registers.thread_pointer() + CANARY_OFFSET;
        let mut word = [0; 8];
        remote.read_into(address, &mut word)?;
        let value = u64::from_ne_bytes(word);
        let is_canary = value >> 48 != 0 && (value & 0xff == 0 || value & 0xff00 == 0);
        Ok(if is_canary { address } else { 0 })
    }
}

/// The stack that the process has for signal handlers. `scratch` is memory that nobody uses.
fn read_signal_stack(remote: Remote, scratch: u64) -> Result<(Remote, [u64; 3]), MakeError> {
    let args = [0, scratch, 0, 0, 0, 0];
    let (remote, _) = remote.must("reading its signal stack", libc::SYS_sigaltstack, args)?;
    let mut bytes = [0; 24];
    remote.read_into(scratch, &mut bytes)?;
    remote.write(scratch, &[0; 24])?;
    let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    let (address, flags, size) =
        (words.next().unwrap_or(0), words.next().unwrap_or(0), words.next().unwrap_or(0));
    // The flags are 32 bits; what follows them is undefined.
    let flags = flags & 0xffff_ffff;
    let none = u64::from(libc::SS_DISABLE.unsigned_abs());
    Ok((remote, if flags & none == 0 { [address, flags, size] } else { [0; 3] }))
}
