//! What is known of a place in code.

use crate::text::{file_name, plain, short_function};

/// Where a frame is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The path of the executable or library; empty: not known.
    pub module: String,
    /// The return address in it.
    pub offset: u64,
    /// The function, demangled.
    pub function: Option<String>,
    /// How far behind the function's start the address is, where no line is known.
    pub function_offset: Option<u64>,
    /// The source file, as the debug information names it.
    pub file: Option<String>,
    /// The line in it, from 1.
    pub line: Option<u32>,
}

impl Place {
    /// The place in a few words, without the module where something better is known: `job.c:2139`, `start_job+0x1f`, `make+0x4a10`.
    #[must_use]
    pub fn short(&self) -> String {
        match (&self.file, self.line, &self.function) {
            (Some(file), Some(line), _) => format!("{}:{line}", plain(file_name(file))),
            (_, _, Some(function)) => match self.function_offset {
                Some(offset) => format!("{}+{offset:#x}", plain(&short_function(function))),
                None => plain(&short_function(function)),
            },
            _ if self.module.is_empty() => format!("?+{:#x}", self.offset),
            _ => format!("{}+{:#x}", plain(file_name(&self.module)), self.offset),
        }
    }

    /// Whether it is in the C library or the dynamic loader, whose callers say more.
    #[must_use]
    pub fn is_in_libc(&self) -> bool {
        let name = file_name(&self.module);
        ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libc.musl"]
            .iter()
            .any(|start| name.starts_with(start))
    }
}
