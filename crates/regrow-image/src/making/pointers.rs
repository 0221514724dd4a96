//! The words of an image that hold what belongs to one run: pointers into the argument block, thread ids, a front end's gate and exchange.

use std::fs::File;
use std::os::unix::fs::FileExt;

use regrow_abi::{MAX_TID_WORDS, VmaEntry, vma_flags};
use regrow_sys::maps::Mapping;

use crate::error::{MakeError, refuse};
use crate::making::initial_stack::InitialStack;
use crate::making::memory::Memory;
use crate::making::remote::Remote;
use crate::patch::PatchKind;
use crate::stack_plan::at;

impl Memory {
    /// The pointers into the argument block that a run must get anew. The block's own arrays are not among them.
    ///
    /// A number that stands in the file already (`files` are the mappings) is a constant of the program.
    pub(crate) fn patches(
        &self,
        stack: &InitialStack,
        argv0: &[u8],
        files: &[Mapping],
    ) -> Vec<(u64, PatchKind)> {
        let own = stack.pointer..stack.arrays_end();
        let argv0_start = stack.argv.first().copied().unwrap_or(0);
        let argv0_range = argv0_start..argv0_start + argv0.len() as u64;
        let argc = stack.argv.len() as u64;
        let kind = |value: u64| {
            if value == argc {
                Some(PatchKind::Argc)
            } else if value == stack.argv_address() {
                Some(PatchKind::Argv)
            } else if value == stack.envp_address() {
                Some(PatchKind::Envp)
            } else if argv0_range.contains(&value) {
                Some(PatchKind::Argv0(value - argv0_start))
            } else {
                None
            }
        };
        let exec_path = stack.aux_address(at::EXECFN).zip(stack.aux(at::EXECFN));
        let is_constant =
            |address: u64, kind: PatchKind| kind == PatchKind::Argc && in_file(files, address) == Some(argc);
        self.words()
            .filter(|(address, _)| !own.contains(address))
            .filter_map(|(address, value)| Some((address, kind(value)?)))
            .filter(|&(address, kind)| !is_constant(address, kind))
            .chain(exec_path.map(|(address, value)| (address, PatchKind::ExecPath(value))))
            .collect()
    }

    /// The pointers to `envp`, of which the C library's `environ` is one if nothing has set a variable: the only part of the
    /// argument block that a front end gets anew.
    pub(crate) fn environment_patches(&self, stack: &InitialStack) -> Vec<(u64, PatchKind)> {
        let own = stack.pointer..stack.arrays_end();
        let envp = stack.envp_address();
        let words = self.words().filter(|(address, value)| *value == envp && !own.contains(address));
        words.map(|(address, _)| (address, PatchKind::Envp)).collect()
    }

    /// The environment variables whose strings somebody kept a pointer to, outside the block's own arrays.
    pub(crate) fn kept_variables(
        &self,
        stack: &InitialStack,
        remote: &Remote,
    ) -> Result<Vec<Vec<u8>>, MakeError> {
        let own = stack.pointer..stack.arrays_end();
        let (Some(&first), Some(&last)) = (stack.envp.first(), stack.envp.last()) else {
            return Ok(Vec::new());
        };
        let end = last + remote.read_string(last)?.len() as u64;
        let mut names = Vec::new();
        for (_, value) in
            self.words().filter(|(address, value)| !own.contains(address) && (first..=end).contains(value))
        {
            let at = stack.envp.partition_point(|&start| start <= value);
            let Some(&start) = at.checked_sub(1).and_then(|at| stack.envp.get(at)) else { continue };
            let mut name = remote.read_string(start)?;
            name.truncate(name.iter().position(|&byte| byte == b'=').unwrap_or(name.len()));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The words near the thread pointer that hold the thread's id.
    pub(crate) fn tid_words(
        &self,
        remote: &Remote,
        thread_pointer: u64,
        tid_address: u64,
    ) -> Result<Vec<u64>, MakeError> {
        let pid = remote.pid();
        let holds = |address: u64| -> Result<bool, MakeError> {
            let mut word = [0; 4];
            remote.read_into(address, &mut word)?;
            Ok(i32::from_ne_bytes(word) == pid)
        };
        if tid_address != 0
            && tid_address.is_multiple_of(4)
            && self.is_writable(tid_address)
            && holds(tid_address)?
        {
            return Ok(vec![tid_address]);
        }
        let mut words = Vec::new();
        for address in (thread_pointer..thread_pointer + 256).step_by(4) {
            if thread_pointer != 0
                && self.is_writable(address)
                && words.len() < MAX_TID_WORDS
                && holds(address)?
            {
                words.push(address);
            }
        }
        Ok(words)
    }

    /// The address of words that a front end has named (`what` they are for), if so many that can be written to are there.
    pub(crate) fn checked_words(&self, address: u64, words: u64, what: &str) -> Result<u64, MakeError> {
        let bytes = words * 8;
        let holds = |vma: &VmaEntry| {
            vma.start <= address && address.checked_add(bytes).is_some_and(|end| end <= vma.end)
        };
        let is_its_own = |vma: &VmaEntry| {
            vma.flags & (vma_flags::WRITE | vma_flags::HANDS_OFF | vma_flags::SHARED) == vma_flags::WRITE
        };
        let is_fit = address.is_multiple_of(8) && self.vmas.iter().any(|vma| holds(vma) && is_its_own(vma));
        if address == 0 || is_fit {
            return Ok(address);
        }
        refuse(format!("its {what} is at {address:x}, where it has no words that it can write to"))
    }
}

/// The word that the mapped file has for an address.
fn in_file(files: &[Mapping], address: u64) -> Option<u64> {
    let mapping = files.iter().find(|mapping| mapping.contains(address))?;
    let file = File::open(mapping.name.path()?).ok()?;
    let mut word = [0; 8];
    file.read_exact_at(&mut word, mapping.offset + (address - mapping.start)).ok()?;
    Some(u64::from_ne_bytes(word))
}
