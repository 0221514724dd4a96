//! The block that the kernel puts at the top of a new program's stack, read and changed before the program runs.
//!
//! ```text
//!  low                                                                         high
//!  argc | argv[0..] | NULL | envp[0..] | NULL | auxv pairs … AT_NULL | strings
//!  ^stack pointer at entry
//! ```
//!
//! At `entry` a run's block ends where the kernel's began. At `main` the program already stands deeper in the stack, so
//! the tracer moves the kernel's arrays down by [`MAIN_ROOM_BYTES`] before the first instruction runs, and the room
//! between is where the blocks of runs go. The auxiliary vector's own pointers (`AT_RANDOM`, `AT_EXECFN`, …) stay where
//! the kernel put them.

use regrow_abi::PAGE_BYTES;

use crate::error::MakeError;
use crate::making::remote::Remote;
use crate::stack_plan::{MAIN_ROOM_BYTES, at};

/// The kernel's block, read.
#[derive(Clone, Debug)]
pub(crate) struct InitialStack {
    pub(crate) pointer: u64,
    pub(crate) argv: Vec<u64>,
    pub(crate) envp: Vec<u64>,
    pub(crate) auxv: Vec<(u64, u64)>,
}

impl InitialStack {
    /// Reads the block at the stack pointer.
    pub(crate) fn read(remote: &Remote, pointer: u64) -> Result<InitialStack, MakeError> {
        // It is read by pages: there are more than a thousand words.
        let (mut page, mut bytes) = (u64::MAX, Vec::new());
        let mut word = |at: u64| -> Result<u64, MakeError> {
            if at & !(PAGE_BYTES - 1) != page {
                page = at & !(PAGE_BYTES - 1);
                bytes = remote.read(page, usize::try_from(PAGE_BYTES).unwrap_or(0))?;
            }
            let word = usize::try_from(at - page).ok().and_then(|from| bytes.get(from..)?.first_chunk());
            Ok(word.copied().map_or(0, u64::from_ne_bytes))
        };
        let argc = word(pointer)?;
        let mut at = pointer + 8;
        let mut list = |limit: u64| -> Result<Vec<u64>, MakeError> {
            let mut list = Vec::new();
            loop {
                let value = word(at)?;
                at += 8;
                if value == 0 {
                    return Ok(list);
                }
                list.push(value);
                if list.len() as u64 > limit {
                    return Err(MakeError::Refused("its initial stack has no end".to_owned()));
                }
            }
        };
        let argv = list(argc)?;
        let envp = list(1 << 20)?;
        let mut auxv = Vec::new();
        loop {
            let pair = (word(at)?, word(at + 8)?);
            at += 16;
            auxv.push(pair);
            if pair.0 == at::NULL {
                return Ok(InitialStack { pointer, argv, envp, auxv });
            }
        }
    }

    /// A value of the auxiliary vector.
    pub(crate) fn aux(&self, key: u64) -> Option<u64> {
        self.auxv.iter().find(|pair| pair.0 == key).map(|pair| pair.1)
    }

    fn array_bytes(&self) -> u64 {
        8 * (1 + self.argv.len() as u64 + 1 + self.envp.len() as u64 + 1 + 2 * self.auxv.len() as u64)
    }

    /// Where the value of an entry of the auxiliary vector stands.
    pub(crate) fn aux_address(&self, key: u64) -> Option<u64> {
        let index = self.auxv.iter().position(|pair| pair.0 == key)?;
        Some(self.arrays_end() - 16 * (self.auxv.len() - index) as u64 + 8)
    }

    /// Where `argv` starts.
    pub(crate) fn argv_address(&self) -> u64 {
        self.pointer + 8
    }

    /// Where `envp` starts.
    pub(crate) fn envp_address(&self) -> u64 {
        self.argv_address() + 8 * (self.argv.len() as u64 + 1)
    }

    /// One past the last array.
    pub(crate) fn arrays_end(&self) -> u64 {
        self.pointer + self.array_bytes()
    }

    /// Takes all arguments but the first out of the array, which stays where pointers to it may be kept.
    pub(crate) fn forget_arguments(&self, remote: &Remote) -> Result<(), MakeError> {
        remote.write(self.argv_address() + 8, &vec![0; 8 * (self.argv.len() - 1)])
    }

    /// Overwrites the strings of the environment, but for those whose name `keep` wants: a later run must not find what
    /// the first one was given.
    pub(crate) fn forget_environment(
        &self,
        remote: &Remote,
        keep: impl Fn(&[u8]) -> bool,
    ) -> Result<(), MakeError> {
        for &address in &self.envp {
            let string = remote.read_string(address)?;
            let name = string.split(|&byte| byte == b'=').next().unwrap_or_default();
            if !keep(name) {
                remote.write(address, &vec![0; string.len()])?;
            }
        }
        Ok(())
    }

    /// Writes the arrays again, lower by the room of `main` images; the strings stay. Returns the block there.
    pub(crate) fn moved_down(&self, remote: &Remote) -> Result<InitialStack, MakeError> {
        let pointer = (self.pointer - MAIN_ROOM_BYTES - self.array_bytes()) & !15;
        let mut words = vec![self.argv.len() as u64];
        words.extend(&self.argv);
        words.push(0);
        words.extend(&self.envp);
        words.push(0);
        words.extend(self.auxv.iter().flat_map(|pair| [pair.0, pair.1]));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        remote.write(pointer, &bytes)?;
        // Nothing points to the old arrays; they lie where the blocks of runs go.
        remote.write(self.pointer, &vec![0; bytes.len()])?;
        Ok(InitialStack { pointer, ..self.clone() })
    }
}
