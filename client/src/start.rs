//! What the kernel has put on the stack: arguments, environment, auxiliary vector.
//!
//! The strings stand there one after the other, each with its NUL. So arguments and environment go into a message as they are.

use core::ffi::CStr;

/// Where the path that was executed stands in the auxiliary vector.
const EXECUTED: usize = 31;
/// Where the effective user stands there.
const EFFECTIVE_USER: usize = 12;
/// Whether the program has more rights than its caller.
const SECURE: usize = 23;

/// See the module. Everything in it lives as long as the process.
pub struct Start {
    /// `argv`, which ends with null.
    pub args: &'static [*const u8],
    /// `environ`, which ends with null.
    pub env: *const *const u8,
    /// The strings of the environment.
    pub env_block: &'static [u8],
    /// What of the environment the client looks at.
    pub variables: Variables,
    /// The path that the kernel has executed.
    pub executed: &'static CStr,
    /// The effective user.
    pub user: u32,
    /// The file has the set-user-ID bit or the like.
    pub is_secure: bool,
}

/// The variables that the client looks at.
#[derive(Default, Clone, Copy)]
pub struct Variables {
    /// `PATH`.
    pub path: Option<&'static [u8]>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_folder: Option<&'static [u8]>,
    /// A variable is set that only the full command knows.
    pub for_command: bool,
}

impl Variables {
    fn look(&mut self, entry: &'static [u8]) {
        let value = |name: &[u8]| entry.strip_prefix(name);
        match entry.first() {
            // The first one counts, as for the C library.
            Some(b'P') => self.path = self.path.or(value(b"PATH=")),
            Some(b'X') => self.runtime_folder = self.runtime_folder.or(value(b"XDG_RUNTIME_DIR=")),
            Some(b'R') => {
                let known = value(b"REGROW_LOG=").or(value(b"REGROW_DISABLE="));
                self.for_command |= known.is_some();
            }
            _ => {}
        }
    }
}

impl Start {
    /// Reads the stack. `None` where it is not what the kernel makes.
    ///
    /// # Safety
    /// `stack` is where the stack pointer stood at the entry of the program.
    pub unsafe fn read(stack: *const usize) -> Option<Start> {
        // SAFETY: the kernel's layout: a count, so many pointers and null, pointers and null, pairs of numbers up to one of zero. The
        // strings that they point to end in NUL. Nobody changes them.
        unsafe {
            let args = core::slice::from_raw_parts(stack.add(1).cast::<*const u8>(), *stack);
            let env = stack.add(2 + *stack).cast::<*const u8>();
            let mut at = env;
            let mut variables = Variables::default();
            let mut end = *at;
            while !(*at).is_null() {
                if *at != end {
                    return None;
                }
                let entry = CStr::from_ptr((*at).cast()).to_bytes();
                variables.look(entry);
                end = end.add(entry.len() + 1);
                at = at.add(1);
            }
            let bytes = if (*env).is_null() { 0 } else { end.offset_from(*env) as usize };
            let block = if bytes == 0 { &[] } else { core::slice::from_raw_parts(*env, bytes) };
            let mut start =
                Start { args, env, env_block: block, variables, executed: c"", user: 0, is_secure: true };
            let mut pair = at.add(1).cast::<[usize; 2]>();
            while (*pair)[0] != 0 {
                let [kind, value] = *pair;
                match kind {
                    EXECUTED => start.executed = CStr::from_ptr(value as *const _),
                    EFFECTIVE_USER => start.user = value as u32,
                    SECURE => start.is_secure = value != 0,
                    _ => {}
                }
                pair = pair.add(1);
            }
            Some(start)
        }
    }

    /// An argument, without its NUL.
    pub fn arg(&self, number: usize) -> Option<&'static [u8]> {
        // SAFETY: see `read`.
        self.args.get(number).map(|&arg| unsafe { CStr::from_ptr(arg.cast()) }.to_bytes())
    }

    /// The arguments from a number on, as a list that ends with null.
    pub fn list_from(&self, number: usize) -> *const *const u8 {
        self.args.as_ptr().wrapping_add(number.min(self.args.len()))
    }

    /// The strings of the arguments from a number on.
    pub fn block_from(&self, number: usize) -> Option<&'static [u8]> {
        let Some(&first) = self.args.get(number) else { return Some(&[]) };
        let mut end = first;
        for &arg in self.args.get(number..)? {
            if arg != end {
                return None;
            }
            // SAFETY: see `read`.
            end = unsafe { arg.add(CStr::from_ptr(arg.cast()).count_bytes() + 1) };
        }
        // SAFETY: the strings stand one after the other, as was just seen.
        Some(unsafe { core::slice::from_raw_parts(first, end.offset_from(first) as usize) })
    }
}
