//! The block that the kernel puts at the top of a new program's stack, and the blocks that runs get in its place.
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

use std::ffi::CStr;

use regrow_abi::PAGE_BYTES;

use crate::make::MakeError;
use crate::remote::Remote;

/// Bytes that an image at `main` keeps free for the argument blocks of its runs.
pub const MAIN_ROOM_BYTES: u64 = 64 * 1024;

/// Entries of the auxiliary vector that are looked at.
pub mod at {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub const NULL: u64 = 0;
    pub const BASE: u64 = 7;
    pub const ENTRY: u64 = 9;
    pub const RANDOM: u64 = 25;
    pub const EXECFN: u64 = 31;
}

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

/// Where the block of a run goes, and what it carries besides the run's own strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackPlan {
    /// One past the block's last byte.
    pub top: u64,
    /// The block may not begin below.
    pub floor: u64,
    /// The auxiliary vector, `AT_NULL` included.
    pub auxv: Vec<(u64, u64)>,
}

/// A run's block, ready to be copied to its address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Where it goes: also the stack pointer of a run at `entry`.
    pub address: u64,
    /// Number of arguments.
    pub argc: u64,
    /// Address of `argv`.
    pub argv: u64,
    /// Address of `envp`.
    pub envp: u64,
    /// Address of the first argument string.
    pub argv0: u64,
    /// Address of the string for `AT_EXECFN`, when the run has one of its own.
    pub exec_path: Option<u64>,
    /// `arg_start`, `arg_end`, `env_start`, `env_end`.
    pub bounds: [u64; 4],
}

impl StackPlan {
    /// Lays a run's block out in `bytes` (which is emptied first). `None` when it does not fit.
    ///
    /// Both lists are blocks of NUL-terminated strings, as `(bytes, number of strings)`; `exec_path`, without its NUL,
    /// is what `AT_EXECFN` is to point to when it is not the image's own.
    pub fn lay_out(
        &self,
        args: (&[u8], usize),
        env: (&[u8], usize),
        exec_path: Option<&[u8]>,
        bytes: &mut Vec<u8>,
    ) -> Option<Block> {
        let words = 1 + args.1 + 1 + env.1 + 1 + 2 * self.auxv.len();
        let arrays = words as u64 * 8;
        let path_bytes = exec_path.map_or(0, |path| path.len() + 1);
        let strings = (args.0.len() + env.0.len() + path_bytes) as u64;
        let address = self.top.checked_sub(arrays + strings)? & !15;
        if address < self.floor {
            return None;
        }
        let arg_start = address + arrays;
        let env_start = arg_start + args.0.len() as u64;
        let env_end = env_start + env.0.len() as u64;
        bytes.clear();
        bytes.reserve(usize::try_from(arrays + strings).ok()?);
        let mut word = |value: u64| bytes.extend_from_slice(&value.to_ne_bytes());
        word(args.1 as u64);
        for (list, start) in [(args, arg_start), (env, env_start)] {
            let mut at = 0;
            for _ in 0..list.1 {
                word(start + at as u64);
                at += CStr::from_bytes_until_nul(list.0.get(at..)?).ok()?.to_bytes_with_nul().len();
            }
            word(0);
        }
        for &(key, value) in &self.auxv {
            word(key);
            word(if key == at::EXECFN && exec_path.is_some() { env_end } else { value });
        }
        bytes.extend_from_slice(args.0);
        bytes.extend_from_slice(env.0);
        if let Some(path) = exec_path {
            bytes.extend_from_slice(path);
            bytes.push(0);
        }
        Some(Block {
            address,
            argc: args.1 as u64,
            argv: address + 8,
            envp: address + 8 * (1 + args.1 as u64 + 1),
            argv0: arg_start,
            exec_path: exec_path.map(|_| env_end),
            bounds: [arg_start, env_start, env_start, env_end],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_kernels_layout() {
        let plan = StackPlan { top: 0x7000, floor: 0x1000, auxv: vec![(25, 77), (0, 0)] };
        let mut bytes = Vec::new();
        let block = plan.lay_out((b"a\0bc\0", 2), (b"X=1\0", 1), None, &mut bytes).expect("it fits");
        assert_eq!(block.address % 16, 0);
        assert!(block.address + bytes.len() as u64 <= 0x7000);
        let word =
            |index: usize| u64::from_ne_bytes(bytes[index * 8..index * 8 + 8].try_into().expect("8 bytes"));
        let string = |address: u64| {
            let at = usize::try_from(address - block.address).expect("inside");
            CStr::from_bytes_until_nul(&bytes[at..]).expect("terminated").to_bytes().to_vec()
        };
        assert_eq!(word(0), 2);
        assert_eq!(string(word(1)), b"a");
        assert_eq!(string(word(2)), b"bc");
        assert_eq!(word(3), 0);
        assert_eq!(block.envp, block.address + 4 * 8);
        assert_eq!(string(word(4)), b"X=1");
        assert_eq!((word(5), word(6), word(7), word(8), word(9)), (0, 25, 77, 0, 0));
        assert_eq!(block.bounds[1], block.bounds[2]);
        assert_eq!(string(block.bounds[0]), b"a");
        assert_eq!(block.bounds[3] - block.address, bytes.len() as u64);
    }

    #[test]
    fn a_block_that_is_too_large_does_not_fit() {
        let plan = StackPlan { top: 0x7000, floor: 0x6f00, auxv: vec![(0, 0)] };
        let long = [b'x'; 400];
        let mut args = long.to_vec();
        args.push(0);
        assert_eq!(plan.lay_out((&args, 1), (b"", 0), None, &mut Vec::new()), None);
    }

    #[test]
    fn no_arguments_and_no_environment() {
        let plan = StackPlan { top: 0x7000, floor: 0, auxv: vec![(0, 0)] };
        let mut bytes = Vec::new();
        let block = plan.lay_out((b"", 0), (b"", 0), None, &mut bytes).expect("it fits");
        assert_eq!(block.bounds[0], block.bounds[3]);
        assert_eq!(bytes.len(), 8 * 5);
    }
}
