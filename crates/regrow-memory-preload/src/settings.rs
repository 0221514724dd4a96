//! What variables of the environment say.
//!
//! | variable | what it says |
//! |---|---|
//! | `LD_PRELOAD` | names `libregrow_memory`: the program's memory is served |
//! | `REGROW_MEMORY_RANGE_MIB` | the size of the range; 16384 without it, or less where so much cannot be reserved |
//! | `REGROW_MEMORY_MMAP_KIB` | the smallest mapping that is served; 64 without it |
//! | `REGROW_MEMORY_T1_MS` | large blocks that nobody has needed for so long go back to the kernel; 1000 without it, 0: never |
//! | `REGROW_MEMORY_T2_MS` | the same of blocks of all sizes; 4000 without it, 0: never. Both 0: nothing goes back by itself |
//! | `REGROW_MEMORY_PRESSURE` | a pipe or the like that can be read when memory is short, instead of the kernel's word |
//! | `REGROW_MEMORY_STATISTICS` | a file to which each process appends a line at its end: how many requests were served |
//!
//! A value that is no number is said on standard error, and nothing is served.

#![allow(unsafe_code, reason = "the environment is the C library's")]

use std::ffi::{CStr, c_char};

/// The size of the range without a setting.
pub const RANGE_MIB: u32 = 16 << 10;
/// The smallest mapping without a setting.
pub const MMAP_KIB: u32 = 64;

/// What they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The size of the range; `None` where there is no setting.
    pub range_mib: Option<u32>,
    /// The smallest mapping that is served.
    pub mmap_kib: u32,
    /// The periods after which memory goes back.
    pub t1_ms: u32,
    /// See above.
    pub t2_ms: u32,
}

/// The first period without a setting.
pub const T1_MS: u32 = 1000;
/// The second one.
pub const T2_MS: u32 = 4000;

/// A setting that is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoNumber<'a> {
    name: &'a str,
    value: &'a [u8],
    least: u32,
}

impl std::fmt::Display for NoNumber<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = std::str::from_utf8(self.value).unwrap_or("(no text)");
        write!(to, "{}={value}: no number from {} to {}", self.name, self.least, u32::MAX)
    }
}

impl Settings {
    /// By what looks up a variable.
    ///
    /// # Errors
    /// [`NoNumber`].
    pub fn read<'a>(look: impl Fn(&'static CStr) -> Option<&'a [u8]>) -> Result<Settings, NoNumber<'a>> {
        let number = |name: &'static CStr, least: u32| {
            let Some(value) = look(name) else { return Ok(None) };
            let parsed = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u32>().ok());
            let wrong = NoNumber { name: name.to_str().unwrap_or_default(), value, least };
            parsed.filter(|&number| number >= least).map(Some).ok_or(wrong)
        };
        Ok(Settings {
            range_mib: number(c"REGROW_MEMORY_RANGE_MIB", 1)?,
            mmap_kib: number(c"REGROW_MEMORY_MMAP_KIB", 1)?.unwrap_or(MMAP_KIB),
            t1_ms: number(c"REGROW_MEMORY_T1_MS", 0)?.unwrap_or(T1_MS),
            t2_ms: number(c"REGROW_MEMORY_T2_MS", 0)?.unwrap_or(T2_MS),
        })
    }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Whether the C library has the environment as yet.
pub(crate) fn is_there() -> bool {
    // SAFETY: a word of the C library, which is set before a program has threads.
    !unsafe { environ }.is_null()
}

/// A variable of the environment, without a copy.
pub(crate) fn look(name: &'static CStr) -> Option<&'static [u8]> {
    // SAFETY: the name ends in a zero, and so does a value. Variables are looked at when a process begins, and by one thread at its end.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: as above.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes())
}

/// Whether a list of preloaded libraries names this one.
#[must_use]
pub fn is_preloaded(libraries: &[u8]) -> bool {
    let names = libraries.split(|&byte| byte == b':' || byte == b' ');
    names
        .filter_map(|path| path.rsplit(|&byte| byte == b'/').next())
        .any(|name| name.starts_with(b"libregrow_memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_numbers_and_a_wrong_one_is_named() {
        let read = |range: Option<&'static str>| {
            Settings::read(|name| (name == c"REGROW_MEMORY_RANGE_MIB").then_some(range?.as_bytes()))
        };
        assert_eq!(
            read(None),
            Ok(Settings { range_mib: None, mmap_kib: MMAP_KIB, t1_ms: T1_MS, t2_ms: T2_MS })
        );
        assert_eq!(read(Some("64")).map(|settings| settings.range_mib), Ok(Some(64)));
        for wrong in ["", "0", "-1", "64M", "99999999999"] {
            let said = read(Some(wrong)).expect_err("no number").to_string();
            assert_eq!(said, format!("REGROW_MEMORY_RANGE_MIB={wrong}: no number from 1 to 4294967295"));
        }
    }

    #[test]
    fn the_library_is_known_by_its_name_in_the_list() {
        for list in
            ["libregrow_memory.so", "/a/libother.so:/b/libregrow_memory.so", "a libregrow_memory_preload.so"]
        {
            assert!(is_preloaded(list.as_bytes()), "{list}");
        }
        for list in ["", "/libregrow_memory/other.so", "notlibregrow_memory.so"] {
            assert!(!is_preloaded(list.as_bytes()), "{list}");
        }
    }
}
