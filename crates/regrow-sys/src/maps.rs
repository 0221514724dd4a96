//! The reader of `/proc/PID/maps` and `/proc/PID/smaps`.
//!
//! A snapshot lists the mappings of an image with it, and every reset without `PROCMAP_QUERY` compares that
//! list with what a run left behind. A line that is misread there becomes memory that is not put back, so
//! the parser accepts exactly what the kernel writes and names line and field of anything else:
//!
//! ```text
//! 7f3a1c000000-7f3a1c021000 rw-p 00000000 00:00 0            [anon:arena]
//! start        end          perm offset   dev   inode        name
//! ```
//!
//! Invariants of a parsed list: `start < end`, both on a page boundary; mappings ascend and do not overlap
//! (the kernel promises it even while the process changes its mappings, see `proc_pid_maps(5)`).
//!
//! Two names cannot be told apart, because the kernel escapes a newline as `\012` but leaves a backslash
//! alone, and appends ` (deleted)` without a mark: a file whose own name holds the four characters `\012`
//! reads as if it held a newline, and a file whose own name ends in ` (deleted)` reads as deleted. Compare
//! device and inode where the identity of a file matters.
//!
//! Parsing allocates the list and one buffer for each file name; anonymous mappings cost nothing else.

mod error;
mod line;
mod mapping;
mod smaps;
#[cfg(test)]
mod tests;
mod text;

pub use error::{Field, MapsError, Problem, ReadMapsError};
pub use mapping::{MapName, Mapping};
pub use smaps::{SmapsEntry, VmFlag, VmFlags, parse_smaps, read_smaps};
use text::{Lines, read_proc};

/// Reads the whole text of a `maps` file.
///
/// # Errors
/// The first line that is not what the kernel writes, or a mapping that overlaps the one above it.
pub fn parse_maps(text: &[u8]) -> Result<Vec<Mapping>, MapsError> {
    let mut mappings = Vec::with_capacity(text.iter().filter(|&&byte| byte == b'\n').count());
    let mut lines = Lines::new(text);
    let mut floor = 0;
    while let Some((number, line)) = lines.next_line()? {
        let mapping = line::parse(line, number, floor)?;
        floor = mapping.end;
        mappings.push(mapping);
    }
    Ok(mappings)
}

/// The mappings of a process at present. A zombie and a kernel thread have none: the list is empty.
///
/// # Errors
/// When the process is gone, may not be looked at, or the text is not understood.
pub fn read_maps(pid: i32) -> Result<Vec<Mapping>, ReadMapsError> {
    let text = read_proc(pid, "maps")?;
    parse_maps(&text).map_err(|source| ReadMapsError::Parse { pid, file: "maps", source })
}
