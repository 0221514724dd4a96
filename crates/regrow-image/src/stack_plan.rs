//! The argument block of a run: where it goes on the program's stack, and how it is laid out.
//!
//! ```text
//!  low                                                                         high
//!  argc | argv[0..] | NULL | envp[0..] | NULL | auxv pairs … AT_NULL | strings
//!  ^ Block::address: at `entry` also the stack pointer                           ^ not above StackPlan::top
//! ```

use std::ffi::CStr;

/// Bytes that an image at `main` keeps free for the argument blocks of its runs.
pub const MAIN_ROOM_BYTES: u64 = 64 * 1024;

/// Entries of the auxiliary vector that are looked at.
pub mod at {
    /// `AT_NULL`: the end.
    pub const NULL: u64 = 0;
    /// `AT_BASE`: where the interpreter is.
    pub const BASE: u64 = 7;
    /// `AT_ENTRY`: the program's entry.
    pub const ENTRY: u64 = 9;
    /// `AT_RANDOM`: the address of 16 random bytes.
    pub const RANDOM: u64 = 25;
    /// `AT_EXECFN`: the address of the path given to exec.
    pub const EXECFN: u64 = 31;
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
pub struct ArgumentBlock {
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
    ) -> Option<ArgumentBlock> {
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
        Some(ArgumentBlock {
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
