//! What differs between a body and its image, and why it could not be compared.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use regrow_abi::VmaEntry;
use regrow_sys::maps::ReadMapsError;

/// What differs.
#[derive(Debug, thiserror::Error)]
pub enum Difference {
    /// A mapping is missing, is there in addition, or is another one.
    #[error("mapping {0:x?} is not that of the image")]
    Mapping(VmaEntry),
    /// Flags of a mapping (advice, locks) are not as in the seed.
    #[error("mapping {start:x} has flags {have}, the image has {want}")]
    Flags {
        /// Its first address.
        start: u64,
        /// The kernel's letters.
        have: String,
        /// The seed's.
        want: String,
    },
    /// A page has another content.
    #[error("page {address:x} differs from the image first at byte {offset}")]
    Page {
        /// Its address.
        address: u64,
        /// The first byte that differs.
        offset: usize,
    },
    /// A page that was anonymous in the image is not there.
    #[error("page {address:x} of the image is missing")]
    Missing {
        /// Its address.
        address: u64,
    },
    /// A mapping has another name than in the seed.
    #[error("mapping {start:x} is named {have}, in the image {want}")]
    Name {
        /// Its first address.
        start: u64,
        /// As the kernel names it.
        have: String,
        /// As it names the seed's.
        want: String,
    },
    /// A page is a guard, which the image has not there.
    #[error("page {address:x} is a guard page")]
    Guard {
        /// Its address.
        address: u64,
    },
    /// An area of the agent is not as in the seed.
    #[error("the agent's area at {start:x} is not that of the seed: {what}")]
    Agent {
        /// Its first address.
        start: u64,
        /// What differs.
        what: &'static str,
    },
    /// Something stands in the exchange that the last run was not told, and that was not its answer.
    #[error("the exchange is not clear")]
    Exchange,
    /// What the kernel tells of the address space, but lies in no page, is another than the seed's.
    #[error("/proc/{pid}/{file} is not as that of the seed")]
    Space {
        /// The keeper.
        pid: i32,
        /// The file.
        file: &'static str,
    },
    /// The body cannot be read.
    #[error("reading {what} of process {pid}: {source}")]
    Read {
        /// What.
        what: &'static str,
        /// The keeper, or the seed.
        pid: i32,
        /// Why.
        source: io::Error,
    },
    /// The mappings cannot be read.
    #[error(transparent)]
    Maps(#[from] ReadMapsError),
}

impl Difference {
    /// Whether all that differs is advice for huge pages, which the kernel has no way to take back. It changes nothing that
    /// a program can read.
    #[must_use]
    pub fn is_huge_page_advice(&self) -> bool {
        let Difference::Flags { have, want, .. } = self else { return false };
        let rest = |flags: &str| {
            let others = flags.split(' ').filter(|flag| !matches!(*flag, "hg" | "nh"));
            others.map(str::to_owned).collect::<Vec<_>>()
        };
        rest(have) == rest(want)
    }
}

/// Opens a file of a process.
pub(super) fn open(pid: i32, what: &'static str) -> Result<File, Difference> {
    let path = PathBuf::from(format!("/proc/{pid}/{what}"));
    File::open(path).map_err(|source| Difference::Read { what, pid, source })
}
